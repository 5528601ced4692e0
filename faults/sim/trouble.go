package sim

import (
	"time"

	"portolan.dev/faults/sim/weather"
)

// drawWeather adds an episode of bad weather on the links of some daemons.
func drawWeather(d *drawing, at time.Duration, daemons []string) {
	one := pick(d, daemons...)
	e := weather.Episode{
		Links:   pick(d, "", "grpc", "nats", "grpc "+one, "nats "+one, "grpc "+one, "nats "+one, "collector"),
		Slowest: pick(d, 0, 20*time.Millisecond, 300*time.Millisecond, 4*time.Second),
		Lost:    pick(d, 0, 0, 5, 30, 100), Twice: pick(d, 0, 20), Overtakes: pick(d, 0, 50, 100),
	}
	lasts := d.upTo(8 * time.Second)
	d.add(at, func(w *world) { w.weather.Add(e, lasts) }, "weather on %q for %s: slowest %s, lost %d%%, twice %d%%, overtakes %d%%",
		e.Links, lasts, e.Slowest, e.Lost, e.Twice, e.Overtakes)
}

// drawHeldUp adds that the calls of a daemon are held up, mostly for longer than a lease counts.
// They arrive in the end, as if the daemon had been stopped after it had decided on them.
func drawHeldUp(d *drawing, at time.Duration, name string) {
	lasts := leaseDuration/2 + d.upTo(3*leaseDuration)
	d.add(at, func(w *world) { w.weather.Add(weather.Episode{Links: "grpc " + name, Holds: true}, lasts) }, "calls of %s are held up for %s", name, lasts)
}

// drawBroken adds that NATS fails in some way.
func drawBroken(d *drawing, at time.Duration, daemons []string) {
	switch d.random.IntN(4) {
	case 0:
		name := pick(d, append(daemons, relayName)...)
		d.add(at, func(w *world) { w.cut(name) }, "%s loses its connection to NATS", name)
	case 1:
		d.add(at, func(w *world) { w.cut("") }, "all lose their connections to NATS")
	case 2:
		d.add(at, func(w *world) { w.setAway(true) }, "NATS goes away")
		d.add(at+d.upTo(8*time.Second), func(w *world) { w.setAway(false) }, "NATS comes back")
	default:
		d.add(at, func(w *world) { w.broker.LoseStream() }, "NATS loses the stream")
	}
}

// drawLog adds that the log loses its past, or becomes another one.
func drawLog(d *drawing, at time.Duration) {
	if d.chance(60) {
		d.add(at, func(w *world) { w.registry.Prune() }, "the log is pruned")
		return
	}
	if d.chance(50) {
		drawRestore(d, at)
		return
	}
	d.add(at, func(w *world) { w.registry.NewEpoch() }, "the log gets a new epoch")
}

// drawRestore adds that a backup of the registry is restored while no relay runs, since relays are
// part of the registry.
func drawRestore(d *drawing, at time.Duration) {
	lost := 1 + uint64(d.upTo(30))
	var relays []string
	d.add(at, func(w *world) {
		for _, name := range relayNames {
			if w.running[name] != nil {
				relays = append(relays, name)
				w.end(name, true)
			}
		}
		w.registry.SetBack(lost)
	}, "the registry is restored from a backup, without its last %d changes", lost)
	d.add(at+d.upTo(3*time.Second), func(w *world) {
		for _, name := range relays {
			w.start(name, w.newRelay)
		}
	}, "its relays start again")
}

// drawSnapshot adds that a follower has to take a snapshot of several messages while many of its
// messages are lost.
func drawSnapshot(d *drawing, at time.Duration) {
	lossy := weather.Episode{Links: "grpc " + pick(d, followerNames...), Lost: 10 + d.random.IntN(30)}
	lasts := d.upTo(20 * time.Second)
	d.add(at, func(w *world) {
		w.weather.Add(lossy, lasts)
		w.registry.Put(many()...)
		w.registry.NewEpoch()
	}, "the log gets many objects and a new epoch, and %q loses %d%% for %s", lossy.Links, lossy.Lost, lasts)
}

// drawRestart adds that a daemon ends and comes back.
func drawRestart(d *drawing, at time.Duration, name string, start func(*world)) {
	kill := d.chance(60)
	how := "is stopped"
	if kill {
		how = "is killed"
	}
	d.add(at, func(w *world) { w.end(name, kill) }, "%s %s", name, how)
	d.add(at+d.upTo(6*time.Second), start, "%s starts again", name)
}
