package sim

import (
	"time"

	"portolan.dev/faults/sim/netem"
)

// drawImpairment adds an impairment of the links of one daemon or all daemons.
func drawImpairment(g *generator, at time.Duration, daemons []string) {
	name := pick(g, daemons...)
	imp := netem.Impairment{
		LinkPrefix:  pick(g, "", "grpc", "nats", "grpc "+name, "nats "+name, "grpc "+name, "nats "+name, "collector"),
		MaxDelay:    pick(g, 0, 20*time.Millisecond, 300*time.Millisecond, 4*time.Second),
		LostPercent: pick(g, 0, 0, 5, 30, 100), DuplicatePercent: pick(g, 0, 20), ReorderPercent: pick(g, 0, 50, 100),
	}
	duration := g.upTo(8 * time.Second)
	g.add(at, func(w *world) { w.emulator.Add(imp, duration) }, "links %q for %s: delay %s, loss %d%%, duplicates %d%%, reordered %d%%",
		imp.LinkPrefix, duration, imp.MaxDelay, imp.LostPercent, imp.DuplicatePercent, imp.ReorderPercent)
}

// drawStall adds a stall of a daemon's calls, usually for longer than the duration of a lease. The
// calls arrive afterwards, as if the daemon had been paused between a decision and its write.
func drawStall(g *generator, at time.Duration, name string) {
	duration := leaseDuration/2 + g.upTo(3*leaseDuration)
	g.add(at, func(w *world) { w.emulator.Add(netem.Impairment{LinkPrefix: "grpc " + name, Stall: true}, duration) }, "calls of %s are stalled for %s", name, duration)
}

// drawNATSFault adds a lost connection, an outage or a lost stream of NATS.
func drawNATSFault(g *generator, at time.Duration, daemons []string) {
	switch g.random.IntN(4) {
	case 0:
		name := pick(g, append(daemons, relayName)...)
		g.add(at, func(w *world) { w.cutNATS(name) }, "%s loses its connection to NATS", name)
	case 1:
		g.add(at, func(w *world) { w.cutNATS("") }, "all daemons lose their connections to NATS")
	case 2:
		g.add(at, func(w *world) { w.setNATSAway(true) }, "NATS becomes unreachable")
		g.add(at+g.upTo(8*time.Second), func(w *world) { w.setNATSAway(false) }, "NATS becomes reachable")
	default:
		g.add(at, func(w *world) { w.broker.LoseStream() }, "NATS loses the stream")
	}
}

// drawLogFault adds an event that prunes the log, restores a backup of it, or gives it a new epoch.
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

// drawRestore adds the restoration of a backup of the registry. No relay runs during it, because
// relays are part of the registry.
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
		registerNodes(w)
	}, "the registry is restored from a backup, without its last %d changes", lost)
	g.add(at+g.upTo(3*time.Second), func(w *world) {
		for _, name := range relays {
			w.start(name, w.newRelay)
		}
	}, "the relays start again")
}

// drawLossySnapshot adds a new epoch of a log with many objects, so that followers need a snapshot
// of several messages, while one follower loses 10% to 39% of its messages.
func drawLossySnapshot(g *generator, at time.Duration) {
	loss := netem.Impairment{LinkPrefix: "grpc " + pick(g, followerNames...), LostPercent: 10 + g.random.IntN(30)}
	duration := g.upTo(20 * time.Second)
	g.add(at, func(w *world) {
		w.emulator.Add(loss, duration)
		w.registry.Put(manyNodes()...)
		w.registry.NewEpoch()
	}, "the log gets many objects and a new epoch, and %q loses %d%% for %s", loss.LinkPrefix, loss.LostPercent, duration)
}

// drawRestart adds a restart of a daemon. With a chance of 60% the daemon is killed.
func drawRestart(g *generator, at time.Duration, name string, start func(*world)) {
	kill := g.chance(60)
	how := "is stopped"
	if kill {
		how = "is killed"
	}
	g.add(at, func(w *world) { w.stop(name, kill) }, "%s %s", name, how)
	g.add(at+g.upTo(6*time.Second), start, "%s starts again", name)
}
