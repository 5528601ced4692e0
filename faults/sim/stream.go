package sim

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

// stream simulates followers, and two relays, of which one would do. A follower must hand over
// every revision once and in order, or the difference to a snapshot; it must never say that its
// view is fresher than it is; and the stream must be the log.
var stream = scenario{draw: drawStream, run: runStream}

var (
	followerNames = []string{"follower-a", "follower-b"}
	relayNames    = []string{relayName, "relay-2"}
)

func drawStream(d *drawing) {
	length := 300*time.Millisecond + d.upTo(5*time.Second)
	drawWrites(d, 0, length)
	if d.chance(30) {
		d.add(beginning/2, func(w *world) { w.registry.Put(many()...) }, "the registry gets %d nodes more", len(many()))
	}
	for range d.random.IntN(6) {
		drawStreamTrouble(d, d.within(length))
	}
}

func drawStreamTrouble(d *drawing, at time.Duration) {
	switch d.random.IntN(11) {
	case 0, 1, 2, 3:
		drawWeather(d, at, slices.Concat(followerNames, relayNames))
	case 4, 5:
		drawBroken(d, at, slices.Concat(followerNames, relayNames))
	case 6, 7:
		drawLog(d, at)
	case 8:
		drawSnapshot(d, at)
	case 9:
		name := pick(d, relayNames...)
		drawRestart(d, at, name, func(w *world) { w.start(name, w.newRelay) })
	default:
		name := pick(d, followerNames...)
		drawRestart(d, at, name, func(w *world) { startWitness(w, name) })
	}
}

func runStream(w *world, events []Event) error {
	w.registry.Put(readyNode(nodeNames[0]), readyNode(nodeNames[1]))
	startAll := func() {
		for _, name := range relayNames {
			w.start(name, w.newRelay)
		}
		for _, name := range followerNames {
			startWitness(w, name)
		}
	}
	startAll()
	w.play(events)
	startAll()
	return w.waitUntilCalm(time.Minute, func() string {
		text := wrongStream(w)
		for _, name := range followerNames {
			if p := w.running[name]; p != nil {
				text += p.daemon.(*witness).behind()
			}
		}
		return text
	})
}

// many returns so many objects that a snapshot of them comes in several batches.
func many() (all []object.Object) {
	for n := range 70 {
		all = append(all, readyNode(fmt.Sprintf("many-%d", n)))
	}
	return all
}

// wrongStream returns in which ways the stream differs from the log.
func wrongStream(w *world) string {
	history := w.registry.History()
	first, stored := w.broker.Stored()
	for i, data := range stored {
		at := first + uint64(i)
		got := &registryv1.Change{}
		if err := got.UnmarshalVT(data); err != nil {
			return fmt.Sprintf("message %d of the stream: %v\n", at, err)
		}
		if at > uint64(len(history)) || got.GetRevision() != at || !proto.Equal(got, history[at-1].Change) {
			return fmt.Sprintf("message %d of the stream is not revision %d of the log\n", at, at)
		}
	}
	if last := first + uint64(len(stored)) - 1; last != uint64(len(history)) {
		return fmt.Sprintf("the stream ends at %d, the log at %d\n", last, len(history))
	}
	return ""
}
