package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/faults/history"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

// logBatch is how many changes are read at once.
const logBatch = 1000

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

// readLog adds to a log what has been committed since it was last read. It asks one registry after
// the other until one answers.
func readLog(ctx context.Context, registries []registry, log *history.Log) error {
	began := time.Now()
	for n := 0; ; n++ {
		more, err := readPart(ctx, registries[n%len(registries)], log)
		switch {
		case status.Code(err) == codes.OutOfRange || err != nil && ctx.Err() != nil:
			return fmt.Errorf("the log after revision %d: %w", log.Head(), err)
		case err != nil:
			app.Pause(ctx, again)
		case !more:
			log.Read = began
			return nil
		}
	}
}

// readPart adds the next changes and reports whether there are more.
func readPart(ctx context.Context, r registry, log *history.Log) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := registryv1.NewChangeServiceClient(r).ListChanges(ctx, &registryv1.ListChangesRequest{
		AfterRevision: log.Head(), Limit: logBatch, // of any epoch: a stream that is made anew has another one, over the same log
	})
	log.Changes = append(log.Changes, answer.GetChanges()...)
	return log.Head() < answer.GetHeadRevision(), err
}

// readAgain reads the log from its beginning and records it as what another watcher saw.
func readAgain(ctx context.Context, r registry, base history.Log, recorder *history.Recorder) error {
	name := "log of " + r.address + " in the end"
	again := history.Log{Base: base.Base}
	if err := readLog(ctx, []registry{r}, &again); err != nil {
		return err
	}
	recorder.Watch(name, nil)
	recorder.Batch(name, history.Batch{At: again.Read, Snapshot: true, Revision: base.Base, Seen: snapshotOf(&base)})
	recorder.Batch(name, history.Batch{At: time.Now(), Seen: seenOf(again.Changes), Revision: again.Head()})
	recorder.Over(name)
	return nil
}

// tail follows the log from one registry as it grows, so that what it said once can be compared
// with what it says in the end.
type tail struct {
	name       string
	registries []registry
	recorder   *history.Recorder
	every      time.Duration
	log        history.Log
}

func (t *tail) run(ctx context.Context) {
	t.recorder.Watch(t.name, nil)
	t.recorder.Batch(t.name, history.Batch{At: time.Now(), Snapshot: true, Revision: t.log.Base, Seen: snapshotOf(&t.log)})
	for n := 0; app.Pause(ctx, t.every); n++ {
		before := len(t.log.Changes)
		if _, err := readPart(ctx, t.registries[n%len(t.registries)], &t.log); err != nil {
			continue
		}
		if fresh := t.log.Changes[before:]; len(fresh) > 0 {
			t.recorder.Batch(t.name, history.Batch{At: time.Now(), Seen: seenOf(fresh), Revision: t.log.Head()})
		}
	}
}

func snapshotOf(log *history.Log) []history.Seen {
	var all []history.Seen
	for _, o := range log.Objects {
		all = append(all, history.Seen{Revision: o.GetMetadata().GetResourceVersion(), Object: o})
	}
	return all
}

func seenOf(changes []*registryv1.Change) []history.Seen {
	var all []history.Seen
	for _, c := range changes {
		deleted := c.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE
		all = append(all, history.Seen{Revision: c.GetRevision(), Deleted: deleted, Object: object.Unwrap(c.GetObject())})
	}
	return all
}
