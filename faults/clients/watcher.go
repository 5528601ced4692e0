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

// again is the pause before a client that was sent away comes back.
const again = 50 * time.Millisecond

// watcher follows one kind through the watch API. It leaves each stream after a while and continues
// at another registry, from the last revision that it has.
type watcher struct {
	name       string
	kind       string
	registries []registry
	random     *rand.Rand
	recorder   *history.Recorder
	// stay is how long it stays with a stream on average.
	stay time.Duration

	// after is up to where it is complete; 0: it begins with the present objects.
	after uint64
	// present are the objects of a snapshot that is not complete yet.
	present []history.WatchEvent
}

func (w *watcher) run(ctx context.Context) {
	w.recorder.BeginWatch(w.name, []string{w.kind})
	for ctx.Err() == nil {
		r := w.registries[w.random.IntN(len(w.registries))]
		stay := w.stay/2 + time.Duration(w.random.Int64N(int64(w.stay)))
		stayed, cancel := context.WithTimeout(ctx, stay)
		err := w.follow(stayed, r)
		cancel()
		if status.Code(err) == codes.OutOfRange {
			w.after = 0 // the log was pruned
		}
		app.Pause(ctx, again)
	}
}

func (w *watcher) follow(ctx context.Context, conn grpc.ClientConnInterface) error {
	w.present = nil
	stream, err := watch(ctx, conn, w.kind, w.after)
	if err != nil {
		return err
	}
	for {
		response := watchResponse(w.kind)
		if err := stream.RecvMsg(response.Interface()); err != nil {
			return err
		}
		w.take(response)
	}
}

// take records a message. While the present objects come they are kept until there are all of them.
func (w *watcher) take(response protoreflect.Message) {
	fields := response.Descriptor().Fields()
	seen := w.changes(response.Get(fields.ByName("changes")).List())
	revision := response.Get(fields.ByName("revision")).Uint()
	if w.after > 0 {
		for _, s := range seen { // a large message says how far the stream was before it
			revision = max(revision, s.Revision)
		}
		w.after = revision
		w.recorder.AddBatch(w.name, history.Batch{At: time.Now(), Events: seen, Revision: revision})
		return
	}
	w.present = append(w.present, seen...)
	if response.Get(fields.ByName("synced")).Bool() {
		w.after = revision
		w.recorder.AddBatch(w.name, history.Batch{At: time.Now(), Snapshot: true, Events: w.present, Revision: revision})
	}
}

func (w *watcher) changes(list protoreflect.List) []history.WatchEvent {
	var seen []history.WatchEvent
	for i := range list.Len() {
		m := list.Get(i).Message()
		fields := m.Descriptor().Fields()
		seen = append(seen, history.WatchEvent{
			Revision: m.Get(fields.ByName("revision")).Uint(),
			Deleted:  m.Get(fields.ByName("type")).Enum() == registryv1.ChangeType_CHANGE_TYPE_DELETE.Number(),
			Object:   objectOf(m, w.kind),
		})
	}
	return seen
}
