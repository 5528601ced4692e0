package api

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/quota"
	"portolan.dev/registry/internal/response"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/internal/watch"
	"portolan.dev/registry/store"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Objects implements the services of all kinds.
type Objects struct {
	View     *view.View
	Writer   *admission.Writer
	Streamer *watch.Streamer
	Pages    *Pages
	Rates    *quota.Rates
}

type writeFunc func(ctx context.Context, o object.Object, options admission.Options) (*admission.Result, error)

// writing returns the handler of a method that writes the object in its request.
func (s *Objects) writing(write writeFunc) unaryHandler {
	return func(ctx context.Context, _ *rules.Kind, req proto.Message, field protoreflect.FieldDescriptor) (*response.Message, error) {
		return s.write(ctx, req, field, write)
	}
}

func (s *Objects) write(ctx context.Context, req proto.Message, field protoreflect.FieldDescriptor, write writeFunc) (*response.Message, error) {
	o, err := objectIn(req, field)
	if err != nil {
		return nil, err
	}
	if err := s.Rates.Admit(ctx, o); err != nil {
		return nil, err
	}
	if err := checkNamespace(ctx, rules.Of(o), o.GetMetadata().GetNamespace()); err != nil {
		return nil, err
	}
	opts, err := options(ctx, req)
	if err != nil {
		return nil, err
	}
	result, err := write(ctx, o, opts)
	if err != nil {
		return nil, err
	}
	return s.answer(result)
}

// answer returns the answer to a write. The view has a stored object in encoded form already, unless
// it was written again in the meantime.
func (s *Objects) answer(result *admission.Result) (*response.Message, error) {
	message := &response.Message{}
	if item := s.View.State().Get(object.KeyOf(result.Object)); item != nil && item.Revision == result.Revision {
		message.AddField(item.Field)
	} else {
		encoded, err := store.Marshal(result.Object)
		if err != nil {
			return nil, apierr.Internal(err)
		}
		message.AddObject(encoded)
	}
	message.Describe(result.Object.GetMetadata(), result.Revision)
	message.AddWarnings(result.Warnings)
	return message, nil
}

// get implements GetX.
func (s *Objects) get(ctx context.Context, row *rules.Kind, req proto.Message, _ protoreflect.FieldDescriptor) (*response.Message, error) {
	get, _ := req.(getRequest)
	key, err := keyOf(ctx, row, req, get.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.View.WaitFor(ctx, get.GetMinRevision()); err != nil {
		return nil, revisionError(ctx, get.GetMinRevision(), err)
	}
	item := s.View.State().Get(key)
	if item == nil || !access.ReadLimitOf(ctx).Allows(item.Object) {
		return nil, apierr.NotFound(key.Kind, key.Path())
	}
	message := &response.Message{}
	message.AddField(item.Field)
	return message, nil
}

// remove implements DeleteX.
func (s *Objects) remove(ctx context.Context, row *rules.Kind, req proto.Message, _ protoreflect.FieldDescriptor) (*response.Message, error) {
	request, _ := req.(deleteRequest)
	key, err := keyOf(ctx, row, req, request.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.Rates.Admit(ctx, nil); err != nil {
		return nil, err
	}
	opts, err := options(ctx, req)
	if err != nil {
		return nil, err
	}
	grace, err := graceOf(row, req)
	if err != nil {
		return nil, err
	}
	deletion := admission.Deletion{UID: request.GetUid(), Revision: request.GetResourceVersion(), Grace: grace}
	result, err := s.Writer.Delete(ctx, key, deletion, opts)
	if err != nil {
		return nil, err
	}
	return s.answer(result)
}

// watch implements WatchX.
func (s *Objects) watch(row *rules.Kind, req proto.Message, stream grpc.ServerStream) error {
	request, _ := req.(watchRequest)
	match, err := matcher(stream.Context(), row, request)
	if err != nil {
		return err
	}
	namespace, err := access.ListNamespace(stream.Context(), namespaceOf(req))
	if err != nil {
		return err
	}
	filter := watch.Filter{Namespace: namespace, Match: match}
	return s.Streamer.Watch(stream.Context(), row.Name, request.GetFromRevision(), filter, func(m *response.Message) error { return stream.SendMsg(m) })
}
