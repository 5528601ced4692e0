package sim

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

var (
	firstSeed = flag.Uint64("seed", 1, "seed of the first schedule")
	runFor    = flag.Duration("for", 0, "run schedules for this long; 0: a fixed number of them")
	keep      = flag.String("keep", "", "run only these events of one schedule: 3,5,8")
	verbose   = flag.Bool("loud", false, "run one schedule and print what its daemons say")
	noShrink  = flag.Bool("whole", false, "do not shrink a schedule that fails")
)

const (
	// tries is how often a schedule runs before it counts as one that does not fail.
	maxAttempts = 3
	// shrinking bounds the time that it takes to shrink a schedule.
	shrinkTimeout = 30 * time.Second
)

func TestEndpoints(t *testing.T) { explore(t, endpoints, 60) }

func TestMoves(t *testing.T) { explore(t, moves, 60) }

func TestStream(t *testing.T) { explore(t, stream, 60) }

func TestAllocations(t *testing.T) { explore(t, allocations, 40) }

func TestAgents(t *testing.T) { explore(t, agents, 40) }

// explore runs schedules of a scenario until one fails: so many, or as long as the flags say.
func explore(t *testing.T, s scenario, schedules uint64) {
	if *keep != "" || *verbose {
		replay(t, s)
		return
	}
	start, count := time.Now(), uint64(0)
	for ; count < schedules && *runFor == 0 || time.Since(start) < *runFor; count++ {
		sim := simulation{scenario: s, seed: *firstSeed + count}
		if err := sim.run(t); err != nil {
			t.Errorf("after %d schedules in %s, seed %d fails:\n%v\n%s", count+1, time.Since(start).Round(time.Millisecond), sim.seed, err, shrinkAndDescribe(t, sim))
			return
		}
	}
	elapsed := time.Since(start)
	t.Logf("%d schedules in %s: %.0f per second", count, elapsed.Round(time.Millisecond), float64(count)/elapsed.Seconds())
}

// shrunk returns the smallest schedule that still fails, and how to repeat it.
func shrinkAndDescribe(t *testing.T, s simulation) string {
	command := fmt.Sprintf("to repeat: go test ./faults/sim -run '^%s$' -args -seed %d -keep ", t.Name(), s.seed)
	if *noShrink {
		return strings.Replace(command, "-keep ", "-loud", 1)
	}
	s.keep = shrink(s.events(), time.Now().Add(shrinkTimeout), func(keep []int) bool {
		smaller := s
		smaller.keep = keep
		for range maxAttempts {
			if smaller.run(t) != nil {
				return true
			}
		}
		return false
	})
	return command + strings.Trim(strings.ReplaceAll(fmt.Sprint(s.keep), " ", ","), "[]") + "\n" + s.String()
}

// replay runs one schedule, or some events of it, until it fails.
func replay(t *testing.T, s scenario) {
	sim := simulation{scenario: s, seed: *firstSeed, log: os.Stdout}
	for text := range strings.SplitSeq(*keep, ",") {
		if i, err := strconv.Atoi(text); err == nil {
			sim.keep = append(sim.keep, i)
		}
	}
	for range maxAttempts {
		if err := sim.run(t); err != nil {
			t.Errorf("%v\n%s", err, sim)
			return
		}
	}
	t.Logf("it does not fail:\n%s", sim)
}
