package dockertest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	maxContainers = 20 // in all
	maxAtATime    = 6
)

// Watcher watches the containers of a sequence. The sequence stops and starts it now and then.
type Watcher interface {
	// Stop stops the watcher. It may kill it.
	Stop()
	// Start starts it after Stop.
	Start()
}

// Sequence is a random history of containers.
type Sequence struct {
	// Operations is the number of operations so far, and Restarts the number of the watcher's restarts.
	Operations, Restarts int

	lab     *Lab
	random  *rand.Rand
	watcher Watcher
	alive   []string // the containers that were not removed
}

// Sequence returns a random history of containers in the lab's two networks. The test's log has its seed,
// with which PORTOLAN_TEST_SEED repeats it.
func (l *Lab) Sequence(watcher Watcher) *Sequence {
	l.t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PORTOLAN_TEST_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			l.t.Fatal(err)
		}
	}
	l.t.Logf("PORTOLAN_TEST_SEED=%d", seed)
	return &Sequence{lab: l, random: rand.New(rand.NewPCG(seed, 0)), watcher: watcher}
}

// Round runs random operations on several containers at the same time. In half of the rounds, the watcher is
// stopped meanwhile.
func (s *Sequence) Round() {
	away := s.random.IntN(2) == 0
	if away {
		s.watcher.Stop()
	}
	var running sync.WaitGroup
	for len(s.alive) < maxAtATime && len(s.lab.Containers()) < maxContainers {
		name, options := s.fresh()
		s.lab.Run(name, "0.2", options...)
		s.alive = append(s.alive, name)
	}
	chosen := s.random.Perm(len(s.alive))[:min(4, len(s.alive))]
	slices.Sort(chosen)
	slices.Reverse(chosen) // so that removals keep the indices of the others
	for _, index := range chosen {
		steps := s.steps(index)
		running.Go(func() {
			for _, step := range steps {
				_, _ = s.lab.Try(step...) // a step may be impossible, such as stopping a container that does not run
			}
		})
	}
	if away && s.random.IntN(2) == 0 { // it starts amid the changes
		s.watcher.Start()
		s.Restarts++
		away = false
	}
	running.Wait()
	if away {
		s.watcher.Start()
		s.Restarts++
	}
}

// fresh returns the name and the options of a new container.
func (s *Sequence) fresh() (string, []string) {
	name := fmt.Sprintf("c%d", len(s.lab.Containers()))
	options := []string{"--network", s.lab.Networks[s.random.IntN(2)]}
	if s.random.IntN(2) == 0 {
		options = append(options, "--health-cmd", "[ -e /healthy ]", "--health-interval", "200ms", "--health-retries", "1")
	}
	if s.random.IntN(3) == 0 {
		options = append(options, "--label", "portolan.network="+s.lab.Networks[0])
	}
	if s.random.IntN(4) == 0 {
		options = append(options, "--restart", "always")
	}
	return name, options
}

// steps returns random commands of the docker CLI for one container.
func (s *Sequence) steps(index int) [][]string {
	name, network := s.lab.Name(s.alive[index]), s.lab.Networks[s.random.IntN(2)]
	choices := [][][]string{
		{{"exec", name, "busybox", "touch", "/healthy"}},
		{{"exec", name, "busybox", "rm", "-f", "/healthy"}},
		{{"stop", "-t", "1", name}},
		{{"stop", "-t", "1", name}, {"start", name}},
		{{"kill", name}},
		{{"kill", name}, {"start", name}},
		{{"kill", "-s", "HUP", name}},
		{{"restart", "-t", "1", name}},
		{{"start", name}},
		{{"pause", name}},
		{{"unpause", name}},
		{{"pause", name}, {"unpause", name}},
		{{"network", "connect", network, name}},
		{{"network", "disconnect", network, name}},
		{{"rm", "-f", name}},
	}
	steps := choices[s.random.IntN(len(choices))]
	if steps[0][0] == "rm" {
		s.alive = slices.Delete(s.alive, index, index+1)
	}
	s.Operations += len(steps)
	return steps
}
