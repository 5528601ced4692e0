package bench

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"portolan.dev/services/kit/yardstick"
)

var measure = flag.Bool("measure", false, "measure, which takes a minute or two")

// rounds is the number of rounds of each measurement, of which the median counts.
const rounds = 9

// onlyToMeasure skips a test unless measurements are wanted.
func onlyToMeasure(t *testing.T) {
	t.Helper()
	if !*measure {
		t.Skip("allowed: measures only when asked to, with -measure")
	}
}

func ratio(name string, value float64, target yardstick.Target) {
	fmt.Println(yardstick.Line(name, value, target))
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func µs(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
