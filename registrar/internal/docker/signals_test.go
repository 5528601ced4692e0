package docker

import (
	"testing"
	"time"
)

// TestOnlySignalsSinceTheStartMeanTheEnd checks which signals make a container terminating. A signal from before the
// container's start was for its former process. If it counted, a container that `docker restart` has just started
// would get no connections for the whole time to stop. The other tests wait longer than that time, so they would
// not notice it.
func TestOnlySignalsSinceTheStartMeanTheEnd(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	limit := defaultStopTimeout + stopMargin
	for name, test := range map[string]struct {
		signals map[int]time.Time
		drain   time.Duration
		want    time.Time
	}{
		"no signal":                     {},
		"before the start":              {signals: map[int]time.Time{terminate: start.Add(-time.Nanosecond)}},
		"at the start":                  {signals: map[int]time.Time{terminate: start}, want: start.Add(limit)},
		"after the start":               {signals: map[int]time.Time{terminate: start.Add(time.Second)}, want: start.Add(time.Second + limit)},
		"one before and one after":      {signals: map[int]time.Time{9: start.Add(-time.Second), 2: start.Add(time.Second)}, want: start.Add(time.Second + limit)},
		"two after":                     {signals: map[int]time.Time{9: start.Add(2 * time.Second), 2: start.Add(time.Second)}, want: start.Add(2*time.Second + limit)},
		"a signal that does not end it": {signals: map[int]time.Time{1: start.Add(time.Second)}},
		"a longer drain":                {signals: map[int]time.Time{terminate: start}, drain: time.Minute, want: start.Add(time.Minute + stopMargin)},
	} {
		t.Run(name, func(t *testing.T) {
			c := web(1, func(c *container) { c.State.StartedAt = start })
			// The signals of another container do not count.
			all := signals{c.ID: test.signals, idOf(2): {terminate: start.Add(time.Hour)}}
			if got := all.stopsUntil(c, test.drain); !got.Equal(test.want) {
				t.Errorf("it is terminating until %v, want %v", got, test.want)
			}
		})
	}
}
