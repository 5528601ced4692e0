package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
)

// testDowngrade downgrades the daemons one by one to the previous release, and upgrades them again
// in the order of docs/operations.md. It checks each step with checkRelease.
func testDowngrade(t *testing.T, l *Lab) {
	began := time.Now()
	if err := l.BuildRelease(); errors.Is(err, ErrNoRelease) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s is ready after %s", l.releaseFolder, time.Since(began).Round(time.Millisecond))
	daemons := l.daemons()
	for _, m := range slices.Backward(daemons) {
		must(t, m.Downgrade())
		checkRelease(t, l, m, "down", filepath.Join(l.releaseFolder, programOf(m.Name)))
	}
	self, err := os.Executable()
	must(t, err)
	for _, m := range daemons {
		must(t, m.Upgrade())
		checkRelease(t, l, m, "up", self)
	}
}

// checkRelease checks that a machine runs the executable with the path program, that the machine is
// ready, and that a write reaches all followers.
func checkRelease(t *testing.T, l *Lab, m *Machine, direction, program string) {
	t.Helper()
	running, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", m.process.PID()))
	must(t, err)
	if running != program {
		t.Fatalf("%s runs %s, want %s", m.Name, running, program)
	}
	must(t, eventually(m.Ready))
	revision := awaitCreateService(t, l, direction+"-"+m.Name)
	for _, f := range l.followers() {
		kittest.Eventually(t, f.Name, func() error { return f.checkApplied(revision) })
	}
}
