package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// protobufPrefix begins every message of Kubernetes' protobuf.
var protobufPrefix = []byte{'k', '8', 's', 0}

// MediaType returns the media type of a request's body, without parameters. The default is JSON. A malformed
// media type is returned unchanged. No decoder knows it, so the request is refused.
func MediaType(r *http.Request) string {
	header := r.Header.Get("Content-Type")
	if header == "" {
		return JSON
	}
	mediaType, _, err := mime.ParseMediaType(header)
	if err != nil {
		return header
	}
	return mediaType
}

// Decode decodes an object of a known type from a body. strict lists unknown and repeated fields. The error is
// a bad request if the body has another kind than want.
func Decode(body []byte, mediaType string, want schema.GroupVersionKind, into runtime.Object) (strict []error, err error) {
	if strict, err = decode(body, mediaType, want, into); err != nil {
		return nil, err
	}
	kind := into.GetObjectKind()
	if got := kind.GroupVersionKind(); !fits(got, want) {
		return nil, CannotHandle(got, want.Kind, fmt.Errorf("the path is that of version %q", want.GroupVersion()))
	}
	kind.SetGroupVersionKind(want)
	return strict, nil
}

// fits reports whether got is the wanted kind. got may lack the kind or the version.
func fits(got, want schema.GroupVersionKind) bool {
	return (got.Kind == "" || got.Kind == want.Kind) && (got.Version == "" || got.GroupVersion() == want.GroupVersion())
}

// CannotHandle returns the error for a body with an object of the kind got, which is not the wanted kind or
// has mistakes.
func CannotHandle(got schema.GroupVersionKind, want string, why error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %s", got.Kind, got.GroupVersion(), want, shortened(why)))
}

// maxReason is the largest size of the reason of an error, in bytes. Decoders quote input that they cannot
// decode, which may be a number with a million digits.
const maxReason = 4 << 10

func shortened(why error) string {
	text := why.Error()
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}

// DecodeOptions decodes the options of a deletion from a body. Clients send them in any version.
func DecodeOptions(body []byte, mediaType string, into *metav1.DeleteOptions) error {
	want := schema.GroupVersionKind{Kind: "DeleteOptions"}
	if _, err := decode(body, mediaType, want, into); err != nil {
		return err
	}
	if into.Kind != "" && into.Kind != want.Kind {
		return apierrors.NewBadRequest(fmt.Sprintf("no kind %q is registered for version %q: the body of a deletion is a %s", into.Kind, into.APIVersion, want.Kind))
	}
	return nil
}

func decode(body []byte, mediaType string, want schema.GroupVersionKind, into runtime.Object) (strict []error, err error) {
	switch mediaType {
	case JSON, "text/plain":
		strict, err = decodeJSON(body, into)
	case YAML, "text/yaml":
		strict, err = decodeYAML(body, into)
	case Protobuf:
		err = decodeProtobuf(body, want, into)
	default:
		return nil, UnsupportedMediaType(JSON, YAML, Protobuf)
	}
	if known := apierrors.APIStatus(nil); err == nil || errors.As(err, &known) {
		return strict, err
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return nil, CannotHandle(want, want.Kind, err)
	}
	if _, ok := errors.AsType[*quantityError](err); ok {
		return nil, CannotHandle(want, want.Kind, err)
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %s", want.Kind, shortened(err)))
}

// FromYAML converts a body from YAML to JSON. repeated is the mistake that a key appears twice.
func FromYAML(body []byte) (text []byte, repeated, err error) {
	if text, repeated = yaml.YAMLToJSONStrict(body); repeated == nil {
		return text, nil, nil
	}
	text, err = yaml.YAMLToJSON(body)
	return text, repeated, err
}

func decodeYAML(body []byte, into runtime.Object) (strict []error, err error) {
	text, repeated, err := FromYAML(body)
	if err != nil {
		return nil, err
	}
	if repeated != nil {
		strict = []error{repeated}
	}
	more, err := decodeJSON(text, into)
	return append(strict, more...), err
}

func decodeJSON(text []byte, into runtime.Object) (strict []error, err error) {
	if err := CheckQuantities(text, into); err != nil {
		return nil, err
	}
	return kjson.UnmarshalStrict(text, into)
}

func decodeProtobuf(body []byte, want schema.GroupVersionKind, into runtime.Object) error {
	rest, ok := bytes.CutPrefix(body, protobufPrefix)
	if !ok {
		return fmt.Errorf("provided data does not appear to be a protobuf message, expected prefix %v", protobufPrefix)
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(rest); err != nil {
		return err
	}
	// Without this check, the fields of another kind would be decoded as fields of this kind.
	if got := schema.FromAPIVersionAndKind(envelope.APIVersion, envelope.Kind); want.Version != "" && !fits(got, want) {
		return CannotHandle(got, want.Kind, fmt.Errorf("the path is that of version %q", want.GroupVersion()))
	}
	message, ok := into.(interface{ Unmarshal(data []byte) error })
	if !ok {
		return fmt.Errorf("%T has no protobuf", into)
	}
	if err := checkMessageQuantities(envelope.Raw, into); err != nil {
		return err
	}
	if err := message.Unmarshal(envelope.Raw); err != nil {
		return err
	}
	into.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(envelope.APIVersion, envelope.Kind))
	return nil
}

// UnsupportedMediaType returns the error for a body in an encoding that the server does not read.
func UnsupportedMediaType(known ...string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + strings.Join(known, ", "),
	}}
}
