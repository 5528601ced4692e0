package kubeapi

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// kubectl runs kubectl against an installation.
type kubectl struct {
	*installation
	program, config string
	home            string // of its cache of discovery
}

// distributed returns the path of the kubectl of the distribution, which is old.
func distributed(t testing.TB) string {
	t.Helper()
	if program := os.Getenv("PORTOLAN_TEST_KUBECTL"); program != "" {
		return program
	}
	program, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("kubectl is not here; it comes with Debian's kubernetes-client")
	}
	return program
}

// newest builds kubectl of the version of the server's types, and returns its path. The first build takes
// minutes.
func newest(t testing.TB) string {
	t.Helper()
	// kubectl compares its version with the server's, which fails without a version.
	return buildClient(t, "kubeclients/kubectl", "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2")
}

// kubectlOf returns a kubectl with the certificate of a role, or without one if there is no TLS.
func kubectlOf(i *installation, who, program string) *kubectl {
	i.Helper()
	return &kubectl{installation: i, program: program, home: i.TempDir(), config: i.kubeconfig(who, i.url)}
}

// command returns a command of kubectl.
func (k *kubectl) command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, k.program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+k.config, "HOME="+k.home)
	return command
}

// try runs kubectl with a text as its input.
func (k *kubectl) try(input string, args ...string) (output string, err error) {
	k.Helper()
	command := k.command(k.Context(), args...)
	command.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err = command.Run()
	return out.String(), err
}

// run runs kubectl and fails the test if it fails.
func (k *kubectl) run(input string, args ...string) string {
	k.Helper()
	out, err := k.try(input, args...)
	if err != nil {
		k.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}
