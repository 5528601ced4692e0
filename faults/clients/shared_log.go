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

// logBatch is how many changes are read at once.
const listLimit = 1000

// attention is how long a registry may take to list changes, before another one is asked.
const listTimeout = 3 * time.Second

// readSnapshot reads where the log of a run begins.
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

// logbook is the log of a run, as it is read from several registries.
type sharedLog struct {
	registries []registry

	mu        sync.Mutex
	log       history.Log
	lastAdded time.Time // last
	prunedErr error     // why changes are missing for good
}

// openLogbook reads where the log begins.
func newSharedLog(ctx context.Context, registries []registry) (*sharedLog, error) {
	log, err := readSnapshot(ctx, registries[0])
	return &sharedLog{registries: registries, log: log, lastAdded: time.Now()}, err
}

// beginning returns the log without changes.
func (b *sharedLog) initial() history.Log {
	b.mu.Lock()
	defer b.mu.Unlock()
	return history.Log{Base: b.log.Base, Objects: b.log.Objects}
}

// keep reads the log from one registry again and again, before it is pruned. If a registry hangs,
// the changes that clients make meanwhile come from another one.
func (b *sharedLog) poll(ctx context.Context, r registry) {
	for app.Pause(ctx, retryPause) {
		b.mu.Lock()
		after := b.log.Head()
		b.mu.Unlock()
		answer, err := listChanges(ctx, r, after)
		b.add(after, answer.GetChanges(), err)
	}
}

// add adds the changes after a revision, unless they could not be read.
func (b *sharedLog) add(after uint64, changes []*registryv1.Change, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.log.Head() != after: // the other reader was faster
	case err == nil:
		b.log.Changes, b.lastAdded = append(b.log.Changes, changes...), time.Now()
	case status.Code(err) == codes.OutOfRange && b.prunedErr == nil:
		b.prunedErr = fmt.Errorf("the log after revision %d was pruned %s after it was read last: %w",
			after, time.Since(b.lastAdded).Round(time.Millisecond), err)
	}
}

// read returns the log as it is now.
func (b *sharedLog) read(ctx context.Context) (history.Log, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.prunedErr != nil {
		return b.log, b.prunedErr
	}
	err := readLog(ctx, b.registries, &b.log)
	return b.log, err
}

// readLog adds to a log the changes that were committed since it was last read. It tries one
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

// readPart adds the next changes and reports whether there are more.
func readNext(ctx context.Context, r registry, log *history.Log) (more bool, err error) {
	answer, err := listChanges(ctx, r, log.Head())
	log.Changes = append(log.Changes, answer.GetChanges()...)
	return log.Head() < answer.GetHeadRevision(), err
}

func listChanges(ctx context.Context, r registry, after uint64) (*registryv1.ListChangesResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	return registryv1.NewChangeServiceClient(r).ListChanges(ctx, &registryv1.ListChangesRequest{
		AfterRevision: after, Limit: listLimit, // of any epoch: a stream that is made anew has another one, over the same log
	})
}

// readAgain reads the log from its beginning and records it as the reading of another watcher.
func rereadLog(ctx context.Context, r registry, base history.Log, recorder *history.Recorder) error {
	name := "log of " + r.address + " in the end"
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

// logFollower follows the log from one registry as it grows, so that this reading can be compared
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
