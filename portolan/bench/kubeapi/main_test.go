package kubeapi

import (
	"flag"
	"os"
	"strings"
	"testing"

	"portolan.dev/portolan/bench/internal/rig"
)

var (
	measure = flag.Bool("measure", false, "measure, which takes minutes")
	quick   = flag.Bool("quick", false, "fewer repetitions")
	bin     = flag.String("bin", "", "folder of the built daemons")
	only    = flag.String("only", "list,informer,watch,memory", "what to measure")
	profile = flag.String("profile", "", "folder for CPU profiles of kubeapi")
)

func TestMain(m *testing.M) {
	rig.BecomeNATS()
	os.Exit(m.Run())
}

// TestMeasure measures, if the flag -measure is set.
func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("allowed: not told to measure; make bench-kubeapi does")
	}
	r, ctx, err := rig.Start(t.Context(), *bin)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	b := &bench{T: t, rig: r, rounds: 3}
	if *quick {
		b.rounds = 1
	}
	parts := map[string]rig.Part{"list": b.measureList, "informer": b.measureInformer, "watch": b.measureWatch, "memory": b.measureMemory}
	if err := r.Measure(ctx, strings.Split(*only, ","), parts); err != nil {
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
