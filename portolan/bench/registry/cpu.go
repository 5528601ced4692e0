package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"portolan.dev/portolan/bench/internal/rig"
)

// part is a program of the benchmark. If it has several processes, their CPU time is added up.
type part struct {
	name string
	cpu  func() time.Duration // used so far
}

// parts are all processes that take part in an operation.
type parts []part

// used returns the CPU time that each part has used so far.
func (p parts) used() []time.Duration {
	all := make([]time.Duration, len(p))
	for i := range p {
		all[i] = p[i].cpu()
	}
	return all
}

// costs are the CPU times of one operation, by part, one for each measurement.
type costs map[string][]float64

// add adds a measurement: the CPU time of each part since before, divided by the number of operations.
func (c costs) add(p parts, before []time.Duration, operations float64) {
	for i, now := range p.used() {
		c[p[i].name] = append(c[p[i].name], float64((now-before[i]).Microseconds())/operations)
	}
}

// sums returns the sum of the parts of each measurement, without the excepted ones.
func (c costs) sums(except ...string) []float64 {
	var sums []float64
	for name, values := range c {
		if slices.Contains(except, name) {
			continue
		}
		if sums == nil {
			sums = make([]float64, len(values))
		}
		for i, value := range values {
			sums[i] += value
		}
	}
	return sums
}

// total returns the median of sums.
func (c costs) total(except ...string) float64 { return rig.Median(c.sums(except...)) }

// line returns the medians of the parts in their order, and of their sum.
func (c costs) line(p parts) string {
	var b strings.Builder
	for _, part := range p {
		fmt.Fprintf(&b, "%s %.0f, ", part.name, rig.Median(c[part.name]))
	}
	return fmt.Sprintf("%sin all %.0f µs", b.String(), c.total())
}
