package kubeapi

import (
	"flag"
	"os"
	"testing"

	"portolan.dev/portolan/bench/internal/rig"
)

var (
	measure = flag.Bool("measure", false, "measure, which takes minutes")
	flags   rig.Flags
)

func TestMain(m *testing.M) {
	rig.BecomeNATS()
	flags.Register("list,informer,watch,memory", "")
	os.Exit(m.Run())
}

// TestMeasure measures, if the flag -measure is set.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("allowed: not told to measure; make bench-kubeapi does")
	}
	b := &bench{T: t, rounds: 3}
	if flags.Quick {
		b.rounds = 1
	}
	err := flags.Measure(t.Context(), func(r *rig.Rig) map[string]rig.Part {
		b.rig = r
		return map[string]rig.Part{"list": b.measureList, "informer": b.measureInformer, "watch": b.measureWatch, "memory": b.measureMemory}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// bench is one run.
type bench struct {
	*testing.T
	rig    *rig.Rig
	rounds int // measurements of each figure
	names  int // installations so far
}
