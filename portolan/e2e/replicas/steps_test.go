package replicas

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/kittest"
)

// steps are the points between allocation, commit, confirmation and release at which a process can
// die.
var steps = []struct {
	write, method string
	after         bool
	stored        bool // whether the service of the write exists in the end
}{
	{"create", "Allocate", false, false},
	{"create", "Allocate", true, false},
	{"create", "Confirm", false, true},
	{"create", "Confirm", true, true},
	{"delete", "Release", false, false},
	{"delete", "Release", true, false},
}

// scene is an installation with a gate between the registry and the allocator.
type scene struct {
	*installation
	gate *gate
}

func stage(t *testing.T) *scene {
	dsn := kittest.Postgres(t)
	i := install(t, dsn, brokers(t, 1), 0, "-verify-grace", "1s", "-verify-interval", "200ms")
	g, addr := openGate(t, i.allocator.client)
	i.allocator.door.leadTo(addr)
	r := &replica{i: i, name: "registry", door: openDoor(t)}
	r.conn = dial(t, r.door)
	r.services, r.changes = registryv1.NewServiceServiceClient(r.conn), registryv1.NewChangeServiceClient(r.conn)
	i.replicas = []*replica{r}
	r.start()
	return &scene{i, g}
}

// TestKilledAtEachStep kills the registry or the allocator at each step of a write. It checks that the
// verifier finds values that were left behind, and keeps values in use. Its grace is short in this test.
func TestKilledAtEachStep(t *testing.T) {
	s := stage(t)
	r := s.replicas[0]
	s.create(t, "control")
	want := map[string]bool{"control": true}
	for _, victim := range []string{"registry", "allocator"} {
		for _, step := range steps {
			name := fmt.Sprintf("%s-%s-%v", victim, step.method, step.after)
			name = kebab(name)
			if step.write == "delete" {
				s.create(t, name)
			}
			s.awaitAllocator(t)
			s.registry.leadTo("") // pending operations must not be verified, however slow this machine is
			kill, restart := r.kill, r.start
			if victim == "allocator" {
				kill, restart = s.killAllocator, s.startAllocator
			}
			sprung := s.gate.arm(name, step.method, step.after, kill)
			written := make(chan struct{})
			go func() {
				defer close(written)
				s.try(step.write, name) // the response does not matter, because a process died
			}()
			kittest.Receive(t, name, closed(sprung))
			restart()
			kittest.Receive(t, name+": the answer", closed(written))
			s.registry.leadTo(r.door.addr())
			if step.stored {
				want[name] = true
			}
			if victim == "allocator" && step.write == "create" && step.method == "Allocate" && s.exists(t, name) {
				want[name] = true // the registry may have repeated the request
			}
		}
	}
	s.awaitAllocator(t)
	want["blocked"] = true
	s.killInMidCommit(t, "blocked")
	s.settle(t, want)
	s.killAllocator()
	s.startAllocator()
	s.settle(t, want)
}

func kebab(s string) string {
	out := []byte(s)
	for i, c := range out {
		if c >= 'A' && c <= 'Z' {
			out[i] = c + 'a' - 'A'
		}
	}
	return string(out)
}

// closed returns a channel that gets a value when ch is closed.
func closed(ch <-chan struct{}) <-chan struct{} {
	value := make(chan struct{}, 1)
	go func() {
		<-ch
		value <- struct{}{}
	}()
	return value
}

func (s *scene) killAllocator() {
	s.allocator.process.kill()
	s.allocator.direct.leadTo("")
}

// startAllocator returns when the gate has reached the allocator, so that the next step does not
// fail because of this one.
func (s *scene) startAllocator() {
	gate := s.allocator.door.target
	s.allocator.start()
	s.allocator.door.leadTo(gate)
	if _, err := s.allocator.held(); err != nil {
		s.t.Error(err)
	}
}

// awaitAllocator waits until the allocator allocates. It first reads the values in use from the
// registry.
func (s *scene) awaitAllocator(t *testing.T) {
	t.Helper()
	trial := &allocatorv1.AllocateRequest{DryRun: true, Sets: []*allocatorv1.ClaimSet{{
		Owner:  &allocatorv1.Owner{Uid: "trial"},
		Claims: []*allocatorv1.Claim{{Slot: "ip", Use: allocatorv1.Use_USE_CLUSTER_IP}},
	}}}
	kittest.Eventually(t, "the allocator allocates", func() error {
		_, err := s.allocator.client.Allocate(within(t), trial, grpc.WaitForReady(true))
		return err
	})
}

func (s *scene) create(t *testing.T, name string) {
	t.Helper()
	if _, err := s.replicas[0].services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web(name)}, grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) try(write, name string) {
	if write == "create" {
		_, _ = s.replicas[0].services.CreateService(within(s.t), &registryv1.CreateServiceRequest{Service: web(name)}, grpc.WaitForReady(true))
	} else {
		_, _ = s.replicas[0].services.DeleteService(within(s.t), &registryv1.DeleteServiceRequest{Name: name}, grpc.WaitForReady(true))
	}
}

func (s *scene) exists(t *testing.T, name string) bool {
	t.Helper()
	all, err := s.replicas[0].list(s.replicas[0].head())
	if err != nil {
		t.Fatal(err)
	}
	return all[name] != nil
}

// killInMidCommit kills the registry while its commit waits in Postgres, which executes it all the
// same.
func (s *scene) killInMidCommit(t *testing.T, name string) {
	t.Helper()
	conn, err := pgx.Connect(within(t), s.store)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	tx, err := conn.Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(within(t), `LOCK TABLE registry_head`); err != nil {
		t.Fatal(err)
	}
	s.registry.leadTo("")
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.try("create", name)
	}()
	kittest.Eventually(t, "the commit waits", func() error {
		var waiting int
		const query = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'portolan-registry-writer' AND wait_event_type = 'Lock' AND query LIKE '%registry_commit%'`
		if err := tx.QueryRow(within(t), query).Scan(&waiting); err != nil || waiting == 0 {
			return fmt.Errorf("%d writers wait, %w", waiting, err)
		}
		return nil
	})
	s.replicas[0].kill()
	if err := tx.Rollback(within(t)); err != nil {
		t.Fatal(err)
	}
	kittest.Receive(t, "the answer", closed(written))
	s.replicas[0].start()
	kittest.Eventually(t, "the commit is there", func() error {
		if !s.exists(t, name) {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	s.registry.leadTo(s.replicas[0].door.addr())
}

// settle waits until exactly the services in want exist, and the allocator has exactly their
// addresses, confirmed. Until then no service may be without its address.
func (s *scene) settle(t *testing.T, want map[string]bool) {
	t.Helper()
	r := s.replicas[0]
	kittest.Eventually(t, "the allocator has what services have", func() error {
		before, err := r.list(r.head())
		if err != nil {
			return err
		}
		held, err := s.allocator.held()
		if err != nil {
			return err
		}
		after, err := r.list(r.head())
		if err != nil {
			return err
		}
		for name, svc := range before {
			owner := held[svc.GetSpec().GetClusterIp()].GetOwner().GetUid()
			if svc.EqualVT(after[name]) && owner != svc.GetMetadata().GetUid() {
				t.Errorf("%s is in use by %s, the allocator has it for %q", svc.GetSpec().GetClusterIp(), name, owner)
			}
		}
		return settled(want, after, held)
	})
}

func settled(want map[string]bool, services map[string]*corev1.Service, held map[string]*allocatorv1.Allocation) error {
	for name := range want {
		svc := services[name]
		if svc == nil {
			return fmt.Errorf("%s is not there", name)
		}
		if state := held[svc.GetSpec().GetClusterIp()].GetState(); state != allocatorv1.AllocationState_ALLOCATION_STATE_CONFIRMED {
			return fmt.Errorf("the address of %s is %s", name, state)
		}
	}
	if len(services) != len(want) || len(held) != len(want) {
		return fmt.Errorf("%d services and %d addresses, want %d", len(services), len(held), len(want))
	}
	return nil
}
