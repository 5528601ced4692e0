package dataplanetest

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"portolan.dev/nodeagent/plan"
)

var killPoints = flag.Int("killpoints", 4, "the number of steps before which the process of a plane is killed; 0: every step")

// Killer is implemented by rigs that can kill the process of a plane during a change.
type Killer interface {
	// Kill ends the plane's process. Another one takes over, makes the changes, and is killed immediately before
	// its n-th message to the kernel or write of its files; 0: it makes all the changes. Kill returns the number
	// of these steps that the process came to. Restart starts the next process.
	Kill(t testing.TB, changed plan.Changes, n int) (steps int, killed bool, err error)
}

func kills(rig Rig) bool {
	_, ok := rig.(Killer)
	return ok
}

// KilledBetween changes the servers from Before to After by a process that is killed before one of its steps, for
// many steps. Clients of the frontends Served and the connection Conn must be served without the process and by
// the next one, which completes the change.
type KilledBetween struct {
	Before, After Program
	Served        []string
	Conn          string
}

func (a KilledBetween) run(w *scenarioRun) error {
	steps, err := a.kill(w, 0)
	if err != nil {
		return err
	}
	stride := 1
	if *killPoints > 0 {
		stride = max(1, steps / *killPoints)
	}
	w.t.Logf("the change has %d steps, and one in %d is a kill point", steps, stride)
	for n := 1 + rand.N(stride); n <= steps; n += stride {
		if _, err := a.kill(w, n); err != nil {
			return fmt.Errorf("killed before step %d of %d: %w", n, steps, err)
		}
	}
	return nil
}

// kill makes the change with a process that is killed before its n-th step, and completes it.
func (a KilledBetween) kill(w *scenarioRun, n int) (steps int, err error) {
	if err := a.Before.run(w); err != nil {
		return 0, err
	}
	want := w.servers(a.After)
	want.Sources = w.rig.Sources()
	steps, killed, err := w.rig.(Killer).Kill(w.t, plan.Changed(w.state, want), n)
	if err != nil {
		return steps, err
	}
	if err := a.served(w); err != nil {
		return steps, fmt.Errorf("without a process: %w", err)
	}
	w.rig.Restart(w.t)
	if w.state, err = w.rig.Plane().State(w.t.Context()); err != nil {
		return steps, err
	}
	if missing := plan.Diff(w.state, want); !killed && len(missing) > 0 {
		return steps, fmt.Errorf("the process that was not killed has not done %v", missing)
	}
	if err := a.served(w); err != nil {
		return steps, fmt.Errorf("with the next process: %w", err)
	}
	if err := w.program(want); err != nil {
		return steps, err
	}
	return steps, a.served(w)
}

// served checks that clients are served.
func (a KilledBetween) served(w *scenarioRun) error {
	errs := []error{Continue{Conn: a.Conn}.run(w)}
	for _, frontend := range a.Served {
		for _, client := range []Client{in0, out0} {
			if _, _, err := w.try(client, frontend, patience); err != nil {
				errs = append(errs, fmt.Errorf("%s at %s: %w", client.From, frontend, err))
			}
		}
	}
	return errors.Join(errs...)
}
