package clients

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"portolan.dev/services/object"
)

// The clients call the methods of all kinds, so they look up each method in the protobuf registry
// by its name, which consists of the verb and the kind. The command line client has a similar
// package, but it is internal and has neither create nor update.

const protoPackage = "portolan.registry.v1"

// writeObject creates or updates an object and returns the stored object.
func writeObject(ctx context.Context, conn grpc.ClientConnInterface, verb string, o object.Object) (object.Object, error) {
	kind := object.KindOf(o)
	return sendObject(ctx, conn, verb+kind, o)
}

// writeStatus replaces the status of an object and returns the stored object.
func writeStatus(ctx context.Context, conn grpc.ClientConnInterface, o object.Object) (object.Object, error) {
	return sendObject(ctx, conn, "Update"+object.KindOf(o)+"Status", o)
}

// sendObject calls a method with an object as its request.
func sendObject(ctx context.Context, conn grpc.ClientConnInterface, name string, o object.Object) (object.Object, error) {
	kind := object.KindOf(o)
	request := newMessage(name + "Request")
	request.Set(objectField(request.Descriptor(), kind), protoreflect.ValueOfMessage(o.ProtoReflect()))
	return invoke(ctx, conn, kind, name, request)
}

// getObject returns an object at a revision or later.
func getObject(ctx context.Context, conn grpc.ClientConnInterface, key object.Key, minRevision uint64) (object.Object, error) {
	request := namedRequest("Get", key)
	setField(request, "min_revision", minRevision)
	return invoke(ctx, conn, key.Kind, "Get"+key.Kind, request)
}

// deleteObject deletes an object without a grace period and returns its last state.
func deleteObject(ctx context.Context, conn grpc.ClientConnInterface, key object.Key, uid string, revision uint64) (object.Object, error) {
	request := namedRequest("Delete", key)
	setField(request, "uid", uid)
	setField(request, "resource_version", revision)
	if key.Kind == "Pod" {
		setField(request, "grace_period_seconds", int64(0))
	}
	return invoke(ctx, conn, key.Kind, "Delete"+key.Kind, request)
}

func invoke(ctx context.Context, conn grpc.ClientConnInterface, kind, name string, request protoreflect.Message) (object.Object, error) {
	response := newMessage(name + "Response")
	if err := conn.Invoke(ctx, methodPath(kind, name), request.Interface(), response.Interface()); err != nil {
		return nil, err
	}
	return objectOf(response, kind), nil
}

// watch opens a stream of the changes of a kind after a revision. Its messages are received into
// values from watchResponse.
func watch(ctx context.Context, conn grpc.ClientConnInterface, kind string, after uint64) (grpc.ClientStream, error) {
	name := "Watch" + plural(kind)
	request := newMessage(name + "Request")
	setField(request, "from_revision", after)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, methodPath(kind, name))
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(request.Interface()); err != nil {
		return nil, err
	}
	return stream, stream.CloseSend()
}

// watchResponse returns an empty message of a watch.
func watchResponse(kind string) protoreflect.Message {
	return newMessage("Watch" + plural(kind) + "Response")
}

func methodPath(kind, name string) string {
	return fmt.Sprintf("/%s.%sService/%s", protoPackage, kind, name)
}

func plural(kind string) string {
	if kind == "Endpoints" {
		return kind
	}
	return kind + "s"
}

// newMessage returns an empty message of the registry's API. It panics if there is no message of
// that name, which is a bug of this package.
func newMessage(name string) protoreflect.Message {
	found, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(protoPackage + "." + name))
	if err != nil {
		panic(fmt.Sprintf("no message %s in the API: %v", name, err))
	}
	return found.New()
}

func namedRequest(verb string, key object.Key) protoreflect.Message {
	request := newMessage(verb + key.Kind + "Request")
	setField(request, "name", key.Name)
	if key.Namespace != "" {
		setField(request, "namespace", key.Namespace)
	}
	return request
}

func setField(m protoreflect.Message, field protoreflect.Name, value any) {
	m.Set(m.Descriptor().Fields().ByName(field), protoreflect.ValueOf(value))
}

// objectField returns the field of a message that contains an object of the kind.
func objectField(m protoreflect.MessageDescriptor, kind string) protoreflect.FieldDescriptor {
	for i := range m.Fields().Len() {
		if field := m.Fields().Get(i); field.Message() != nil && string(field.Message().Name()) == kind {
			return field
		}
	}
	panic(fmt.Sprintf("message %s has no %s", m.FullName(), kind))
}

func objectOf(m protoreflect.Message, kind string) object.Object {
	o, _ := proto.Message(m.Get(objectField(m.Descriptor(), kind)).Message().Interface()).(object.Object)
	return o
}
