package api

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/changelog"
	"portolan.dev/registry/internal/response"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/access"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

const (
	snapshotBatch  = 200 // objects
	snapshotBytes  = 1 << 20
	defaultChanges = 128
	mostChanges    = 1000
	changesBytes   = 2 << 20
)

// Changes implements registryv1.ChangeServiceServer.
type Changes struct {
	registryv1.UnsafeChangeServiceServer
	View     *view.View
	Store    store.Store
	Verifier *changes.Verifier
}

// Verify compares changes with the log. Callers without the right to read private objects may call it,
// because the answer does not depend on the contents of these objects.
func (s *Changes) Verify(ctx context.Context, req *registryv1.VerifyRequest) (*registryv1.VerifyResponse, error) {
	return s.Verifier.Verify(ctx, req)
}

// GetHead returns the head of the store, because a view may lag.
func (s *Changes) GetHead(ctx context.Context, _ *registryv1.GetHeadRequest) (*registryv1.GetHeadResponse, error) {
	head, err := s.Store.Head(ctx)
	if err != nil {
		return nil, err
	}
	return &registryv1.GetHeadResponse{Epoch: head.Epoch, Revision: head.Revision, OldestRevision: head.Oldest}, nil
}

// Snapshot streams the objects of one state of the view.
func (s *Changes) Snapshot(req *registryv1.SnapshotRequest, stream grpc.ServerStreamingServer[registryv1.SnapshotResponse]) error {
	ctx := stream.Context()
	wanted, match, err := snapshotQuery(req)
	if err != nil {
		return err
	}
	if err := s.View.WaitFor(ctx, req.GetMinRevision()); err != nil {
		return revisionError(ctx, req.GetMinRevision(), err)
	}
	state, readable := s.View.State(), access.ReadLimitOf(ctx)
	var items []*view.Item
	for _, row := range wanted {
		for item := range state.All(row.Name, req.GetNamespace()) {
			if readable.Allows(item.Object) && (match.Empty() || match.Matches(item.Object.GetMetadata().GetLabels())) {
				items = append(items, item)
			}
		}
	}
	return sendSnapshot(state, items, stream)
}

func snapshotQuery(req *registryv1.SnapshotRequest) ([]*rules.Kind, spec.Selector, error) {
	match, err := spec.ParseSelector(req.GetLabelSelector())
	var found apierr.Violations
	if err != nil {
		found.Add("label_selector", apierr.ReasonInvalid, "%s", err)
	}
	for i, name := range req.GetKinds() {
		if rules.Named(name) == nil {
			found.Add(fmt.Sprintf("kinds[%d]", i), apierr.ReasonNotSupported, "unknown kind %q", name)
		}
	}
	if len(found) > 0 {
		return nil, match, apierr.Invalid("SnapshotRequest", "", found)
	}
	wanted := slices.DeleteFunc(slices.Clone(rules.All), func(row *rules.Kind) bool {
		return len(req.GetKinds()) > 0 && !slices.Contains(req.GetKinds(), row.Name)
	})
	return wanted, match, nil
}

// sendSnapshot sends the items in batches. The last batch is marked as such, and there is one even
// if there are no items.
func sendSnapshot(state *view.State, items []*view.Item, stream grpc.ServerStream) error {
	batch := &response.Message{}
	for left := items; ; {
		batch.Reset()
		n, bytes := 0, 0
		for ; n < len(left) && n < snapshotBatch && bytes < snapshotBytes; n++ {
			batch.AddEnvelope(left[n].Key.Kind, left[n].Bytes)
			bytes += len(left[n].Bytes)
		}
		left = left[n:]
		batch.EndSnapshot(state.Epoch(), state.Revision(), len(left) == 0, len(items))
		if err := stream.SendMsg(batch); err != nil || len(left) == 0 {
			return err
		}
	}
}

// ListChanges returns changes of the log.
func (s *Changes) ListChanges(ctx context.Context, req *registryv1.ListChangesRequest) (*registryv1.ListChangesResponse, error) {
	limit := defaultChanges
	if req.GetLimit() > 0 {
		limit = min(int(req.GetLimit()), mostChanges)
	}
	records, head, err := s.Store.Changes(ctx, req.GetAfterRevision(), limit)
	if err != nil {
		return nil, err
	}
	if want := req.GetEpoch(); want != "" && want != head.Epoch {
		return nil, apierr.FailedPrecondition(fmt.Sprintf("the log is at epoch %q, not %q: take a snapshot", head.Epoch, want))
	}
	readable := access.ReadLimitOf(ctx)
	answer := &registryv1.ListChangesResponse{Epoch: head.Epoch, HeadRevision: head.Revision}
	for bytes := 0; len(records) > 0 && bytes < changesBytes; records = records[1:] {
		change, err := changelog.Change(records[0])
		if err != nil {
			return nil, apierr.Internal(err)
		}
		bytes += len(records[0].Data)
		if o := object.Unwrap(change.GetObject()); readable != nil && o != nil && !readable(o) {
			change = &registryv1.Change{Type: change.GetType(), Revision: change.GetRevision()} // so that no revision is missing
		}
		answer.Changes = append(answer.Changes, change)
	}
	return answer, nil
}
