package clients

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/kit/app"
)

// retryPause is the pause before a client retries.
const retryPause = 50 * time.Millisecond

// watcher watches one kind through the watch API. It closes each stream after a while and continues
// at a random registry from the last revision that it received.
type watcher struct {
	name       string
	kind       string
	registries []registry
	random     *rand.Rand
	recorder   *history.Recorder
	// meanStreamTime is the mean duration of a stream.
	meanStreamTime time.Duration

	// revision is the revision up to which it has received all changes. 0 requests a snapshot
	// first.
	revision uint64
	// snapshot has the objects of a snapshot that is not complete yet.
	snapshot []history.WatchEvent
}

func (w *watcher) run(ctx context.Context) {
	w.recorder.BeginWatch(w.name, []string{w.kind})
	for ctx.Err() == nil {
		r := w.registries[w.random.IntN(len(w.registries))]
		streamTime := w.meanStreamTime/2 + time.Duration(w.random.Int64N(int64(w.meanStreamTime)))
		streamCtx, cancel := context.WithTimeout(ctx, streamTime)
		err := w.follow(streamCtx, r)
		cancel()
		if status.Code(err) == codes.OutOfRange {
			w.revision = 0 // the log was pruned
		}
		app.Pause(ctx, retryPause)
	}
}

func (w *watcher) follow(ctx context.Context, conn grpc.ClientConnInterface) error {
	w.snapshot = nil
	stream, err := watch(ctx, conn, w.kind, w.revision)
	if err != nil {
		return err
	}
	for {
		response := watchResponse(w.kind)
		if err := stream.RecvMsg(response.Interface()); err != nil {
			return err
		}
		w.record(response)
	}
}

// record records a message. The objects of a snapshot are collected until it is complete.
func (w *watcher) record(response protoreflect.Message) {
	fields := response.Descriptor().Fields()
	events := w.events(response.Get(fields.ByName("changes")).List())
	revision := response.Get(fields.ByName("revision")).Uint()
	if w.revision > 0 {
		for _, e := range events { // the revision of a message may be lower than its changes' revisions
			revision = max(revision, e.Revision)
		}
		w.revision = revision
		w.recorder.AddBatch(w.name, history.Batch{At: time.Now(), Events: events, Revision: revision})
		return
	}
	w.snapshot = append(w.snapshot, events...)
	if response.Get(fields.ByName("synced")).Bool() {
		w.revision = revision
		w.recorder.AddBatch(w.name, history.Batch{At: time.Now(), Snapshot: true, Events: w.snapshot, Revision: revision})
	}
}

func (w *watcher) events(list protoreflect.List) []history.WatchEvent {
	var events []history.WatchEvent
	for i := range list.Len() {
		m := list.Get(i).Message()
		fields := m.Descriptor().Fields()
		events = append(events, history.WatchEvent{
			Revision: m.Get(fields.ByName("revision")).Uint(),
			Deleted:  m.Get(fields.ByName("type")).Enum() == registryv1.ChangeType_CHANGE_TYPE_DELETE.Number(),
			Object:   objectOf(m, w.kind),
		})
	}
	return events
}
