package sim

import (
	"time"

	"portolan.dev/faults/sim/netem"
)

// drawWeather adds an episode of bad weather on the links of some daemons.
func drawImpairment(g *generator, at time.Duration, daemons []string) {
	name := pick(g, daemons...)
	e := netem.Impairment{
		LinkPrefix:  pick(g, "", "grpc", "nats", "grpc "+name, "nats "+name, "grpc "+name, "nats "+name, "collector"),
		MaxDelay:    pick(g, 0, 20*time.Millisecond, 300*time.Millisecond, 4*time.Second),
		LostPercent: pick(g, 0, 0, 5, 30, 100), DuplicatePercent: pick(g, 0, 20), ReorderPercent: pick(g, 0, 50, 100),
	}
	duration := g.upTo(8 * time.Second)
	g.add(at, func(w *world) { w.emulator.Add(e, duration) }, "weather on %q for %s: slowest %s, lost %d%%, twice %d%%, overtakes %d%%",
		e.LinkPrefix, duration, e.MaxDelay, e.LostPercent, e.DuplicatePercent, e.ReorderPercent)
}

// drawHeldUp adds that the calls of a daemon are held up, mostly for longer than a lease counts.
// They arrive in the end, as if the daemon had been stopped after it had decided on them.
func drawStall(g *generator, at time.Duration, name string) {
	duration := leaseDuration/2 + g.upTo(3*leaseDuration)
	g.add(at, func(w *world) { w.emulator.Add(netem.Impairment{LinkPrefix: "grpc " + name, Stall: true}, duration) }, "calls of %s are held up for %s", name, duration)
}

// drawBroken adds that NATS fails in some way.
func drawNATSFault(g *generator, at time.Duration, daemons []string) {
	switch g.random.IntN(4) {
	case 0:
		name := pick(g, append(daemons, relayName)...)
		g.add(at, func(w *world) { w.cutNATS(name) }, "%s loses its connection to NATS", name)
	case 1:
		g.add(at, func(w *world) { w.cutNATS("") }, "all lose their connections to NATS")
	case 2:
		g.add(at, func(w *world) { w.setNATSAway(true) }, "NATS goes away")
		g.add(at+g.upTo(8*time.Second), func(w *world) { w.setNATSAway(false) }, "NATS comes back")
	default:
		g.add(at, func(w *world) { w.broker.LoseStream() }, "NATS loses the stream")
	}
}

// drawLog adds that the log loses its past, or becomes another one.
func drawLogFault(g *generator, at time.Duration) {
	if g.chance(60) {
		g.add(at, func(w *world) { w.registry.Prune() }, "the log is pruned")
		return
	}
	if g.chance(50) {
		drawRestore(g, at)
		return
	}
	g.add(at, func(w *world) { w.registry.NewEpoch() }, "the log gets a new epoch")
}

// drawRestore adds that a backup of the registry is restored while no relay runs, since relays are
// part of the registry.
func drawRestore(g *generator, at time.Duration) {
	lost := 1 + uint64(g.upTo(30))
	var relays []string
	g.add(at, func(w *world) {
		for _, name := range relayNames {
			if w.running[name] != nil {
				relays = append(relays, name)
				w.stop(name, true)
			}
		}
		w.registry.RestoreBackup(lost)
	}, "the registry is restored from a backup, without its last %d changes", lost)
	g.add(at+g.upTo(3*time.Second), func(w *world) {
		for _, name := range relays {
			w.start(name, w.newRelay)
		}
	}, "its relays start again")
}

// drawSnapshot adds that a follower has to take a snapshot of several messages while many of its
// messages are lost.
func drawLossySnapshot(g *generator, at time.Duration) {
	loss := netem.Impairment{LinkPrefix: "grpc " + pick(g, followerNames...), LostPercent: 10 + g.random.IntN(30)}
	duration := g.upTo(20 * time.Second)
	g.add(at, func(w *world) {
		w.emulator.Add(loss, duration)
		w.registry.Put(manyNodes()...)
		w.registry.NewEpoch()
	}, "the log gets many objects and a new epoch, and %q loses %d%% for %s", loss.LinkPrefix, loss.LostPercent, duration)
}

// drawRestart adds that a daemon ends and comes back.
func drawRestart(g *generator, at time.Duration, name string, start func(*world)) {
	kill := g.chance(60)
	how := "is stopped"
	if kill {
		how = "is killed"
	}
	g.add(at, func(w *world) { w.stop(name, kill) }, "%s %s", name, how)
	g.add(at+g.upTo(6*time.Second), start, "%s starts again", name)
}
