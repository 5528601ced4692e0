package nemesis

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/status"
)

// meter measures what a kind of client sees.
type meter struct {
	name string

	mu         sync.Mutex
	operations int
	failures   int
	reasons    map[string]int
	succeeded  time.Time // last
	longest    time.Duration
}

func newMeter(name string) *meter {
	return &meter{name: name, reasons: map[string]int{}, succeeded: time.Now()}
}

// note takes in the outcome of an operation.
func (m *meter) note(began time.Time, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.operations++
	if err != nil {
		m.failures++
		m.reasons[reasonOf(err)]++
		return
	}
	now := time.Now()
	m.longest = max(m.longest, now.Sub(m.succeeded))
	m.succeeded = now
}

// reasonOf is the code of an error of the API. Other errors have ports of clients in them, which are left out.
func reasonOf(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Code().String()
	}
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err.Error()
}

// begin excludes the time before it, in which no client asked.
func (m *meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.succeeded = time.Now()
}

// end counts the time since the last success. No client asks afterwards.
func (m *meter) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.longest = max(m.longest, time.Since(m.succeeded))
}

// String returns the figures on one line.
func (m *meter) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	line := fmt.Sprintf("%-34s %6d operations, %6d failed, at longest %s without success",
		m.name, m.operations, m.failures, m.longest.Round(time.Millisecond))
	for _, reason := range slices.Sorted(maps.Keys(m.reasons)) {
		line += fmt.Sprintf("\n%6d × %s", m.reasons[reason], reason)
	}
	return line
}

// convergence is how long components took until they had everything, after the last fault was healed.
type convergence struct {
	mu    sync.Mutex
	times map[string][]time.Duration
}

func (c *convergence) note(component string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[component] = append(c.times[component], took)
}

// lines returns the figures of each of the components.
func (c *convergence) lines(components []string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, name := range components {
		times := slices.Sorted(slices.Values(c.times[name]))
		if len(times) == 0 {
			continue
		}
		all = append(all, fmt.Sprintf("%-34s p50 %s, worst %s, of %d", name,
			times[(len(times)-1)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond), len(times)))
	}
	return all
}
