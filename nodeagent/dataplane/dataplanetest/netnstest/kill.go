package netnstest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/internal/killpoint"
	"portolan.dev/nodeagent/plan"
)

var _ dataplanetest.Killer = (*Rig)(nil)

// victimEnv makes a test binary a process that a Rig kills.
const victimEnv = "PORTOLAN_TEST_VICTIM"

// task is the work of a victim, which it reads from its standard input.
type task struct {
	Namespace, Journal string
	Changes            plan.Changes
}

// Victim must be called by TestMain, with the Open of the rig's Options. In a process that a Rig has started, it
// opens the plane, makes changes and ends the process. Otherwise it does nothing.
func Victim(open func(namespace, journal string) (Plane, error)) {
	if os.Getenv(victimEnv) == "" {
		return
	}
	if err := work(open); err != nil {
		fmt.Fprintln(os.Stderr, "victim:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func work(open func(namespace, journal string) (Plane, error)) error {
	var todo task
	if err := json.NewDecoder(os.Stdin).Decode(&todo); err != nil {
		return err
	}
	if err := killpoint.Arm(); err != nil {
		return err
	}
	p, err := open(todo.Namespace, todo.Journal)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range p.Apply(context.Background(), todo.Changes) {
		errs = append(errs, fmt.Errorf("%s: %w", f.Frontend, f.Err))
	}
	return errors.Join(append(errs, p.Close())...)
}

// Kill implements dataplanetest.Killer.
func (r *Rig) Kill(t testing.TB, changed plan.Changes, n int) (steps int, killed bool, err error) {
	t.Helper()
	r.close(t)
	todo, err := json.Marshal(task{Namespace: r.Node.Path, Journal: r.Journal, Changes: changed})
	if err != nil {
		return 0, false, err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), victimEnv+"=1")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(todo), os.Stderr
	got, err := killpoint.Run(cmd, n, r.Journal)
	if errors.Is(err, killpoint.ErrUnsupported) {
		r.open(t)
		t.Skipf("allowed: %v", err)
	}
	return got.Steps, got.Killed, err
}
