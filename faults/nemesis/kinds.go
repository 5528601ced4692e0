package nemesis

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"portolan.dev/faults/lab"
)

// A kind is a kind of fault.
type kind struct {
	// weight is the probability that the kind is drawn, relative to other kinds.
	weight int
	// targets is the number of machines that a fault of the kind affects.
	targets int
	// validTarget reports whether the fault can affect a machine. If it is nil, the fault can
	// affect each machine.
	validTarget func(machine string) bool
	// claims returns the resources that no other fault may claim at the same time. If it is nil,
	// the fault claims none.
	claims func(machines []string) []string
	begin  func(l *lab.Lab, machines []*lab.Machine) error
	heal   func(l *lab.Lab, machines []*lab.Machine) error
	// healLast is true if the fault is healed at the end of its round, after the other faults.
	healLast bool
	// mayFail is true if other faults may make begin fail.
	mayFail bool
	// prepare is called once before a run and may be slow. Kinds that have it are drawn only if
	// Size.AllowPreparation is set.
	prepare func(l *lab.Lab) error
}

// kinds are the kinds of faults by name.
var kinds = map[string]kind{
	"kill": {
		weight: 6, targets: 1, claims: processClaims,
		begin: func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Kill() },
		heal:  func(_ *lab.Lab, m []*lab.Machine) error { m[0].Start(); return nil },
	},
	"pause": {
		weight: 5, targets: 1, claims: processClaims,
		begin: func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Pause() },
		heal:  func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Continue() },
	},
	"cut": { // drops packets in both directions
		weight: 6, targets: 2,
		begin: func(l *lab.Lab, m []*lab.Machine) error { return errors.Join(l.Cut(m[0], m[1]), l.Cut(m[1], m[0])) },
		heal: func(l *lab.Lab, m []*lab.Machine) error {
			return errors.Join(l.EndCut(m[0], m[1]), l.EndCut(m[1], m[0]))
		},
	},
	"cut-one-way": { // drops packets from the first machine to the second
		weight: 4, targets: 2,
		begin: func(l *lab.Lab, m []*lab.Machine) error { return l.Cut(m[0], m[1]) },
		heal:  func(l *lab.Lab, m []*lab.Machine) error { return l.EndCut(m[0], m[1]) },
	},
	"isolate": { // cuts a machine off from all others; the log may be pruned meanwhile
		weight: 4, targets: 1,
		begin: func(l *lab.Lab, m []*lab.Machine) error { return forEachPath(l, m[0], l.Cut) },
		heal:  func(l *lab.Lab, m []*lab.Machine) error { return forEachPath(l, m[0], l.EndCut) },
	},
	"lose": { // drops some packets in both directions
		weight: 3, targets: 2,
		begin: func(l *lab.Lab, m []*lab.Machine) error { return errors.Join(l.Lose(m[0], m[1]), l.Lose(m[1], m[0])) },
		heal: func(l *lab.Lab, m []*lab.Machine) error {
			return errors.Join(l.EndLoss(m[0], m[1]), l.EndLoss(m[1], m[0]))
		},
	},
	"throttle": {
		weight: 2, targets: 1, claims: claimsOn("throttle "),
		begin: func(l *lab.Lab, m []*lab.Machine) error { return l.Throttle(m[0]) },
		heal:  func(l *lab.Lab, m []*lab.Machine) error { return l.EndThrottle(m[0]) },
	},
	"fill": {
		weight: 3, targets: 1,
		claims: func(m []string) []string {
			if isBroker(m[0]) { // freeDisk restarts it
				return append(claimsOn("disk ")(m), processClaims(m)...)
			}
			return claimsOn("disk ")(m)
		},
		validTarget: lab.HasDisk,
		begin:       func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Fill() },
		heal:        func(_ *lab.Lab, m []*lab.Machine) error { return freeDisk(m[0]) },
	},
	"fail-over": { // of Postgres
		weight: 3, healLast: true,
		claims: func([]string) []string { return processClaims([]string{"postgres-0", "postgres-1"}) },
		begin:  func(l *lab.Lab, _ []*lab.Machine) error { return l.FailOver() },
		heal:   func(l *lab.Lab, _ []*lab.Machine) error { return l.Rejoin() },
	},
	"slow-flush": { // of the primary's log
		weight: 3,
		claims: func([]string) []string { return []string{"flush"} },
		begin:  func(l *lab.Lab, _ []*lab.Machine) error { return l.SlowFlush() },
		heal:   func(l *lab.Lab, _ []*lab.Machine) error { return l.EndSlowFlush() },
	},
	"rotate": { // gives a machine a new certificate, which it must present by the end of the round
		weight: 3, targets: 1, healLast: true,
		claims: func(machines []string) []string {
			return append(processClaims(machines), claimsOn("disk ")(machines)...)
		},
		begin: func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Rotate() },
		heal:  func(_ *lab.Lab, m []*lab.Machine) error { return m[0].AwaitRotated() },
	},
	"step-down": { // of the leader of the change stream
		weight: 2, mayFail: true,
		begin: func(l *lab.Lab, _ []*lab.Machine) error { return l.StepDown() },
		heal:  func(*lab.Lab, []*lab.Machine) error { return nil },
	},
	"diverge": { // publishes a message that the log lacks, so the log gets another epoch
		weight: 2, mayFail: true,
		begin: func(l *lab.Lab, _ []*lab.Machine) error { return l.Diverge() },
		heal:  func(*lab.Lab, []*lab.Machine) error { return nil },
	},
	"downgrade": { // replaces a daemon by the previous release
		weight: 4, targets: 1, claims: processClaims,
		validTarget: func(machine string) bool {
			return !strings.HasPrefix(machine, "postgres") && !strings.HasPrefix(machine, "nats")
		},
		prepare: func(l *lab.Lab) error { return l.BuildRelease() },
		begin:   func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Downgrade() },
		heal:    func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Upgrade() },
	},
	loseAllocations: { // deletes the allocator's store; the allocator reads the values in use from the registry again
		weight: 3,
		claims: func([]string) []string {
			return append(processClaims([]string{allocatorMachine}), claimsOn("disk ")([]string{allocatorMachine})...)
		},
		begin: func(l *lab.Lab, _ []*lab.Machine) error { return l.Machine(allocatorMachine).LoseDisk() },
		heal:  func(l *lab.Lab, _ []*lab.Machine) error { l.Machine(allocatorMachine).Start(); return nil },
	},
	"lose-stream": { // deletes the data of all NATS servers; the relay creates the stream again
		weight: 2,
		claims: func([]string) []string { return append(processClaims(brokers), claimsOn("disk ")(brokers)...) },
		begin:  func(l *lab.Lab, _ []*lab.Machine) error { return l.LoseStream() },
		heal: func(l *lab.Lab, _ []*lab.Machine) error {
			for _, name := range brokers {
				l.Machine(name).Start()
			}
			return nil
		},
	},
}

const (
	// loseAllocations is the kind of fault after which the allocator has to learn the values in use.
	loseAllocations  = "lose-allocations"
	allocatorMachine = "allocator-0"
)

// freeDisk undoes Machine.Fill. If the machine is a NATS server, freeDisk restarts it, because a
// NATS server stops JetStream when its disk is full and starts it again only after a restart.
// Without that server, the stream would have fewer servers than replicas, so it could not be
// created again.
func freeDisk(m *lab.Machine) error {
	err := m.EndFill()
	if err == nil && isBroker(m.Name) {
		err = m.Kill()
		m.Start()
	}
	return err
}

func isBroker(machine string) bool { return slices.Contains(brokers, machine) }

var brokers = []string{"nats-0", "nats-1", "nats-2"}

// processClaims returns the claims on the machines' processes.
func processClaims(machines []string) []string { return claimsOn("process ")(machines) }

// claimsOn returns a function that returns the claims on one resource of each machine.
func claimsOn(resource string) func([]string) []string {
	return func(machines []string) []string {
		var all []string
		for _, m := range machines {
			all = append(all, resource+m)
		}
		return all
	}
}

// forEachPath calls do for all paths from and to a machine.
func forEachPath(l *lab.Lab, m *lab.Machine, do func(from, to *lab.Machine) error) error {
	errs := []error{do(m, l.Clients), do(l.Clients, m)}
	for _, other := range l.Machines() {
		if other != m {
			errs = append(errs, do(m, other), do(other, m))
		}
	}
	return errors.Join(errs...)
}

// findTargets returns the machines that the fault affects.
func (f Fault) findTargets(l *lab.Lab) ([]*lab.Machine, error) {
	var all []*lab.Machine
	for _, name := range f.Targets {
		m := l.Machine(name)
		if m == nil {
			return nil, fmt.Errorf("%s: the lab has no machine %q", f, name)
		}
		all = append(all, m)
	}
	return all, nil
}

// prepare prepares the kinds of faults in the schedule. It returns the schedule without the faults
// of kinds that could not be prepared.
func (s Schedule) prepare(l *lab.Lab) Schedule {
	l.Helper()
	missing := map[string]bool{}
	for _, f := range s {
		k := kinds[f.Kind]
		if _, done := missing[f.Kind]; done || k.prepare == nil {
			continue
		}
		err := k.prepare(l)
		if missing[f.Kind] = err != nil; err != nil {
			l.Logf("faults of the kind %s are left out: %v", f.Kind, err)
		}
	}
	return slices.DeleteFunc(slices.Clone(s), func(f Fault) bool { return missing[f.Kind] })
}

// pickKind returns the name of a random kind. The probability of a kind is proportional to its
// weight.
func pickKind(random *rand.Rand, size Size) string {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(kinds)), func(name string) bool { return kinds[name].prepare != nil && !size.AllowPreparation })
	total := 0
	for _, name := range names {
		total += kinds[name].weight
	}
	n := random.IntN(total)
	for _, name := range names {
		if n -= kinds[name].weight; n < 0 {
			return name
		}
	}
	return names[0]
}
