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
	"portolan.dev/portolan/e2e/labtest"
)

var (
	seed         = flag.Uint64("seed", 0, "seed of TestNemesis; 0: a random seed")
	duration     = flag.Duration("for", 0, "total length of the rounds of TestNemesis, without the checks at rest; 0: skip TestNemesis")
	seeds        = flag.Int("seeds", 1, "number of consecutive seeds that TestNemesis runs, beginning with -seed")
	figuresFile  = flag.String("figures", "", "path of a file to which TestNemesis appends the figures of each seed as a line of JSON")
	scheduleFile = flag.String("schedule", "", "path of a schedule that TestNemesis runs instead of the schedule of the seed")
	shrink       = flag.Bool("shrink", false, "if TestNemesis fails, remove faults from the schedule for as long as it still fails")
)

func TestMain(m *testing.M) {
	if labtest.Outside() { // other processes have the flags of daemons
		flag.Parse()
		if *duration > 0 || *scheduleFile != "" {
			lab.PrepareRelease()
		}
	}
	lab.Main(m)
}

// roundLength is the time in which faults of a round begin and end.
const roundLength = 8 * time.Second

// TestNemesis runs the schedules of one or more seeds, or a schedule in a file.
func TestNemesis(t *testing.T) {
	if *duration == 0 && *scheduleFile == "" {
		t.Skip("allowed: make faults runs this test")
	}
	if *seed == 0 {
		*seed = rand.Uint64N(1 << 32)
	}
	var all []*Figures
	for n := range uint64(*seeds) {
		all = append(all, runSeed(t, *seed+n))
	}
	if *seeds > 1 {
		t.Log(Tables(all))
	}
}

// runSeed runs one schedule. If it fails and -shrink is set, runSeed shrinks it.
func runSeed(t *testing.T, seed uint64) *Figures {
	s := Draw(seed, Size{Rounds: max(1, int(*duration/roundLength)), Length: roundLength, Faults: 6, AllowPreparation: true}, machines())
	if *scheduleFile != "" {
		s = readSchedule(t, *scheduleFile)
	}
	f := &Figures{Seed: seed, Schedule: s.String(), Failed: true} // if Run does not return
	passes := func(name string, s Schedule) bool {
		return t.Run(name, func(t *testing.T) { f = Run(t, seed, s) })
	}
	passed := passes(fmt.Sprintf("seed %d", seed), s)
	first := f
	if *figuresFile != "" {
		if err := first.Append(*figuresFile); err != nil {
			t.Error(err)
		}
	}
	outcome := "failed"
	if passed {
		outcome = "passed"
	}
	t.Logf("seed %d %s", seed, outcome)
	if !passed && *shrink {
		s = Shrink(s, func(s Schedule) bool { return !passes(fmt.Sprintf("%d faults", len(s)), s) })
		t.Logf("seed %d also fails with these faults only:\n%s", seed, s)
	}
	return first
}

// machines returns the names of all machines.
func machines() []string { return slices.Concat(lab.MachineNames()...) }

// fixedSeeds are the seeds of TestFixedSeeds.
var fixedSeeds = []uint64{1, 11}

// TestFixedSeeds runs the short schedules of fixedSeeds, so that make test finds regressions of
// Portolan and of this package without TestNemesis.
func TestFixedSeeds(t *testing.T) {
	for _, seed := range fixedSeeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			Run(t, seed, Draw(seed, Size{Rounds: 2, Length: 5 * time.Second, Faults: 6}, machines()))
		})
	}
}

func readSchedule(t *testing.T, path string) Schedule {
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
