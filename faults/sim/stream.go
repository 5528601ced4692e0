package sim

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

// stream simulates two followers and two relays, one of which is redundant. A follower must apply
// every revision once and in order, or the difference to a snapshot. It must never report an age
// below the real age of its view. At rest the stream must equal the log.
var stream = scenario{draw: drawStream, run: runStream}

var (
	followerNames = []string{"follower-a", "follower-b"}
	relayNames    = []string{relayName, "relay-2"}
)

func drawStream(g *generator) {
	length := 300*time.Millisecond + g.upTo(5*time.Second)
	drawWrites(g, 0, length)
	if g.chance(30) {
		g.add(firstWrite/2, func(w *world) { w.registry.Put(manyNodes()...) }, "the registry gets %d more nodes", len(manyNodes()))
	}
	for range g.random.IntN(6) {
		drawStreamFault(g, g.within(length))
	}
}

func drawStreamFault(g *generator, at time.Duration) {
	switch g.random.IntN(11) {
	case 0, 1, 2, 3:
		drawImpairment(g, at, slices.Concat(followerNames, relayNames))
	case 4, 5:
		drawNATSFault(g, at, slices.Concat(followerNames, relayNames))
	case 6, 7:
		drawLogFault(g, at)
	case 8:
		drawLossySnapshot(g, at)
	case 9:
		name := pick(g, relayNames...)
		drawRestart(g, at, name, func(w *world) { w.start(name, w.newRelay) })
	default:
		name := pick(g, followerNames...)
		drawRestart(g, at, name, func(w *world) { startFollower(w, name) })
	}
}

func runStream(w *world, events []Event) error {
	registerNodes(w)
	startAll := func() {
		for _, name := range relayNames {
			w.start(name, w.newRelay)
		}
		for _, name := range followerNames {
			startFollower(w, name)
		}
	}
	startAll()
	w.play(events)
	startAll()
	return w.waitUntilConsistent(time.Minute, func() string {
		text := streamDifferences(w)
		for _, name := range followerNames {
			if p := w.running[name]; p != nil {
				text += p.daemon.(*followerChecker).lag()
			}
		}
		return text
	})
}

// manyNodes returns so many nodes that a snapshot of them has several messages.
func manyNodes() (all []object.Object) {
	for n := range 70 {
		all = append(all, readyNode(fmt.Sprintf("many-%d", n)))
	}
	return all
}

// streamDifferences describes the first difference between the stream and the log.
func streamDifferences(w *world) string {
	history := w.registry.History()
	first, stored := w.broker.Stored()
	for i, data := range stored {
		at := first + uint64(i)
		got := &registryv1.Change{}
		if err := got.UnmarshalVT(data); err != nil {
			return fmt.Sprintf("message %d of the stream: %v\n", at, err)
		}
		if at > uint64(len(history)) || got.GetRevision() != at || !proto.Equal(got, history[at-1].Change) {
			return fmt.Sprintf("message %d of the stream differs from revision %d of the log\n", at, at)
		}
	}
	if last := first + uint64(len(stored)) - 1; last != uint64(len(history)) {
		return fmt.Sprintf("the stream ends at %d, the log at %d\n", last, len(history))
	}
	return ""
}
