package object

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// New returns an empty object of the kind with this name, such as "Service". It returns nil if the
// contract has no such kind.
func New(kind string) Object {
	message, ok := messages[kind]
	if !ok {
		return nil
	}
	o, _ := message.New().Interface().(Object)
	return o
}

// messages are the messages of the kinds, by the name of the kind.
var messages = messagesOf(envelopeOneof)

func messagesOf(oneof protoreflect.OneofDescriptor) map[string]protoreflect.MessageType {
	found := make(map[string]protoreflect.MessageType, oneof.Fields().Len())
	for i := range oneof.Fields().Len() {
		descriptor := oneof.Fields().Get(i).Message()
		message, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.FullName())
		if err != nil {
			panic(err) // impossible: the message is in the package of the envelope
		}
		found[string(descriptor.Name())] = message
	}
	return found
}
