package response

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	corev1 "portolan.dev/api/core/v1"
)

// envelopeFields maps a kind to its field in core.v1.Object.
var envelopeFields = readEnvelope()

// EnvelopeField returns the number of the field of a kind in core.v1.Object.
func EnvelopeField(kind string) protowire.Number { return envelopeFields[kind] }

func readEnvelope() map[string]protowire.Number {
	fields := (*corev1.Object)(nil).ProtoReflect().Descriptor().Fields()
	numbers := make(map[string]protowire.Number, fields.Len())
	for i := range fields.Len() {
		numbers[string(fields.Get(i).Message().Name())] = fields.Get(i).Number()
	}
	return numbers
}

// Check compares the field numbers of this package with the descriptor of a response that holds
// objects of a kind. An error is a mistake in the API definition.
func Check(answer protoreflect.MessageDescriptor, kind protoreflect.FullName) error {
	first := answer.Fields().ByNumber(1)
	switch {
	case first == nil || first.Message() == nil:
		return fmt.Errorf("%s has no message as field 1", answer.FullName())
	case first.Name() == "changes":
		return errors.Join(
			checkNumber(answer, "revision", fieldWatchRevision), checkNumber(answer, "synced", fieldSynced),
			checkNumber(first.Message(), "type", fieldChangeType), checkNumber(first.Message(), "revision", fieldChangeRevision),
			checkType(first.Message(), fieldChangeObject, kind),
		)
	}
	return errors.Join(
		checkNumber(answer, "warnings", fieldWarnings), checkNumber(answer, "next_page_token", fieldPageToken), checkNumber(answer, "revision", fieldListRevision), checkNumber(answer, "remaining", fieldRemaining),
		checkType(answer, fieldObject, kind),
	)
}

// checkNumber checks the number of a field if the message has it.
func checkNumber(message protoreflect.MessageDescriptor, name protoreflect.Name, number protowire.Number) error {
	if field := message.Fields().ByName(name); field != nil && field.Number() != number {
		return fmt.Errorf("%s is field %d, not %d", field.FullName(), field.Number(), number)
	}
	return nil
}

// checkType checks that a field has the type of the kind.
func checkType(message protoreflect.MessageDescriptor, number protowire.Number, kind protoreflect.FullName) error {
	if field := message.Fields().ByNumber(number); field == nil || field.Message() == nil || field.Message().FullName() != kind {
		return fmt.Errorf("%s has no %s as field %d", message.FullName(), kind, number)
	}
	return nil
}
