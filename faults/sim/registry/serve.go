package registry

import (
	"context"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

// Call executes a Create, Get, Update, UpdateStatus or Delete call of any kind, or a call of
// BulkService. It accesses the fields of the messages of kinds by reflection, because they have the same
// names for all kinds.
func (r *Registry) Call(ctx context.Context, method string, request, reply proto.Message) error {
	if many, ok := request.(*registryv1.WriteRequest); ok {
		proto.Merge(reply, &registryv1.WriteResponse{Results: r.writeMany(ctx, many)})
		return nil
	}
	_, rpc, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	o, err := r.call(ctx, rpc, request)
	if err != nil {
		return err
	}
	message := reply.ProtoReflect()
	if field := objectField(message.Descriptor()); field != nil {
		message.Set(field, protoreflect.ValueOfMessage(proto.Clone(o).ProtoReflect()))
	}
	return nil
}

func (r *Registry) call(ctx context.Context, rpc string, request proto.Message) (object.Object, error) {
	message := request.ProtoReflect()
	text := func(name protoreflect.Name) string {
		if field := message.Descriptor().Fields().ByName(name); field != nil {
			return message.Get(field).String()
		}
		return "" // the kind is not namespaced
	}
	namedKey := func(verb string) object.Key {
		return object.Key{Kind: strings.TrimPrefix(rpc, verb), Namespace: text("namespace"), Name: text("name")}
	}
	sentObject := func() object.Object {
		o, _ := message.Get(objectField(message.Descriptor())).Message().Interface().(object.Object)
		return o
	}
	switch {
	case strings.HasPrefix(rpc, "Create"):
		return r.Create(ctx, sentObject())
	case strings.HasPrefix(rpc, "Update"):
		return r.Update(ctx, sentObject(), strings.HasSuffix(rpc, "Status"))
	case strings.HasPrefix(rpc, "Delete"):
		version := message.Get(message.Descriptor().Fields().ByName("resource_version")).Uint()
		return r.Delete(ctx, namedKey("Delete"), text("uid"), version)
	case strings.HasPrefix(rpc, "Get"):
		return r.Get(namedKey("Get"))
	}
	return nil, fmt.Errorf("the simulated registry has no method %s", rpc)
}

// objectField returns the field of a request or reply that contains the object, or nil.
func objectField(message protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	fields := message.Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); field.Message() != nil && field.Message().Fields().ByName("metadata") != nil {
			return field
		}
	}
	return nil
}
