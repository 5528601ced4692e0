package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"portolan.dev/services/kit/kittest"
)

// theTest is the key of the test among a script's values.
const theTest = "test"

// probed are the arguments of the installation for which testdata/probes is written.
var probed = []string{
	"dev", "--dns-addr", "127.0.0.1:53",
	"--service-cidr", "127.96.0.0/16,fd00:7f60::/112", "--pod-cidr", "127.64.0.0/16,fd00:7f64::/112",
}

// TestProbes runs the scripts of testdata/probes, all at the same time, on one installation. The
// installation has a network namespace of its own, so that the scripts can use the addresses of an
// ordinary `portolan dev`, and both families.
func TestProbes(t *testing.T) {
	ownNetwork(t)
	makeLocal(t, "fd00:7f60::/112", "fd00:7f64::/112")
	data := t.TempDir()
	dev := start(t, "dev", append(probed, "--data-dir", data)...)
	dev.await("portolan ready")
	programs := entering(t, dev.command.Process.Pid)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/probes",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", programs+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("PORTOLAN_TOKEN_FILE", filepath.Join(data, "token"))
			env.Values[theTest] = env.T()
			return nil
		},
		Cmds:               map[string]func(*testscript.TestScript, bool, []string){"eventually": eventually},
		RequireUniqueNames: true,
	})
}

// entering returns a folder with the programs of the scripts. Each of them runs in the network
// namespace of the given process.
func entering(t *testing.T, pid int) string {
	t.Helper()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, program := range map[string]string{"portolan": filepath.Join(bin, "portolan"), "curl": curl} {
		script := fmt.Sprintf("#!/bin/sh\nexec nsenter --net=/proc/%d/ns/net %s \"$@\"\n", pid, program)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// eventually repeats a command until its output matches a regular expression: eventually PATTERN
// PROGRAM [ARG...]. With an exclamation mark before the pattern it repeats the command until the
// output does not match.
func eventually(ts *testscript.TestScript, neg bool, args []string) {
	absent := len(args) > 0 && args[0] == "!"
	if absent {
		args = args[1:]
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually [!] PATTERN PROGRAM [ARG...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	t := ts.Value(theTest).(testing.TB)
	kittest.Eventually(t, strings.Join(args, " "), func() error {
		failed := ts.Exec(args[1], args[2:]...)
		output := ts.ReadFile("stdout") + ts.ReadFile("stderr")
		if pattern.MatchString(output) != absent {
			return nil
		}
		return fmt.Errorf("the last output is %q (%v)", output, failed)
	})
}
