package client

import (
	"context"
	"fmt"
	"iter"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// Query selects objects.
type Query struct {
	Namespace string // empty: all
	Labels    string // label selector; empty: all
	Fields    string // field selector; empty: all
}

func (q Query) fields() map[string]any {
	return map[string]any{"namespace": q.Namespace, "label_selector": q.Labels, "field_selector": q.Fields}
}

// List returns all matching objects, from all pages, and the revision at which they were read.
func (c *Client) List(ctx context.Context, kind *kinds.Kind, query Query) ([]object.Object, uint64, error) {
	values := query.fields()
	values["page_size"] = int32(1000)
	var found []object.Object
	for {
		response, err := Call(ctx, c.conn, kind, kinds.List, values)
		if err != nil {
			return nil, 0, err
		}
		found = append(found, ObjectsIn(response, kind)...)
		token := response.Get(response.Descriptor().Fields().ByName("next_page_token")).String()
		if token == "" {
			return found, response.Get(response.Descriptor().Fields().ByName("revision")).Uint(), nil
		}
		values["page_token"] = token
	}
}

// ListOf returns all matching objects of a type.
func ListOf[T object.Object](ctx context.Context, c *Client, query Query) ([]T, error) {
	var none T
	found, _, err := c.List(ctx, kinds.Of(none), query)
	all := make([]T, 0, len(found))
	for _, o := range found {
		if typed, ok := o.(T); ok {
			all = append(all, typed)
		}
	}
	return all, err
}

// Change is one change of a watched object, or a bookmark, which has a revision only.
type Change struct {
	Type     registryv1.ChangeType
	Object   object.Object // for deletions its last version; nil: a bookmark
	Revision uint64        // the revision from which a watch continues
}

// Watch yields the changes after a revision, and bookmarks, until the context or the stream ends.
// The last pair has the error.
func (c *Client) Watch(ctx context.Context, kind *kinds.Kind, query Query, after uint64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		values := query.fields()
		values["from_revision"] = after
		for response, err := range Batches(ctx, c.conn, kind, values) {
			if err != nil {
				yield(Change{}, err)
				return
			}
			for change := range ChangesIn(response, kind) {
				if !yield(change, nil) {
					return
				}
			}
			// A watch of objects that do not change would otherwise continue, hours later, from a
			// revision that the log no longer has.
			complete := response.Get(response.Descriptor().Fields().ByName("revision")).Uint()
			if complete > 0 && !yield(Change{Revision: complete}, nil) {
				return
			}
		}
	}
}

// Batches watches a kind, and yields the responses until the context or the stream ends. The last pair has
// the error. values are the fields of the request by name.
func Batches(ctx context.Context, conn grpc.ClientConnInterface, kind *kinds.Kind, values map[string]any) iter.Seq2[protoreflect.Message, error] {
	return func(yield func(protoreflect.Message, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		method := kind.Method(kinds.Watch)
		request := newMessage(method + "Request")
		setFields(request, values)
		stream, err := open(ctx, conn, kind, request)
		for err == nil {
			response := newMessage(method + "Response")
			if err = stream.RecvMsg(response.Interface()); err == nil && !yield(response, nil) {
				return
			}
		}
		yield(nil, err)
	}
}

// open starts a stream on which the client sends one message.
func open(ctx context.Context, conn grpc.ClientConnInterface, kind *kinds.Kind, request protoreflect.Message) (grpc.ClientStream, error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, kind.FullMethod(kinds.Watch))
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	if err := stream.SendMsg(request.Interface()); err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	return stream, stream.CloseSend()
}

// ChangesIn returns the changes in a response of a watch.
func ChangesIn(response protoreflect.Message, kind *kinds.Kind) iter.Seq[Change] {
	return func(yield func(Change) bool) {
		list := response.Get(response.Descriptor().Fields().ByName("changes")).List()
		for i := range list.Len() {
			message := list.Get(i).Message()
			changeType := message.Get(message.Descriptor().Fields().ByName("type")).Enum()
			revision := message.Get(message.Descriptor().Fields().ByName("revision")).Uint()
			if !yield(Change{Type: registryv1.ChangeType(changeType), Object: ObjectIn(message, kind), Revision: revision}) {
				return
			}
		}
	}
}
