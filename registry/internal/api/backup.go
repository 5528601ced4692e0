package api

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/internal/backup"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Backup implements registryv1.BackupServiceServer.
type Backup struct {
	registryv1.UnsafeBackupServiceServer
	View    *view.View
	Store   store.Store
	Version string
}

// Export streams the objects of one state of the view. The state includes every write that was
// acknowledged before the call.
func (s *Backup) Export(_ *registryv1.ExportRequest, stream grpc.ServerStreamingServer[registryv1.ExportResponse]) error {
	ctx := stream.Context()
	head, err := s.Store.Head(ctx)
	if err != nil {
		return err
	}
	if err := s.View.WaitForHead(ctx, head); err != nil {
		return err
	}
	state := s.View.State()
	objects := func(yield func(object.Object, error) bool) {
		for _, row := range rules.All {
			for item := range state.All(row.Name, "") {
				if !yield(item.Object, nil) {
					return
				}
			}
		}
	}
	installation, err := s.Store.Installation(ctx)
	if err != nil {
		return err
	}
	from := backup.Origin{Revision: state.Revision(), Version: s.Version, Installation: installation}
	return backup.Write(from, objects, func(record *registryv1.BackupRecord) error {
		return stream.Send(&registryv1.ExportResponse{Record: record})
	})
}

// Import reads a backup completely before it changes the store.
func (s *Backup) Import(stream grpc.ClientStreamingServer[registryv1.ImportRequest, registryv1.ImportResponse]) error {
	b, err := backup.Read(func() (*registryv1.BackupRecord, error) {
		req, err := stream.Recv()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return req.GetRecord(), err
	})
	if broken := (*backup.DamagedError)(nil); errors.As(err, &broken) {
		return apierr.Invalid("Backup", "", apierr.Violations{{Field: "record", Reason: apierr.ReasonInvalid, Message: broken.Why}})
	}
	if err != nil {
		return err
	}
	revision, err := s.restore(stream.Context(), b)
	if err != nil {
		return err
	}
	installation, err := s.Store.Installation(stream.Context())
	if err != nil {
		return err
	}
	return stream.SendAndClose(&registryv1.ImportResponse{Objects: uint64(len(b.Rows)), Revision: revision, Installation: installation})
}

func (s *Backup) restore(ctx context.Context, b *backup.Backup) (uint64, error) {
	if err := backup.Restore(ctx, s.Store, b); errors.Is(err, backup.ErrNotEmpty) {
		return 0, apierr.FailedPrecondition("the registry is not empty: a backup is restored into a new one")
	} else if err != nil {
		return 0, err
	}
	head, err := s.Store.Head(ctx)
	if err != nil {
		return 0, err
	}
	return head.Revision, s.View.WaitForHead(ctx, head)
}
