package lease

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// installation is a registry with replicas that write for services all the time.
type installation struct {
	registry *fakeRegistry
	services []object.Name
	replicas map[string]*replica
	asOf     time.Time // of replicas that start

	mu       sync.Mutex
	leading  map[object.Name]string   // guarded by mu: the replica that leads for a service, by its own clock
	tenures  map[object.Name][]string // guarded by mu: the fences of accepted writes, without repetitions
	written  map[object.Name]write    // guarded by mu: the last accepted write
	givenUp  int                      // guarded by mu: moves of shards
	failures []string                 // guarded by mu
}

type write struct {
	replica string
	at      time.Time
}

func newInstallation() *installation {
	s := &installation{
		registry: newFakeRegistry(), replicas: map[string]*replica{}, leading: map[object.Name]string{},
		tenures: map[object.Name][]string{}, written: map[object.Name]write{},
	}
	for i := range 12 {
		s.services = append(s.services, object.Name{Namespace: "default", Name: fmt.Sprint("web-", i)})
	}
	return s
}

// replica is a running replica and its connection to the registry.
type replica struct {
	registryv1.LeaseServiceClient // not called

	name         string
	shards       int
	installation *installation
	cancel       context.CancelFunc
	done         chan struct{}

	mu     sync.Mutex
	awake  chan struct{} // guarded by mu: closed at the end of a pause; nil if there is none
	dead   bool          // guarded by mu: no request arrives any more
	cut    bool          // guarded by mu: requests fail
	refuse bool          // guarded by mu: writes of leases fail
	asOf   time.Time     // guarded by mu: reads return the leases of this time; 0: the present ones
	held   map[int]bool  // guarded by mu: shards for which it leads
	waits  string        // guarded by mu
}

// start starts a replica.
func (s *installation) start(name string, shards int) *replica {
	r := &replica{name: name, shards: shards, installation: s, done: make(chan struct{}), held: map[int]bool{}, asOf: s.asOf}
	s.replicas[name] = r
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	g := New(Config{
		Client: r, Log: slog.New(slog.DiscardHandler), Namespace: "default", Name: "endpointctl", Identity: name,
		Duration: duration, Shards: shards, Lead: r.lead, Waits: r.setWaits,
		Moved: func(_ int, move Move) {
			r.mu.Lock()
			dead := r.dead
			r.mu.Unlock()
			if move == GivenUp && !dead {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.givenUp++
			}
		},
	})
	go func() {
		defer close(r.done)
		_ = g.Run(ctx) // returns no error
	}()
	return r
}

// stop stops a replica. It releases its leases.
func (s *installation) stop(name string) {
	r := s.replicas[name]
	delete(s.replicas, name)
	r.cancel()
	<-r.done
}

// kill ends a replica without releasing its leases.
func (s *installation) kill(name string) {
	r := s.replicas[name]
	r.set(func() { r.dead = true })
	r.wake()
	s.stop(name)
}

func (r *replica) set(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn()
}

func (r *replica) setWaits(reason string) { r.set(func() { r.waits = reason }) }

// pause holds up all requests. As after a real pause, they arrive when the replica wakes, although it
// does not wait for them any more.
func (r *replica) pause() {
	r.set(func() {
		if r.awake == nil {
			r.awake = make(chan struct{})
		}
	})
}

func (r *replica) wake() {
	r.set(func() {
		if r.awake != nil {
			close(r.awake)
			r.awake = nil
		}
	})
}

// heal ends all disturbances of the replica.
func (r *replica) heal() {
	r.set(func() { r.cut, r.refuse, r.asOf = false, false, time.Time{} })
	r.wake()
}

// request makes a call to the registry.
func request[T any](ctx context.Context, r *replica, isWrite bool, call func() (T, error)) (T, error) {
	r.mu.Lock()
	failing, awake := r.dead || r.cut || isWrite && r.refuse, r.awake
	r.mu.Unlock()
	var none T
	switch {
	case failing:
		return none, errUnreachable
	case awake == nil:
		return call()
	}
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		<-awake
		r.mu.Lock()
		dead := r.dead
		r.mu.Unlock()
		if dead {
			answers <- answer{none, errUnreachable}
			return
		}
		value, err := call()
		answers <- answer{value, err}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

func (r *replica) GetLease(ctx context.Context, req *registryv1.GetLeaseRequest, _ ...grpc.CallOption) (*registryv1.GetLeaseResponse, error) {
	r.mu.Lock()
	asOf := r.asOf
	r.mu.Unlock()
	return request(ctx, r, false, func() (*registryv1.GetLeaseResponse, error) {
		if !asOf.IsZero() {
			return r.installation.registry.getOld(asOf, req)
		}
		return r.installation.registry.GetLease(ctx, req)
	})
}

func (r *replica) CreateLease(ctx context.Context, req *registryv1.CreateLeaseRequest, _ ...grpc.CallOption) (*registryv1.CreateLeaseResponse, error) {
	return request(ctx, r, true, func() (*registryv1.CreateLeaseResponse, error) { return r.installation.registry.CreateLease(ctx, req) })
}

func (r *replica) UpdateLease(ctx context.Context, req *registryv1.UpdateLeaseRequest, _ ...grpc.CallOption) (*registryv1.UpdateLeaseResponse, error) {
	return request(ctx, r, true, func() (*registryv1.UpdateLeaseResponse, error) { return r.installation.registry.UpdateLease(ctx, req) })
}

// lead writes for the services of a shard until ctx is done.
func (r *replica) lead(ctx context.Context, shard int, _, _ uint64) {
	var mine []object.Name
	for _, service := range r.installation.services {
		if spec.ControllerShard(service, r.shards) == shard {
			mine = append(mine, service)
		}
	}
	r.set(func() { r.held[shard] = true })
	r.installation.begin(r.name, mine)
	defer r.set(func() { delete(r.held, shard) })
	defer r.installation.end(r.name, mine)
	for ctx.Err() == nil {
		for _, service := range mine {
			_, err := request(ctx, r, false, func() (struct{}, error) { return struct{}{}, r.installation.write(ctx, r.name, service) })
			_ = err // a write that fails is repeated
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// begin records that a replica leads for services.
func (s *installation) begin(replica string, services []object.Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, service := range services {
		if other := s.leading[service]; other != "" {
			s.failures = append(s.failures, fmt.Sprintf("%s leads for %s although %s does", replica, service, other))
		}
		s.leading[service] = replica
	}
}

func (s *installation) end(replica string, services []object.Name) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, service := range services {
		if s.leading[service] == replica {
			delete(s.leading, service)
		}
	}
}

// write writes for a service, if the fence of the context holds. No write may follow one of another
// holder that began later.
func (s *installation) write(ctx context.Context, replica string, service object.Name) error {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	if err := s.registry.checkFence(ctx); err != nil {
		return err
	}
	md, _ := metadata.FromOutgoingContext(ctx)
	tenure := fmt.Sprint(replica, md.Get(fenceHeader))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written[service] = write{replica, time.Now()}
	switch before := s.tenures[service]; {
	case len(before) > 0 && before[len(before)-1] == tenure:
	case slices.Contains(before, tenure):
		s.failures = append(s.failures, fmt.Sprintf("for %s, %s writes again after %s", service, tenure, before[len(before)-1]))
	default:
		s.tenures[service] = append(before, tenure)
	}
	return nil
}

// settleTime is the time after which all services have a holder again and the shards are spread
// evenly. In this time the leases of dead replicas expire, the leases of another number of shards are
// closed, and the shards move.
const settleTime = 3 * duration

// settle ends all disturbances, waits, and returns all failures.
func (s *installation) settle() []string {
	for _, r := range s.replicas {
		r.heal()
	}
	time.Sleep(settleTime)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = append(s.failures, s.registry.violations...)
	if len(s.replicas) == 0 || len(s.failures) > 0 {
		return s.failures
	}
	count := max(1, int(s.registry.leases["endpointctl"].GetSpec().GetShards()))
	for _, service := range s.services {
		last := s.written[service]
		writer := s.replicas[last.replica]
		if time.Since(last.at) > time.Second || writer == nil || writer.shards != count {
			s.failures = append(s.failures, fmt.Sprintf("with %d shards, %s was last written by %s, %s ago", count, service, last.replica, time.Since(last.at)))
		}
	}
	s.checkBalance(count)
	return s.failures
}

// checkBalance checks that the replicas with a number of shards hold them evenly, and that the others
// hold none and say why.
func (s *installation) checkBalance(count int) {
	var sizes []int
	for _, name := range slices.Sorted(maps.Keys(s.replicas)) {
		r := s.replicas[name]
		r.mu.Lock()
		held, waits := len(r.held), r.waits
		r.mu.Unlock()
		switch {
		case r.shards == count && waits == "":
			sizes = append(sizes, held)
		case r.shards == count || held > 0 || waits == "":
			s.failures = append(s.failures, fmt.Sprintf("with %d shards, %s with %d holds %d and says %q", count, name, r.shards, held, waits))
		}
	}
	slices.Sort(sizes)
	if n := len(sizes); n == 0 || sizes[n-1]-sizes[0] > 1 {
		s.failures = append(s.failures, fmt.Sprintf("the replicas hold %v of %d shards", sizes, count))
	}
}

// close stops all replicas.
func (s *installation) close() {
	for _, name := range slices.Sorted(maps.Keys(s.replicas)) {
		s.replicas[name].heal()
		s.stop(name)
	}
}
