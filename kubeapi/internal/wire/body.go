package wire

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// protobufPrefix begins every message of Kubernetes' protobuf.
var protobufPrefix = []byte{'k', '8', 's', 0}

// MediaType returns the media type of a request's body, without parameters.
func MediaType(r *http.Request) string {
	mediaType, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return JSON
	}
	return mediaType
}

// Decode reads an object of a known type from a body. strict lists the fields that are unknown or there
// twice. The error is a bad request if the body is of another kind than want.
func Decode(body []byte, mediaType string, want schema.GroupVersionKind, into runtime.Object) (strict []error, err error) {
	if strict, err = decode(body, mediaType, want.Kind, into); err != nil {
		return nil, err
	}
	kind := into.GetObjectKind()
	if got := kind.GroupVersionKind(); got.Kind != "" && got.Kind != want.Kind || got.Version != "" && got.GroupVersion() != want.GroupVersion() {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s in version %q", got.Kind, got.GroupVersion(), want.Kind, want.GroupVersion()))
	}
	kind.SetGroupVersionKind(want)
	return strict, nil
}

// DecodeOptions reads the options of a request from a body. Clients give them any version.
func DecodeOptions(body []byte, mediaType string, into *metav1.DeleteOptions) error {
	_, err := decode(body, mediaType, "DeleteOptions", into)
	return err
}

func decode(body []byte, mediaType, kind string, into runtime.Object) (strict []error, err error) {
	switch mediaType {
	case JSON, "text/plain":
		strict, err = kjson.UnmarshalStrict(body, into)
	case YAML, "text/yaml":
		strict, err = decodeYAML(body, into)
	case Protobuf:
		err = decodeProtobuf(body, into)
	default:
		return nil, UnsupportedMediaType(mediaType, JSON, YAML, Protobuf)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is no %s of %s: %v", kind, mediaType, err))
	}
	return strict, nil
}

func decodeYAML(body []byte, into runtime.Object) (strict []error, err error) {
	text, err := yaml.YAMLToJSONStrict(body)
	if err != nil { // a key that is there twice is no mistake of the syntax
		strict = []error{err}
		if text, err = yaml.YAMLToJSON(body); err != nil {
			return nil, err
		}
	}
	more, err := kjson.UnmarshalStrict(text, into)
	return append(strict, more...), err
}

func decodeProtobuf(body []byte, into runtime.Object) error {
	rest, ok := bytes.CutPrefix(body, protobufPrefix)
	if !ok {
		return fmt.Errorf("it does not begin with %q", protobufPrefix)
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(rest); err != nil {
		return err
	}
	message, ok := into.(interface{ Unmarshal(data []byte) error })
	if !ok {
		return fmt.Errorf("%T has no protobuf", into)
	}
	if err := message.Unmarshal(envelope.Raw); err != nil {
		return err
	}
	into.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(envelope.APIVersion, envelope.Kind))
	return nil
}

// UnsupportedMediaType returns the error for a body in an encoding that the server does not read.
func UnsupportedMediaType(got string, known ...string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %v, got %s", known, got),
	}}
}
