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
	runFor    = flag.Duration("for", 0, "run schedules for this time; 0 runs a fixed number of schedules")
	keep      = flag.String("keep", "", "run one schedule with only these events, such as 3,5,8")
	verbose   = flag.Bool("loud", false, "run one schedule and print the logs of its daemons")
	noShrink  = flag.Bool("whole", false, "do not shrink a failing schedule")
)

const (
	// maxAttempts is the number of runs of a schedule without failure after which the schedule
	// counts as passing.
	maxAttempts = 3
	// shrinkTimeout bounds the time for shrinking a schedule.
	shrinkTimeout = 30 * time.Second
)

func TestEndpoints(t *testing.T) { explore(t, endpoints, 60) }

func TestShards(t *testing.T) { explore(t, sharded, 40) }

func TestMoves(t *testing.T) { explore(t, moves, 60) }

func TestStream(t *testing.T) { explore(t, stream, 60) }

func TestAllocations(t *testing.T) { explore(t, allocations, 40) }

func TestAgents(t *testing.T) { explore(t, agents, 40) }

// explore runs schedules of a scenario until one fails. It runs the given number of schedules, or
// for the time of the flag -for.
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

// shrinkAndDescribe shrinks a failing schedule and returns the smallest schedule that still fails,
// with the command that repeats it.
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

// replay runs one schedule, or the selected events of it, up to maxAttempts times until it fails.
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
	t.Logf("the schedule does not fail:\n%s", sim)
}
