package api

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/response"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/internal/watch"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Objects implements the services of all kinds.
type Objects struct {
	View     *view.View
	Writer   *admission.Writer
	Streamer *watch.Streamer
	Pages    *Pages
}

// create implements CreateX.
func (s *Objects) create(ctx context.Context, _ *rules.Kind, req proto.Message, field protoreflect.FieldDescriptor) (*response.Message, error) {
	return s.write(ctx, req, field, s.Writer.Create)
}

// update implements UpdateX.
func (s *Objects) update(ctx context.Context, _ *rules.Kind, req proto.Message, field protoreflect.FieldDescriptor) (*response.Message, error) {
	return s.write(ctx, req, field, s.Writer.Update)
}

// updateStatus implements UpdateXStatus.
func (s *Objects) updateStatus(ctx context.Context, _ *rules.Kind, req proto.Message, field protoreflect.FieldDescriptor) (*response.Message, error) {
	return s.write(ctx, req, field, s.Writer.UpdateStatus)
}

type writeFunc func(ctx context.Context, o object.Object, options admission.Options) (*admission.Result, error)

func (s *Objects) write(ctx context.Context, req proto.Message, field protoreflect.FieldDescriptor, write writeFunc) (*response.Message, error) {
	o, err := objectIn(req, field)
	if err != nil {
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
	return answer(result)
}

// answer encodes the result of a write.
func answer(result *admission.Result) (*response.Message, error) {
	encoded, err := store.Marshal(result.Object)
	if err != nil {
		return nil, apierr.Internal(err)
	}
	message := &response.Message{}
	message.AddObject(encoded)
	message.AddWarnings(result.Warnings)
	return message, nil
}

// get implements GetX.
func (s *Objects) get(ctx context.Context, row *rules.Kind, req proto.Message, _ protoreflect.FieldDescriptor) (*response.Message, error) {
	get, _ := req.(getRequest)
	key, err := keyOf(row, req, get.GetName())
	if err != nil {
		return nil, err
	}
	if err := s.View.WaitFor(ctx, get.GetMinRevision()); err != nil {
		return nil, revisionError(ctx, get.GetMinRevision(), err)
	}
	item := s.View.State().Get(key)
	if item == nil {
		return nil, apierr.NotFound(key.Kind, key.Path())
	}
	message := &response.Message{}
	message.AddField(item.Field)
	return message, nil
}

// remove implements DeleteX.
func (s *Objects) remove(ctx context.Context, row *rules.Kind, req proto.Message, _ protoreflect.FieldDescriptor) (*response.Message, error) {
	request, _ := req.(deleteRequest)
	key, err := keyOf(row, req, request.GetName())
	if err != nil {
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
	return answer(result)
}

// watch implements WatchX.
func (s *Objects) watch(row *rules.Kind, req proto.Message, stream grpc.ServerStream) error {
	request, _ := req.(watchRequest)
	match, err := matcher(row, request)
	if err != nil {
		return err
	}
	filter := watch.Filter{Namespace: namespaceOf(req), Match: match}
	return s.Streamer.Watch(stream.Context(), row.Name, request.GetFromRevision(), filter, func(m *response.Message) error { return stream.SendMsg(m) })
}
