package nemesis

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"portolan.dev/faults/lab"
)

var (
	seed     = flag.Uint64("seed", 0, "seed of TestNemesis; 0: a random one")
	duration = flag.Duration("for", 0, "how long TestNemesis has faults, rests not counted; 0: it does not run")
	file     = flag.String("schedule", "", "file of a schedule that TestNemesis runs, instead of one that the seed says")
	shrink   = flag.Bool("shrink", false, "if TestNemesis fails, leave out faults for as long as it still does")
)

func TestMain(m *testing.M) { lab.Main(m) }

// roundLength is how long faults of a round last.
const roundLength = 8 * time.Second

// TestNemesis runs a schedule of any length.
func TestNemesis(t *testing.T) {
	if *duration == 0 && *file == "" {
		t.Skip("allowed: make faults runs it")
	}
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	s := Draw(*seed, Size{Rounds: max(1, int(*duration/roundLength)), Length: roundLength, Faults: 6}, slices.Concat(lab.Roles()...))
	if *file != "" {
		s = load(t, *file)
	}
	passes := func(name string, s Schedule) bool { return t.Run(name, func(t *testing.T) { Run(t, *seed, s) }) }
	if passes("schedule", s) || !*shrink {
		return
	}
	s = Shrink(s, func(s Schedule) bool { return !passes(fmt.Sprintf("%d faults", len(s)), s) })
	t.Logf("seed %d fails with these faults already:\n%s", *seed, s)
}

func load(t *testing.T, path string) Schedule {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := Parse(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return s
}
