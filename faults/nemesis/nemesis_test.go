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
	seed         = flag.Uint64("seed", 0, "seed of TestNemesis; 0: a random one")
	duration     = flag.Duration("for", 0, "how long TestNemesis has faults, rests not counted; 0: it does not run")
	seeds        = flag.Int("seeds", 1, "how many seeds TestNemesis runs: the one of -seed, and those that follow it")
	figuresFile  = flag.String("figures", "", "file that TestNemesis adds the figures of each seed to, as a line of JSON")
	scheduleFile = flag.String("schedule", "", "file of a schedule that TestNemesis runs, instead of one that the seed says")
	shrink       = flag.Bool("shrink", false, "if TestNemesis fails, leave out faults for as long as it still does")
)

func TestMain(m *testing.M) { lab.Main(m) }

// roundLength is the time in which faults of a round begin and end.
const roundLength = 8 * time.Second

// TestNemesis runs schedules of any length, of one seed or several.
func TestNemesis(t *testing.T) {
	if *duration == 0 && *scheduleFile == "" {
		t.Skip("allowed: make faults runs it")
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
	f := &Figures{Seed: seed, Schedule: s.String(), Failed: true} // of a run that is given up
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
		t.Logf("seed %d fails with these faults already:\n%s", seed, s)
	}
	return first
}

// machines returns the names of all machines.
func machines() []string { return slices.Concat(lab.MachineNames()...) }

// TestFixedSeeds runs short schedules that are the same each time, so that make test finds
// regressions of the product and of the nemesis without a run of TestNemesis.
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
