package changes

import "context"

// Log is the part of the registry's log that the relay and Verify use. Its answers must come from the store,
// not from a replica's view. A view may lag, and then the stream would seem to be ahead of a log
// that was restored from a backup.
type Log interface {
	// Head returns the log's epoch, its newest revision, and the oldest revision that can be passed
	// to After.
	Head(ctx context.Context) (epoch string, head, oldest uint64, err error)
	// After returns at most limit changes that follow a revision, oldest first and without gaps. It
	// returns none at the end of the log.
	After(ctx context.Context, revision uint64, limit int) ([]LoggedChange, error)
	// Installation returns the identity of the installation that the log belongs to. A copy of the log
	// that was restored for another installation has another one.
	Installation(ctx context.Context) (id string, err error)
	// Lock runs fn under a lock that all processes with the same store share.
	Lock(ctx context.Context, fn func(ctx context.Context) error) error
	// NewEpoch gives the log a new epoch and stores it before returning. A new epoch says that the
	// log's revisions no longer stand for the changes that followers have read.
	NewEpoch(ctx context.Context) (epoch string, err error)
	// Wake returns a channel that can be received from once the head has moved. The relay calls
	// Wake before each read of the log. The channel may be a new one for each call, closed by the
	// next commit, or always the same one with capacity one.
	Wake() <-chan struct{}
}
