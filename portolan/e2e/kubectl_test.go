package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"portolan.dev/portolan/internal/loopbacktest"
	"portolan.dev/services/kit/kittest"
)

// kubectlPath returns the path of kubectl. It skips the test if there is none.
func (i *installation) kubectlPath() string {
	i.Helper()
	if program := os.Getenv("PORTOLAN_TEST_KUBECTL"); program != "" {
		return program
	}
	program, err := exec.LookPath("kubectl")
	if err != nil {
		i.Skip("kubectl is not here; it comes with Debian's kubernetes-client")
	}
	return program
}

// kubectl runs kubectl with the kubeconfig that dev has written.
func (i *installation) kubectl(args ...string) (string, error) {
	i.Helper()
	ctx, cancel := context.WithTimeout(i.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, i.kubectlPath(), append([]string{"--kubeconfig", filepath.Join(i.dataDir, "kubeconfig"), "--cache-dir", i.TempDir()}, args...)...)
	out, err := command.CombinedOutput()
	return string(out), err
}

// TestKubectlUsesDev shows the objects of the example by kubectl, and creates a service with it, which gets
// a virtual IP and a name. Without dev's file kubectl is refused.
func TestKubectlUsesDev(t *testing.T) {
	i := &installation{T: t, network: loopbacktest.Claim(t), dataDir: t.TempDir()}
	i.kubectlPath()
	example, err := filepath.Abs(repository + "/examples/hello")
	if err != nil {
		t.Fatal(err)
	}
	i.startDev("--example", example)
	i.process.await("  kubectl --kubeconfig " + filepath.Join(i.dataDir, "kubeconfig"))
	i.awaitBackends("hello", 3)
	for resource, wanted := range map[string][]string{
		"services":       {i.vip("hello"), "8080/TCP"},
		"endpoints":      {i.podIP("hello-1") + ":8080"},
		"endpointslices": {"hello-", "IPv4", i.podIP("hello-2")},
		"pods":           {"hello-1", "hello-2", "hello-3", "1/1", "Running"},
		"nodes":          {"dev", "Ready"},
	} {
		kittest.Eventually(t, resource, func() error {
			out, err := i.kubectl("get", resource)
			if err != nil {
				return fmt.Errorf("%w\n%s", err, out)
			}
			return lacks(out, wanted...)
		})
	}
	if out, err := i.kubectl("create", "service", "clusterip", "web", "--tcp=80:8080"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	vip, err := i.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		t.Fatal(err, vip)
	}
	if got := i.vip("web"); got != vip || !netip.MustParsePrefix(i.network.Services()).Contains(netip.MustParseAddr(vip)) {
		t.Errorf("kubectl shows the virtual IP %q, the registry has %q", vip, got)
	}
	i.awaitAnswer("web.default.svc.cluster.local", dns.TypeA, answers("A "+vip))
	out, err := exec.CommandContext(t.Context(), i.kubectlPath(), "--server", "http://"+i.api(7405), "--cache-dir", t.TempDir(), "get", "services").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "logged in") {
		t.Errorf("without the token: %v\n%s", err, out)
	}
}
