package changestest

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Register registers the log as a ChangeService.
func (l *Log) Register(server grpc.ServiceRegistrar) {
	registryv1.RegisterChangeServiceServer(server, &changeServer{log: l})
}

type changeServer struct {
	registryv1.UnimplementedChangeServiceServer
	log *Log
}

// batchObjects is small, so that tests get snapshots of several batches.
const batchObjects = 50

// GetHead implements registryv1.ChangeServiceServer.
func (s *changeServer) GetHead(ctx context.Context, _ *registryv1.GetHeadRequest) (*registryv1.GetHeadResponse, error) {
	epoch, head, oldest, err := s.log.Head(ctx)
	return &registryv1.GetHeadResponse{Epoch: epoch, Revision: head, OldestRevision: oldest}, err
}

// ListChanges implements registryv1.ChangeServiceServer.
func (s *changeServer) ListChanges(_ context.Context, req *registryv1.ListChangesRequest) (*registryv1.ListChangesResponse, error) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if req.GetEpoch() != "" && req.GetEpoch() != l.epochLocked() {
		return nil, apierr.FailedPrecondition(fmt.Sprintf("epoch is %s, not %s", l.epochLocked(), req.GetEpoch()))
	}
	limit := int(req.GetLimit())
	if limit == 0 {
		limit = 128
	}
	listed, err := l.after(req.GetAfterRevision(), min(limit, 1000))
	answer := &registryv1.ListChangesResponse{Epoch: l.epochLocked(), HeadRevision: l.head}
	for _, change := range listed {
		answer.Changes = append(answer.Changes, change.Change)
	}
	return answer, err
}

// Verify implements registryv1.ChangeServiceServer.
func (s *changeServer) Verify(ctx context.Context, req *registryv1.VerifyRequest) (*registryv1.VerifyResponse, error) {
	return s.log.verifier.Verify(ctx, req)
}

// Snapshot implements registryv1.ChangeServiceServer.
func (s *changeServer) Snapshot(req *registryv1.SnapshotRequest, stream grpc.ServerStreamingServer[registryv1.SnapshotResponse]) error {
	wanted := map[string]bool{}
	for _, kind := range req.GetKinds() {
		wanted[kind] = true
	}
	l := s.log
	l.mu.Lock()
	epoch, head, all := l.epochLocked(), l.head, l.sorted()
	l.mu.Unlock()
	var envelopes []*corev1.Object
	for _, o := range all {
		inNamespace := req.GetNamespace() == "" || req.GetNamespace() == o.GetMetadata().GetNamespace()
		if inNamespace && (len(wanted) == 0 || wanted[object.KindOf(o)]) {
			envelopes = append(envelopes, object.Wrap(o))
		}
	}
	total := uint64(len(envelopes))
	for {
		n := min(batchObjects, len(envelopes))
		batch := &registryv1.SnapshotResponse{
			Epoch: epoch, Revision: head, Objects: envelopes[:n], Complete: n == len(envelopes), Total: total,
		}
		if err := stream.Send(batch); err != nil || batch.GetComplete() {
			return err
		}
		envelopes = envelopes[n:]
	}
}

func errPruned(after, oldest uint64) error {
	return apierr.OutOfRange(fmt.Sprintf("changes after %d are no longer kept, the oldest start after %d", after, oldest), oldest)
}
