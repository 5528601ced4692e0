package probe_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/nodeagent/internal/probe"
	"portolan.dev/nodeagent/internal/script"
	"portolan.dev/services/kit/kittest"
)

func execProbe(command ...string) *corev1.Probe {
	return every(&corev1.Probe{Handler: &corev1.Probe_Exec{Exec: &corev1.ExecAction{Command: command}}})
}

// withScript gives the prober a folder with one script. It returns the folder.
func withScript(t *testing.T, name, content string) (string, func(*probe.Options)) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil { // #nosec G306 -- a script is executable
		t.Fatal(err)
	}
	return dir, func(o *probe.Options) {
		var err error
		if o.Scripts, err = script.Open(dir, "65534:65534"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExec follows a pod with an exec check: the script decides about the readiness, and the output of
// the first failure is in the condition.
func TestExec(t *testing.T) {
	t.Parallel()
	dir, scripts := withScript(t, "check", `#!/bin/sh
echo "$PORTOLAN_POD_NAMESPACE/$PORTOLAN_POD_NAME at $PORTOLAN_POD_IP has no $2"
test -e "$1/$2"
`)
	state := t.TempDir()
	for _, folder := range []string{filepath.Dir(state), state} { // the script's user reads it
		if err := os.Chmod(folder, 0o755); err != nil { // #nosec G302 -- another user reads it
			t.Fatal(err)
		}
	}
	w := newWorld(t, scripts)
	w.put(pod("p", execProbe("check", state, "ready")))
	w.untilMessage("p", "container main: script check: exit status 1: default/p at 127.0.0.1 has no ready")
	if err := os.WriteFile(filepath.Join(state, "ready"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.until("p", isTrue)
	if err := os.Remove(filepath.Join(dir, "check")); err != nil {
		t.Fatal(err)
	}
	w.untilMessage("p", "no such file")
	if len(w.refused) != 1 {
		t.Errorf("%d refusals were told, want the one of the script that is gone", len(w.refused))
	}
}

// TestExecIsRefused checks that the agent refuses a check that is not a script, and every exec check if it has
// no scripts. The reason is in the condition, and is reported once.
func TestExecIsRefused(t *testing.T) {
	t.Parallel()
	_, scripts := withScript(t, "check", "#!/bin/sh\n")
	w := newWorld(t, scripts)
	w.put(pod("shell", execProbe("/bin/sh", "-c", "true")))
	w.untilMessage("shell", "plain file name")
	if reason := kittest.Receive(t, "the refusal", w.refused); !strings.HasPrefix(reason, `default/shell: the node agent does not run the script "/bin/sh"`) {
		t.Errorf("the refusal is %q", reason)
	}
	without := newWorld(t)
	without.put(pod("p", execProbe("check")))
	without.untilMessage("p", "-check-dir")
}
