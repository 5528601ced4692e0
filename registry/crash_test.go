package registry_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/program"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// childVariable is the environment variable that makes the test binary run the registry instead of
// tests.
const childVariable = "PORTOLAN_TEST_REGISTRY_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(daemon.Main("registry", program.New))
	}
	kittest.Main(m)
}

// process is a registry that can be killed.
type process struct {
	command *exec.Cmd
	addr    string
	logged  sync.WaitGroup
}

// spawn starts the installation's registry as a process and waits until it listens.
func (i *installation) spawn(t *testing.T) *process {
	t.Helper()
	command := exec.Command(os.Args[0], "-store", i.config.Store, "-allocator", i.config.Allocator, "-nats-url", i.nats,
		"-addr", "127.0.0.1:0", "-http-addr", "127.0.0.1:0", "-log-format", "json")
	command.Env = append(os.Environ(), childVariable+"=1")
	stderr, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{command: command}
	addr := make(chan string, 1)
	p.logged.Go(func() {
		defer close(addr)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			var line struct{ Msg, Addr string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "registry listens" {
				addr <- line.Addr
			}
		}
	})
	t.Cleanup(p.kill)
	if p.addr = kittest.Receive(t, "address of the registry", addr); p.addr == "" {
		t.Fatal("the registry ended before it listened")
	}
	return p
}

// kill ends the process as a power failure would, and waits until it has ended. Killing it twice
// does nothing.
func (p *process) kill() {
	if p.command.ProcessState != nil {
		return
	}
	_ = p.command.Process.Kill() // it may have ended by itself
	p.logged.Wait()
	_ = p.command.Wait() // the error is that it was killed
}

// TestKilledUnderLoad kills the registry repeatedly while services are created and deleted, so that
// its reserve is closed. Every acknowledged service must exist, and every service that exists must
// own its addresses, which no other service has.
func TestKilledUnderLoad(t *testing.T) {
	i := install(t)
	// acknowledged holds by name whether a service exists. Services with an unknown outcome are
	// missing.
	acknowledged := map[string]bool{}
	for round := range 3 {
		p := i.spawn(t)
		i.load(t, p, round, acknowledged)
		i.closeReserves(t)
	}
	p := i.spawn(t)
	conn, err := rpc.TCP().Dial(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	list, err := registryv1.NewServiceServiceClient(conn).ListServices(within(t), &registryv1.ListServicesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	present, owners := map[string]bool{}, map[string]string{}
	for _, svc := range list.GetServices() {
		present[svc.GetMetadata().GetName()] = true
		if other := owners[svc.GetSpec().GetClusterIp()]; other != "" {
			t.Errorf("%s and %s have %s", svc.GetMetadata().GetName(), other, svc.GetSpec().GetClusterIp())
		}
		owners[svc.GetSpec().GetClusterIp()] = svc.GetMetadata().GetName()
		held := i.allocator.Values(svc.GetMetadata().GetUid())
		if !slices.Contains(held, svc.GetSpec().GetClusterIp()) {
			t.Errorf("%s says it has %s, the allocator says it has %v", svc.GetMetadata().GetName(), svc.GetSpec().GetClusterIp(), held)
		}
	}
	for name, exists := range acknowledged {
		if present[name] != exists {
			t.Errorf("%s: there is one: %v, what was acknowledged last: %v", name, present[name], exists)
		}
	}
}

// closeReserves closes the reserves of killed registries, as the allocator does: it deletes their
// Leases and then reads the objects, while another registry runs.
func (i *installation) closeReserves(t *testing.T) {
	t.Helper()
	r := i.start()
	defer r.stop()
	for _, holder := range i.allocator.Holders() {
		r.closeReserve(t, i, holder)
	}
}

// load creates and deletes services from several clients, kills the registry in the middle, and
// records the acknowledged writes.
func (i *installation) load(t *testing.T, p *process, round int, acknowledged map[string]bool) {
	t.Helper()
	conn, err := rpc.TCP().Dial(p.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := registryv1.NewServiceServiceClient(conn)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var mu sync.Mutex
	answers := make(chan struct{}, 100)
	note := func(name string, exists bool, err error) bool {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			delete(acknowledged, name)
			return false
		}
		acknowledged[name] = exists
		select {
		case answers <- struct{}{}:
		default: // far more than any test waits for
		}
		return true
	}
	var clients sync.WaitGroup
	for c := range 4 {
		clients.Go(func() {
			for n := range 100 {
				name := fmt.Sprintf("r%d-c%d-%d", round, c, n)
				_, err := client.CreateService(ctx, &registryv1.CreateServiceRequest{Service: web(name)})
				if !note(name, true, err) {
					return
				}
				if n%50 == 1 {
					continue // some stay, over all rounds fewer than there are addresses
				}
				if _, err = client.DeleteService(ctx, &registryv1.DeleteServiceRequest{Name: name}); !note(name, false, err) {
					return
				}
			}
		})
	}
	for range 40 {
		kittest.Receive(t, "an answer", answers)
	}
	p.kill()
	cancel()
	clients.Wait()
}
