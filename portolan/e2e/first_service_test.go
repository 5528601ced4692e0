package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	allocatorv1 "portolan.dev/api/allocator/v1"
)

// firstService is the first manifest of the Kubernetes documentation on Services.
const firstService = `apiVersion: v1
kind: Service
metadata:
  name: my-service
spec:
  selector:
    app.kubernetes.io/name: MyApp
  ports:
    - protocol: TCP
      port: 80
      targetPort: 9376
`

// TestFirstService runs through the life of a service: apply, balancing, name, loss of a backend,
// restart, and deletion.
func TestFirstService(t *testing.T) {
	i := install(t)
	i.apply(firstService)
	vip := i.vip("my-service")
	var backends []*process
	for _, name := range []string{"one", "two", "three"} {
		backends = append(backends, i.hello(name, "app.kubernetes.io/name=MyApp", "http", 9376))
	}
	i.awaitBackends("my-service", 3)

	if counts := spread(t, hostPort(vip, 80), 300); counts["one"] != 100 || counts["two"] != 100 || counts["three"] != 100 {
		t.Errorf("300 requests went to %v, want 100 each", counts)
	}
	i.awaitAnswer("my-service.default.svc.cluster.local", dns.TypeA, answers("A "+vip))
	i.awaitAnswer(reverse(vip), dns.TypePTR, answers("PTR my-service.default.svc.cluster.local."))
	i.digAgrees("my-service.default.svc.cluster.local", vip)
	i.loseBackend(backends[0], hostPort(vip, 80))

	i.restart()
	i.awaitBackends("my-service", 2)
	if again := i.vip("my-service"); again != vip {
		t.Errorf("after the restart the virtual IP is %s, before it was %s", again, vip)
	}
	i.awaitAnswer("my-service.default.svc.cluster.local", dns.TypeA, answers("A "+vip))
	spread(t, hostPort(vip, 80), 20)

	i.portolan("delete", "service", "my-service")
	awaitRefused(t, hostPort(vip, 80))
	i.awaitAnswer("my-service.default.svc.cluster.local", dns.TypeA, rcode(dns.RcodeNameError))
	i.rests(vip)
}

// digAgrees compares an answer with dig's, which users have.
func (i *installation) digAgrees(name, want string) {
	i.Helper()
	host, port, _ := strings.Cut(i.network.DNS(), ":")
	out, err := exec.CommandContext(i.Context(), "dig", "+short", "@"+host, "-p", port, name).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != want {
		i.Errorf("dig %s: %q, %v; want %s", name, out, err, want)
	}
}

// loseBackend kills a backend under load. No request may fail.
func (i *installation) loseBackend(backend *process, address string) {
	i.Helper()
	traffic := startLoad(i.T, address, 4)
	traffic.more(200)
	if err := syscall.Kill(backend.childPID(), syscall.SIGKILL); err != nil {
		i.Fatal(err)
	}
	i.awaitBackends("my-service", 2)
	traffic.more(200)
	if failures := traffic.end(); len(failures) > 0 {
		i.Errorf("%d of %d requests failed when a backend was killed, such as: %v", len(failures), traffic.requests.Load(), failures[0])
	}
	// A client has at most one request in progress, and a connection made after the backend's end
	// reaches another backend.
	if again := traffic.again.Load(); again > int64((attempts-1)*traffic.clients) {
		i.Errorf("%d attempts were repeated, more than %d clients can have had inside a backend that was killed", again, traffic.clients)
	}
}

// rests checks that a value is not allocated, and is not given out again yet.
func (i *installation) rests(value string) {
	i.Helper()
	listed, err := allocatorv1.NewAllocatorServiceClient(i.dial(7401)).ListAllocations(i.Context(), &allocatorv1.ListAllocationsRequest{PageSize: 1000})
	if err != nil {
		i.Fatal(err)
	}
	for _, allocation := range listed.GetAllocations() {
		if allocation.GetValue() == value {
			if allocation.GetState() != allocatorv1.AllocationState_ALLOCATION_STATE_RESTING {
				i.Errorf("%s is %s, want resting", value, allocation.GetState())
			}
			return
		}
	}
	i.Errorf("the allocator does not know %s any more; it should rest", value)
}

func reverse(ip string) string {
	name, err := dns.ReverseAddr(ip)
	if err != nil {
		panic(fmt.Sprintf("%s is no address: %v", ip, err))
	}
	return name
}
