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

// The clients call the methods of all kinds, so they find each method in the contract by its name,
// which is made up of the verb and the kind. The command line has such a package too, which is
// internal to it and has neither create nor update.

const contract = "portolan.registry.v1"

// write creates or updates an object and returns it as stored.
func write(ctx context.Context, conn grpc.ClientConnInterface, verb string, o object.Object) (object.Object, error) {
	kind := object.KindOf(o)
	return send(ctx, conn, verb+kind, o)
}

// writeStatus replaces the status of an object and returns it as stored.
func writeStatus(ctx context.Context, conn grpc.ClientConnInterface, o object.Object) (object.Object, error) {
	return send(ctx, conn, "Update"+object.KindOf(o)+"Status", o)
}

// send calls a method that takes an object as its request.
func send(ctx context.Context, conn grpc.ClientConnInterface, name string, o object.Object) (object.Object, error) {
	kind := object.KindOf(o)
	request := message(name + "Request")
	request.Set(objectField(request.Descriptor(), kind), protoreflect.ValueOfMessage(o.ProtoReflect()))
	return call(ctx, conn, kind, name, request)
}

// get returns an object as it is at a revision or later.
func get(ctx context.Context, conn grpc.ClientConnInterface, key object.Key, minRevision uint64) (object.Object, error) {
	request := named("Get", key)
	set(request, "min_revision", minRevision)
	return call(ctx, conn, key.Kind, "Get"+key.Kind, request)
}

// remove deletes an object at once and returns it as it last was.
func remove(ctx context.Context, conn grpc.ClientConnInterface, key object.Key, uid string, revision uint64) (object.Object, error) {
	request := named("Delete", key)
	set(request, "uid", uid)
	set(request, "resource_version", revision)
	if key.Kind == "Pod" {
		set(request, "grace_period_seconds", int64(0))
	}
	return call(ctx, conn, key.Kind, "Delete"+key.Kind, request)
}

func call(ctx context.Context, conn grpc.ClientConnInterface, kind, name string, request protoreflect.Message) (object.Object, error) {
	response := message(name + "Response")
	if err := conn.Invoke(ctx, method(kind, name), request.Interface(), response.Interface()); err != nil {
		return nil, err
	}
	return objectOf(response, kind), nil
}

// watch opens a stream of the changes of a kind after a revision. Its messages are received into
// values that watchResponse makes.
func watch(ctx context.Context, conn grpc.ClientConnInterface, kind string, after uint64) (grpc.ClientStream, error) {
	name := "Watch" + plural(kind)
	request := message(name + "Request")
	set(request, "from_revision", after)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method(kind, name))
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(request.Interface()); err != nil {
		return nil, err
	}
	return stream, stream.CloseSend()
}

// watchResponse makes an empty message of a watch.
func watchResponse(kind string) protoreflect.Message {
	return message("Watch" + plural(kind) + "Response")
}

func method(kind, name string) string { return fmt.Sprintf("/%s.%sService/%s", contract, kind, name) }

func plural(kind string) string {
	if kind == "Endpoints" {
		return kind
	}
	return kind + "s"
}

// message makes an empty message of the contract. A name that the contract lacks is a mistake of
// this package.
func message(name string) protoreflect.Message {
	found, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(contract + "." + name))
	if err != nil {
		panic(fmt.Sprintf("the contract has no message %s: %v", name, err))
	}
	return found.New()
}

func named(verb string, key object.Key) protoreflect.Message {
	request := message(verb + key.Kind + "Request")
	set(request, "name", key.Name)
	if key.Namespace != "" {
		set(request, "namespace", key.Namespace)
	}
	return request
}

func set(m protoreflect.Message, field protoreflect.Name, value any) {
	m.Set(m.Descriptor().Fields().ByName(field), protoreflect.ValueOf(value))
}

// objectField returns the field of a message that has an object of the kind.
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
