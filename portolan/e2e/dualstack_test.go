package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"portolan.dev/portolan/internal/loopbacktest"
	"portolan.dev/services/kit/kittest"
)

const dualStackService = `apiVersion: v1
kind: Service
metadata:
  name: both
spec:
  ipFamilyPolicy: RequireDualStack
  selector:
    app: both
  ports:
    - port: 8000
      targetPort: 9376
`

// TestDualStackEndToEnd checks that an installation with ranges of both families gives each service
// and each pod an address of both, forwards to both and answers for both. It runs in its own
// network namespace, to which the IPv6 ranges are local. All communication is by processes that the
// test's thread starts, because only that thread is in the namespace.
func TestDualStackEndToEnd(t *testing.T) {
	ownNetwork(t)
	const services, pods = "fd00:7f60::/112", "fd00:7f64::/112"
	makeLocal(t, services, pods)
	i := &installation{T: t, network: loopbacktest.Claim(t), dataDir: t.TempDir()}
	i.startDev("--service-cidr", i.network.Services()+","+services, "--pod-cidr", i.network.Pods()+","+pods)
	i.apply(dualStackService)
	i.hello("one", "app=both", "http", 9376)

	ips := i.field("service/both", "spec", "clusterIPs")
	podIPs := i.field("pod/one", "status", "podIPs", "ip")
	if len(ips) != 2 || len(podIPs) != 2 || !strings.HasPrefix(ips[1], "fd00:7f60::") || !strings.HasPrefix(podIPs[1], "fd00:7f64::") {
		t.Fatalf("the service has %q, the pod %q; want an address of each family", ips, podIPs)
	}
	for _, ip := range ips {
		kittest.Eventually(t, "the service answers at "+ip, func() error {
			out, err := exec.CommandContext(t.Context(), "curl", "-sS", "--max-time", "5", "http://"+hostPort(ip, 8000)+"/").CombinedOutput()
			if err == nil && !strings.HasPrefix(string(out), "hello from one") {
				err = fmt.Errorf("answered %q", out)
			}
			return err
		})
	}
	host, port, _ := strings.Cut(i.network.DNS(), ":")
	for qtype, want := range map[string]string{"A": ips[0], "AAAA": ips[1]} {
		out := must(t, "dig", "+short", "@"+host, "-p", port, "both.default.svc.cluster.local", qtype)
		if strings.TrimSpace(out) != want {
			t.Errorf("%s is %q, want %s", qtype, out, want)
		}
	}
	if name := strings.TrimSpace(must(t, "dig", "+short", "@"+host, "-p", port, "-x", ips[1])); name != "both.default.svc.cluster.local." {
		t.Errorf("the name of %s is %q", ips[1], name)
	}
}

// ownNetwork gives the test's thread, and the processes that it starts, an empty network namespace.
// The thread ends with the test.
func ownNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		if os.Getenv("PORTOLAN_REQUIRE_REAL") == "1" {
			t.Fatalf("a network namespace cannot be made here: %v", err)
		}
		t.Skipf("a network namespace cannot be made here: %v", err)
	}
}

// makeLocal makes IPv6 ranges local to the network of the test's thread, as IPv4's loopback range
// is by default.
func makeLocal(t *testing.T, ranges ...string) {
	t.Helper()
	must(t, "ip", "link", "set", "lo", "up")
	for _, prefix := range ranges {
		must(t, "ip", "-6", "route", "add", "local", prefix, "dev", "lo")
	}
	if err := os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0); err != nil {
		t.Fatal(err)
	}
}

// must runs a program that must succeed, and returns its output.
func must(t *testing.T, command ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", command, err, out)
	}
	return string(out)
}

// field returns the texts at a path of an object as get prints it. It descends into every item of
// lists on the path.
func (i *installation) field(target string, path ...string) []string {
	i.Helper()
	var tree any
	if err := json.Unmarshal([]byte(i.portolan("get", target, "-o", "json")), &tree); err != nil {
		i.Fatal(err)
	}
	return textsAt(tree, path)
}

func textsAt(tree any, path []string) []string {
	switch tree := tree.(type) {
	case []any:
		var all []string
		for _, item := range tree {
			all = slices.Concat(all, textsAt(item, path))
		}
		return all
	case map[string]any:
		if len(path) > 0 {
			return textsAt(tree[path[0]], path[1:])
		}
	case string:
		return []string{tree}
	}
	return nil
}
