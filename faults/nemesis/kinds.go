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

// kind is a way to break something.
type kind struct {
	// weight is how often it is drawn, compared with others.
	weight int
	// targets is how many machines it is about.
	targets int
	// may reports whether a machine can be its target; nil: each can.
	may func(machine string) bool
	// claims are the things that no other fault may touch meanwhile.
	claims func(machines []string) []string
	begin  func(l *lab.Lab, machines []*lab.Machine) error
	heal   func(l *lab.Lab, machines []*lab.Machine) error
	// last has it healed only at the end of its round, after the others.
	last bool
}

// kinds are the ways to break something, by name.
var kinds = map[string]kind{
	"kill": {
		weight: 6, targets: 1, claims: process,
		begin: func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Kill() },
		heal:  func(_ *lab.Lab, m []*lab.Machine) error { m[0].Start(); return nil },
	},
	"pause": {
		weight: 5, targets: 1, claims: process,
		begin: func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Pause() },
		heal:  func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Continue() },
	},
	"cut": { // two machines do not hear each other
		weight: 6, targets: 2,
		begin: func(l *lab.Lab, m []*lab.Machine) error { return errors.Join(l.Cut(m[0], m[1]), l.Cut(m[1], m[0])) },
		heal:  func(l *lab.Lab, m []*lab.Machine) error { return errors.Join(l.Join(m[0], m[1]), l.Join(m[1], m[0])) },
	},
	"cut-one-way": { // the second does not hear the first
		weight: 4, targets: 2,
		begin: func(l *lab.Lab, m []*lab.Machine) error { return l.Cut(m[0], m[1]) },
		heal:  func(l *lab.Lab, m []*lab.Machine) error { return l.Join(m[0], m[1]) },
	},
	"isolate": { // a machine hears nobody; writes go on, so it finds the log pruned
		weight: 4, targets: 1,
		begin: func(l *lab.Lab, m []*lab.Machine) error { return others(l, m[0], l.Cut) },
		heal:  func(l *lab.Lab, m []*lab.Machine) error { return others(l, m[0], l.Join) },
	},
	"lose": { // packets between two machines get lost
		weight: 3, targets: 2,
		begin: func(l *lab.Lab, m []*lab.Machine) error { return errors.Join(l.Lose(m[0], m[1]), l.Lose(m[1], m[0])) },
		heal:  func(l *lab.Lab, m []*lab.Machine) error { return errors.Join(l.Keep(m[0], m[1]), l.Keep(m[1], m[0])) },
	},
	"throttle": {
		weight: 2, targets: 1, claims: claim("throttle "),
		begin: func(l *lab.Lab, m []*lab.Machine) error { return l.Throttle(m[0]) },
		heal:  func(l *lab.Lab, m []*lab.Machine) error { return l.Widen(m[0]) },
	},
	"fill": {
		weight: 3, targets: 1, claims: claim("disk "),
		may: func(machine string) bool {
			return !strings.HasPrefix(machine, "postgres") && !strings.HasPrefix(machine, "registry") && !strings.HasPrefix(machine, "endpointctl")
		},
		begin: func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Fill() },
		heal:  func(_ *lab.Lab, m []*lab.Machine) error { return m[0].Empty() },
	},
	"fail-over": { // of Postgres
		weight: 3, last: true,
		claims: func([]string) []string { return process([]string{"postgres-0", "postgres-1"}) },
		begin:  func(l *lab.Lab, _ []*lab.Machine) error { return l.FailOver() },
		heal:   func(l *lab.Lab, _ []*lab.Machine) error { return l.Rejoin() },
	},
	"step-down": { // of the leader of the change stream
		weight: 2,
		begin:  func(l *lab.Lab, _ []*lab.Machine) error { return l.StepDown() },
		heal:   func(*lab.Lab, []*lab.Machine) error { return nil },
	},
	"lose-stream": { // of all NATS servers, so that the next one has another epoch
		weight: 2,
		claims: func([]string) []string { return append(process(brokers), claim("disk ")(brokers)...) },
		begin:  func(l *lab.Lab, _ []*lab.Machine) error { return l.LoseStream() },
		heal: func(l *lab.Lab, _ []*lab.Machine) error {
			for _, name := range brokers {
				l.Machine(name).Start()
			}
			return nil
		},
	},
}

var brokers = []string{"nats-0", "nats-1", "nats-2"}

// process is the claim on processes.
func process(machines []string) []string { return claim("process ")(machines) }

func claim(thing string) func([]string) []string {
	return func(machines []string) []string {
		var all []string
		for _, m := range machines {
			all = append(all, thing+m)
		}
		return all
	}
}

// others does something to all paths from and to a machine.
func others(l *lab.Lab, m *lab.Machine, do func(from, to *lab.Machine) error) error {
	errs := []error{do(m, l.Clients), do(l.Clients, m)}
	for _, other := range l.Machines() {
		if other != m {
			errs = append(errs, do(m, other), do(other, m))
		}
	}
	return errors.Join(errs...)
}

// find returns the machines of a fault.
func (f Fault) find(l *lab.Lab) ([]*lab.Machine, error) {
	var all []*lab.Machine
	for _, name := range f.Targets {
		m := l.Machine(name)
		if m == nil {
			return nil, fmt.Errorf("%s: there is no machine %q here", f, name)
		}
		all = append(all, m)
	}
	return all, nil
}

// pickKind draws a kind.
func pickKind(random *rand.Rand) string {
	names := slices.Sorted(maps.Keys(kinds))
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
