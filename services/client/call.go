package client

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// Call calls the method of a verb of a kind, and returns its response. values are the fields of the
// request by name. Values for fields that the request lacks are left out, such as the namespace of a
// Node. The objects are set in the field for objects of the kind.
func Call(ctx context.Context, conn grpc.ClientConnInterface, kind *kinds.Kind, verb kinds.Verb, values map[string]any, objects ...object.Object) (protoreflect.Message, error) {
	request, response := newMessage(kind.Method(verb)+"Request"), newMessage(kind.Method(verb)+"Response")
	setFields(request, values)
	for _, o := range objects {
		request.Set(kind.FieldIn(request.Descriptor()), protoreflect.ValueOfMessage(o.ProtoReflect()))
	}
	return response, conn.Invoke(ctx, kind.FullMethod(verb), request.Interface(), response.Interface())
}

// Object is like Call, and returns the object in the response.
func Object(ctx context.Context, conn grpc.ClientConnInterface, kind *kinds.Kind, verb kinds.Verb, values map[string]any, objects ...object.Object) (object.Object, error) {
	response, err := Call(ctx, conn, kind, verb, values, objects...)
	if err != nil {
		return nil, err
	}
	return ObjectIn(response, kind), nil
}

// ObjectIn returns the object of a kind in a response.
func ObjectIn(response protoreflect.Message, kind *kinds.Kind) object.Object {
	o, _ := response.Get(kind.FieldIn(response.Descriptor())).Message().Interface().(object.Object)
	return o
}

// ObjectsIn returns the objects of a kind in the response of a list.
func ObjectsIn(response protoreflect.Message, kind *kinds.Kind) []object.Object {
	list := response.Get(kind.FieldIn(response.Descriptor())).List()
	objects := make([]object.Object, list.Len())
	for i := range objects {
		objects[i], _ = list.Get(i).Message().Interface().(object.Object)
	}
	return objects
}

// newMessage returns an empty message of the API. It panics for a name that the API lacks, because
// that is a bug in the build.
func newMessage(name string) protoreflect.Message {
	messageType, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName("portolan.registry.v1." + name))
	if err != nil {
		panic(fmt.Sprintf("the contract has no message %s: %v", name, err))
	}
	return messageType.New()
}

// setFields sets the fields that the message has.
func setFields(message protoreflect.Message, values map[string]any) {
	for name, value := range values {
		if field := message.Descriptor().Fields().ByName(protoreflect.Name(name)); field != nil {
			message.Set(field, protoreflect.ValueOf(value))
		}
	}
}
