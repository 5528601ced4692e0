package nemesis

import (
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/faults/clients"
	"portolan.dev/faults/history"
	"portolan.dev/faults/lab"
	"portolan.dev/portolan/e2e/churn/workload"
)

// recoveryTimeout is the longest time that a daemon may take to recover from a fault.
const recoveryTimeout = 60 * time.Second

// run is the state of one run of a schedule.
type run struct {
	*lab.Lab
	seed   uint64
	actors []*workload.Actor
	// The connections to registries, allocator and agents come from the hub, so cuts do not affect
	// them.
	registries      [2]*grpc.ClientConn
	allocator       *grpc.ClientConn
	agents          map[*lab.Node]nodeagentv1.NodeAgentServiceClient
	foreignCheckers []foreignChecker
	leaks           *leaks
	figures         *Figures
	round

	mu     sync.Mutex
	cached cachedWorld
}

// round is the state of one round.
type round struct {
	number    int
	fleet     *clients.Fleet
	recorder  *history.Recorder
	witnesses []witness
	measured  *Round
}

// Run starts a lab and runs a schedule in it. It checks the lab after each round, and stops after
// the first round that failed. It returns the measurements.
func Run(t *testing.T, seed uint64, s Schedule) *Figures {
	t.Helper()
	t.Logf("seed %d, %d faults in %d rounds:\n%s", seed, len(s), s.Rounds(), s)
	r := &run{seed: seed, figures: &Figures{Seed: seed, Schedule: s.String(), Restarts: map[string]int{}}}
	defer func() { r.figures.Failed = t.Failed() }()
	r.setUp(t)
	s = s.prepare(r.Lab)
	for number := range s.Rounds() {
		r.figures.Rounds = append(r.figures.Rounds, Round{Convergence: map[string]time.Duration{}})
		r.round = round{number: number, recorder: history.NewRecorder(), measured: &r.figures.Rounds[number]}
		r.runRound(s.round(number))
		r.checkLeaks()
		if r.measured.Failed = t.Failed(); r.measured.Failed {
			break
		}
	}
	r.checkCleanup()
	r.checkLogs()
	if missing := r.figures.missingRecords(); len(missing) > 0 {
		t.Errorf("no records of the sorts %v", missing)
	}
	t.Log(strings.Join(r.figures.report(), "\n"))
	return r.figures
}

// setUp starts the lab, and creates the connections, actors, objects and checkers that all rounds
// use.
func (r *run) setUp(t *testing.T) {
	t.Helper()
	began := time.Now()
	l := lab.Install(t)
	t.Logf("%d processes are ready after %s", len(l.Machines()), time.Since(began).Round(time.Millisecond))
	r.Lab = l
	r.registries = [2]*grpc.ClientConn{l.Dial("registry-0"), l.Dial("registry-1")}
	r.allocator, r.agents = l.Dial("allocator-0"), map[*lab.Node]nodeagentv1.NodeAgentServiceClient{}
	for _, n := range l.Nodes {
		r.agents[n] = l.Agent(n)
	}
	for n := range actors {
		r.actors = append(r.actors, workload.NewActor(r.seed, n, podNodes))
	}
	r.createObjects()
	for _, newChecker := range newForeignCheckers {
		r.foreignCheckers = append(r.foreignCheckers, newChecker(l))
	}
	r.leaks = newLeaks(l)
	if _, err := r.leaks.Check(r.Context(), nil); err != nil {
		t.Fatalf("before the first fault: %v", err)
	}
}

// runRound runs clients while the faults of the round begin and end, and then checks the round.
func (r *run) runRound(faults Schedule) {
	r.Helper()
	if err := r.startFleet(); err != nil {
		r.Errorf("round %d: starting clients: %v", r.number, err)
		return
	}
	defer r.fleet.Close()
	stopWitnesses := r.startWitnesses()
	defer stopWitnesses()
	err := r.injectFaults(faults)
	healed := time.Now()
	r.fleet.StopWriters()
	r.Logf("round %d: healed, writes ended %s later", r.number, time.Since(healed).Round(time.Millisecond))
	if err == nil {
		r.checkRound(healed, stopWitnesses)
	} else {
		r.Errorf("round %d: injecting faults: %v", r.number, err)
	}
	if err := r.fleet.Stop(); err != nil {
		r.Errorf("round %d: clients that failed: %v", r.number, err)
	}
}

// checkRound waits until all components have recovered, and then checks the round.
func (r *run) checkRound(healed time.Time, stopWitnesses func()) {
	r.Helper()
	ready := make(chan error, 1)
	go func() { ready <- r.awaitReady() }()
	r.measureConvergence(healed)
	if err := <-ready; err != nil {
		r.Errorf("round %d: %s after the last fault: %v", r.number, time.Since(healed).Round(time.Second), err)
	}
	r.checkAtRest()
	stopWitnesses()
	r.checkRecords()
}

// awaitReady waits until all processes are ready. It restarts processes that exit, because a start
// of a daemon may fail because of the data on its disk, and the next start may succeed.
func (r *run) awaitReady() error {
	done := make(chan error, 1)
	go func() { done <- r.AwaitReady() }()
	for {
		select {
		case err := <-done:
			return err
		case <-time.After(supervisionInterval):
			r.supervise()
		}
	}
}
