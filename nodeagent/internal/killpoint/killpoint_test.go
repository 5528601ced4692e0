//go:build linux

package killpoint

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// victimEnv makes the test binary a process that is killed.
const victimEnv = "PORTOLAN_TEST_VICTIM"

func TestMain(m *testing.M) {
	path := os.Getenv(victimEnv)
	if path == "" {
		os.Exit(m.Run())
	}
	if err := victim(path); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// victim writes a file in three writes, and renames it.
func victim(path string) error {
	if err := Arm(); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, text := range []string{"one ", "two ", "three"} {
		if _, err := f.WriteString(text); err != nil {
			return err
		}
	}
	return os.Rename(path, path+".done")
}

// TestTheProcessIsKilledBeforeItsStep checks that each kill point leaves the work of the steps before it, and
// nothing of the step itself.
func TestTheProcessIsKilledBeforeItsStep(t *testing.T) {
	for n, want := range []string{"one two three", "", "one ", "one two ", "one two three", "one two three"} {
		path := filepath.Join(t.TempDir(), "file")
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), victimEnv+"="+path)
		got, err := Run(cmd, n, path)
		if errors.Is(err, ErrUnsupported) {
			t.Skipf("allowed: %v", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		done := n == 0 || n > 4
		if wanted := (Result{Steps: map[bool]int{true: 4, false: n}[done], Killed: !done}); got != wanted {
			t.Errorf("killed before step %d: %+v, want %+v", n, got, wanted)
		}
		if done {
			path += ".done"
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("killed before step %d: %q, %v, want %q", n, text, err, want)
		}
	}
}
