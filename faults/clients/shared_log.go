package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

// listLimit is the maximum number of changes in one response.
const listLimit = 1000

// listTimeout is the timeout of listing changes. After it, another registry is tried.
const listTimeout = 3 * time.Second

// readSnapshot returns a log that begins at the current revision.
func readSnapshot(ctx context.Context, r registry) (history.Log, error) {
	stream, err := registryv1.NewChangeServiceClient(r).Snapshot(ctx, &registryv1.SnapshotRequest{})
	if err != nil {
		return history.Log{}, err
	}
	var log history.Log
	for {
		batch, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return history.Log{}, errors.New("the snapshot ended before it was complete")
		}
		if err != nil {
			return history.Log{}, err
		}
		log.Base = batch.GetRevision()
		for _, envelope := range batch.GetObjects() {
			log.Objects = append(log.Objects, object.Unwrap(envelope))
		}
		if batch.GetComplete() {
			return log, nil
		}
	}
}

// sharedLog is the log of a run, read from several registries.
type sharedLog struct {
	registries []registry

	mu        sync.Mutex
	log       history.Log
	lastAdded time.Time
	prunedErr error // set once unread changes were pruned
}

// newSharedLog reads the beginning of the log.
func newSharedLog(ctx context.Context, registries []registry) (*sharedLog, error) {
	log, err := readSnapshot(ctx, registries[0])
	return &sharedLog{registries: registries, log: log, lastAdded: time.Now()}, err
}

// initial returns the log without changes.
func (l *sharedLog) initial() history.Log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return history.Log{Base: l.log.Base, Objects: l.log.Objects}
}

// poll repeatedly reads the log from one registry, so that changes are read before they are pruned.
// One poll runs for each registry, because a registry may hang.
func (l *sharedLog) poll(ctx context.Context, r registry) {
	for app.Pause(ctx, retryPause) {
		l.mu.Lock()
		after := l.log.Head()
		l.mu.Unlock()
		answer, err := listChanges(ctx, r, after)
		l.add(after, answer.GetChanges(), err)
	}
}

// add adds the changes after a revision if err is nil.
func (l *sharedLog) add(after uint64, changes []*registryv1.Change, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.log.Head() != after: // another poll was faster
	case err == nil:
		l.log.Changes, l.lastAdded = append(l.log.Changes, changes...), time.Now()
	case status.Code(err) == codes.OutOfRange && l.prunedErr == nil:
		l.prunedErr = fmt.Errorf("the log after revision %d was pruned %s after the last read: %w",
			after, time.Since(l.lastAdded).Round(time.Millisecond), err)
	}
}

// read returns the current log.
func (l *sharedLog) read(ctx context.Context) (history.Log, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.prunedErr != nil {
		return l.log, l.prunedErr
	}
	err := readLog(ctx, l.registries, &l.log)
	return l.log, err
}

// readLog adds the changes to a log that were committed since it was last read. It tries one
// registry after the other until one answers.
func readLog(ctx context.Context, registries []registry, log *history.Log) error {
	began := time.Now()
	for n := 0; ; n++ {
		more, err := readNext(ctx, registries[n%len(registries)], log)
		switch {
		case status.Code(err) == codes.OutOfRange || err != nil && ctx.Err() != nil:
			return fmt.Errorf("the log after revision %d: %w", log.Head(), err)
		case err != nil:
			app.Pause(ctx, retryPause)
		case !more:
			log.ReadAt = began
			return nil
		}
	}
}

// readNext adds the next changes and reports whether there are more.
func readNext(ctx context.Context, r registry, log *history.Log) (more bool, err error) {
	answer, err := listChanges(ctx, r, log.Head())
	log.Changes = append(log.Changes, answer.GetChanges()...)
	return log.Head() < answer.GetHeadRevision(), err
}

func listChanges(ctx context.Context, r registry, after uint64) (*registryv1.ListChangesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return registryv1.NewChangeServiceClient(r).ListChanges(ctx, &registryv1.ListChangesRequest{
		AfterRevision: after, Limit: listLimit, // without an epoch, because a new stream has another epoch for the same log
	})
}

// rereadLog reads the log from its beginning and records it as the changes of another watcher.
func rereadLog(ctx context.Context, r registry, base history.Log, recorder *history.Recorder) error {
	name := "log of " + r.address + " at the end"
	reread := history.Log{Base: base.Base}
	if err := readLog(ctx, []registry{r}, &reread); err != nil {
		return err
	}
	recorder.BeginWatch(name, nil)
	recorder.AddBatch(name, history.Batch{At: reread.ReadAt, Snapshot: true, Revision: base.Base, Events: snapshotEvents(&base)})
	recorder.AddBatch(name, history.Batch{At: time.Now(), Events: changeEvents(reread.Changes), Revision: reread.Head()})
	recorder.EndWatch(name)
	return nil
}

// logFollower reads the log from all registries in turn and records the changes, which are compared
// with the log at the end of the run.
type logFollower struct {
	name       string
	registries []registry
	recorder   *history.Recorder
	interval   time.Duration
	log        history.Log
}

func (f *logFollower) run(ctx context.Context) {
	f.recorder.BeginWatch(f.name, nil)
	f.recorder.AddBatch(f.name, history.Batch{At: time.Now(), Snapshot: true, Revision: f.log.Base, Events: snapshotEvents(&f.log)})
	for n := 0; app.Pause(ctx, f.interval); n++ {
		before := len(f.log.Changes)
		_, err := readNext(ctx, f.registries[n%len(f.registries)], &f.log)
		if status.Code(err) == codes.OutOfRange { // the log was pruned
			f.recorder.EndWatch(f.name)
			return
		}
		if err != nil {
			continue
		}
		if newChanges := f.log.Changes[before:]; len(newChanges) > 0 {
			f.recorder.AddBatch(f.name, history.Batch{At: time.Now(), Events: changeEvents(newChanges), Revision: f.log.Head()})
		}
	}
}

func snapshotEvents(log *history.Log) []history.WatchEvent {
	var all []history.WatchEvent
	for _, o := range log.Objects {
		all = append(all, history.WatchEvent{Revision: o.GetMetadata().GetResourceVersion(), Object: o})
	}
	return all
}

func changeEvents(changes []*registryv1.Change) []history.WatchEvent {
	var all []history.WatchEvent
	for _, c := range changes {
		deleted := c.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE
		all = append(all, history.WatchEvent{Revision: c.GetRevision(), Deleted: deleted, Object: object.Unwrap(c.GetObject())})
	}
	return all
}
