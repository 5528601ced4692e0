package api

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"portolan.dev/registry/internal/response"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

const (
	defaultPage = 500
	largestPage = 1000
	// pageBytes is the size at which a page ends. Clients accept at most 4 MiB by default.
	pageBytes = 2 << 20
)

// list implements ListX.
func (s *Objects) list(ctx context.Context, row *rules.Kind, req proto.Message, _ protoreflect.FieldDescriptor) (*response.Message, error) {
	request, _ := req.(listRequest)
	match, err := matcher(ctx, row, request)
	if err != nil {
		return nil, err
	}
	namespace, err := access.ListNamespace(ctx, namespaceOf(req))
	if err != nil {
		return nil, err
	}
	if err := s.View.WaitFor(ctx, request.GetMinRevision()); err != nil {
		return nil, revisionError(ctx, request.GetMinRevision(), err)
	}
	query := pageQuery{
		kind: row.Name, namespace: namespace, labels: request.GetLabelSelector(), fields: request.GetFieldSelector(),
	}
	state, start, err := s.Pages.open(ctx, request.GetPageToken(), query)
	if err != nil {
		return nil, err
	}
	message, next := page(state, start, query.namespace, match, pageSize(request.GetPageSize()))
	token, remaining := "", uint64(0)
	if next != nil {
		token = s.Pages.store(query, state, *next)
		if match == nil {
			remaining = uint64(state.Count(*next, query.namespace)) // #nosec G115 -- a number of objects
		}
	}
	message.EndList(token, state.Revision(), remaining)
	return message, nil
}

func pageSize(wanted int32) int {
	if wanted <= 0 {
		return defaultPage
	}
	return min(int(wanted), largestPage)
}

// page collects objects from start on. next is the key at which the next page begins, nil if this
// is the last page.
func page(state *view.State, start object.Key, namespace string, match func(*view.Item) bool, size int) (message *response.Message, next *object.Key) {
	message = &response.Message{}
	objects, bytes := 0, 0
	for item := range state.From(start, namespace) {
		if match != nil && !match(item) {
			continue
		}
		if objects == size || bytes >= pageBytes {
			return message, &item.Key
		}
		message.AddField(item.Field)
		objects++
		bytes += len(item.Field)
	}
	return message, nil
}

// matcher returns a function that reports whether an object matches the selectors of a request and
// may be read by the caller. It returns nil if all objects match.
func matcher(ctx context.Context, row *rules.Kind, request selecting) (func(*view.Item) bool, error) {
	labels, labelErr := spec.ParseSelector(request.GetLabelSelector())
	fields, fieldErr := row.ParseFieldSelector(request.GetFieldSelector())
	var found apierr.Violations
	if labelErr != nil {
		found.Add("label_selector", apierr.ReasonInvalid, "%s", labelErr)
	}
	if fieldErr != nil {
		found.Add("field_selector", apierr.ReasonInvalid, "%s", fieldErr)
	}
	readable := access.ReadLimitOf(ctx)
	switch {
	case len(found) > 0:
		return nil, apierr.Invalid("request", "", found)
	case labels.Empty() && fields.Empty() && readable == nil:
		return nil, nil
	}
	return func(item *view.Item) bool {
		if readable != nil && !readable(item.Object) {
			return false
		}
		return labels.Matches(item.Object.GetMetadata().GetLabels()) && fields.Matches(item.Object)
	}, nil
}

// revisionError returns the error of a read that waited in vain for a revision.
func revisionError(ctx context.Context, revision uint64, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	return apierr.Unavailable(fmt.Sprintf("this replica has not seen revision %d yet", revision), 0)
}
