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
	if d.chance(70) {
		d.add(at, func(w *world) { w.registry.Prune() }, "the log is pruned")
		return
	}
	d.add(at, func(w *world) { w.registry.NewEpoch() }, "the log gets a new epoch")
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
