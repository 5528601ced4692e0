package changes

import (
	"context"

	registryv1 "portolan.dev/proto/portolan/registry/v1"
)

// Log is what the relay needs of the registry's log. All of it must come from the store itself: a replica's view may lag, and a head that lags
// looks like a stream that ran ahead of a log that was set back.
type Log interface {
	// Head returns the epoch (the log's identity), the newest revision, and the oldest revision that After can start after.
	Head(ctx context.Context) (epoch string, head, oldest uint64, err error)
	// After returns at most limit changes that follow a revision, oldest first and without gaps; none where the log ends.
	After(ctx context.Context, revision uint64, limit int) ([]*registryv1.Change, error)
	// Lock runs fn while nobody else who shares the store runs one.
	Lock(ctx context.Context, fn func(ctx context.Context) error) error
	// NewEpoch gives the log a new epoch, which is stored before it is returned: what its revisions mean is no longer what followers believe.
	NewEpoch(ctx context.Context) (epoch string, err error)
	// Wake returns a channel that can be received from once the head has moved. It is asked for before each look at the log, so that it may
	// be a new channel each time, closed by the next commit, or one channel of capacity one.
	Wake() <-chan struct{}
}
