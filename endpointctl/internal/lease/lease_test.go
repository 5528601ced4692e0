package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
)

// fakeRegistry is a registry of one lease. Calls take no time. They fail for a holder that cannot
// reach it.
type fakeRegistry struct {
	registryv1.LeaseServiceClient

	mu          sync.Mutex
	lease       *corev1.Lease
	unreachable map[string]bool // holders that cannot reach the registry
	lostAcks    int             // updates that are stored and return an error
}

var errUnreachable = errors.New("away")

func (l *fakeRegistry) GetLease(context.Context, *registryv1.GetLeaseRequest, ...grpc.CallOption) (*registryv1.GetLeaseResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease == nil {
		return nil, apierr.NotFound("Lease", "x")
	}
	return &registryv1.GetLeaseResponse{Lease: l.lease.CloneVT()}, nil
}

func (l *fakeRegistry) CreateLease(_ context.Context, req *registryv1.CreateLeaseRequest, _ ...grpc.CallOption) (*registryv1.CreateLeaseResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease != nil {
		return nil, apierr.AlreadyExists("Lease", "x")
	}
	return &registryv1.CreateLeaseResponse{Lease: l.put(req.GetLease(), 1)}, nil
}

func (l *fakeRegistry) UpdateLease(_ context.Context, req *registryv1.UpdateLeaseRequest, _ ...grpc.CallOption) (*registryv1.UpdateLeaseResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := req.GetLease()
	holder, before := next.GetSpec().GetHolderIdentity(), l.lease.GetSpec()
	if l.unreachable[holder] {
		return nil, errUnreachable
	}
	if have, want := l.lease.GetMetadata().GetResourceVersion(), next.GetMetadata().GetResourceVersion(); have != want {
		return nil, apierr.Conflict("Lease", "x", have, want)
	}
	epoch := before.GetEpoch()
	if holder != "" && holder != before.GetHolderIdentity() {
		epoch++
	}
	stored := l.put(next, epoch)
	if l.lostAcks > 0 {
		l.lostAcks--
		return nil, errUnreachable
	}
	return &registryv1.UpdateLeaseResponse{Lease: stored}, nil
}

func (l *fakeRegistry) put(lease *corev1.Lease, epoch uint64) *corev1.Lease {
	lease = lease.CloneVT()
	lease.Spec.Epoch = epoch
	lease.Metadata.ResourceVersion = l.lease.GetMetadata().GetResourceVersion() + 1
	l.lease = lease
	return lease.CloneVT()
}

func (l *fakeRegistry) set(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
}

// journal records the replicas that led.
type journal struct {
	mu         sync.Mutex
	leading    map[string]uint64
	maxLeaders int
	fences     []string
}

func (j *journal) lead(name string) func(context.Context, uint64, uint64) {
	return func(ctx context.Context, epoch, _ uint64) {
		md, _ := metadata.FromOutgoingContext(ctx)
		j.mu.Lock()
		j.leading[name] = epoch
		j.maxLeaders = max(j.maxLeaders, len(j.leading))
		j.fences = append(j.fences, md.Get(fenceHeader)...)
		j.mu.Unlock()
		<-ctx.Done()
		j.mu.Lock()
		delete(j.leading, name)
		j.mu.Unlock()
	}
}

func (j *journal) leaders() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name := range j.leading {
		return name
	}
	return ""
}

const duration = 5 * time.Second

// compete runs electors with these names, and returns a function for each that stops it.
func compete(t *testing.T, l *fakeRegistry, j *journal, names ...string) map[string]func() {
	stops := map[string]func(){}
	for _, name := range names {
		e := New(Config{
			Client: l, Log: slog.New(slog.DiscardHandler), Namespace: "default", Name: "x", Identity: name, Duration: duration, Lead: j.lead(name),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		stops[name] = sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // so that the first of the list leads first
	}
	return stops
}

func TestOneLeadsAndAnotherTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := &fakeRegistry{unreachable: map[string]bool{}}, &journal{leading: map[string]uint64{}}
		stops := compete(t, l, j, "a", "b", "c")
		time.Sleep(time.Minute)
		synctest.Wait()
		if j.leaders() != "a" {
			t.Fatalf("%q leads, want a", j.leaders())
		}

		l.set(func() { l.unreachable["a"] = true })
		time.Sleep(duration * 2)
		synctest.Wait()
		heir := j.leaders()
		if heir == "" || heir == "a" {
			t.Fatalf("%q leads twice the duration after the first fell silent", heir)
		}
		l.set(func() { l.unreachable["a"] = false })
		time.Sleep(time.Minute)
		synctest.Wait()
		if j.leaders() != heir {
			t.Errorf("%q leads, though %q never fell silent", j.leaders(), heir)
		}

		stops[heir]()
		time.Sleep(duration / 2)
		synctest.Wait()
		if now := j.leaders(); now == "" || now == heir {
			t.Errorf("%q leads after %q gave the lease back", now, heir)
		}
		for _, stop := range stops {
			stop()
		}
		if j.maxLeaders != 1 {
			t.Errorf("%d led at once", j.maxLeaders)
		}
		if want := []string{"default/x=1", "default/x=2", "default/x=3"}; !slices.Equal(j.fences, want) {
			t.Errorf("fences %q, want %q", j.fences, want)
		}
		if holder := l.lease.GetSpec().GetHolderIdentity(); holder != "" {
			t.Errorf("in the end %q holds the lease", holder)
		}
	})
}

func TestShortTroubleIsNoReasonToGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := &fakeRegistry{unreachable: map[string]bool{}}, &journal{leading: map[string]uint64{}}
		stops := compete(t, l, j, "a", "b")
		for range 10 {
			l.set(func() { l.unreachable["a"] = true })
			time.Sleep(duration / 4)
			l.set(func() { l.unreachable["a"] = false })
			time.Sleep(duration)
		}
		synctest.Wait()
		if j.leaders() != "a" || l.lease.GetSpec().GetEpoch() != 1 {
			t.Errorf("%q leads, epoch %d", j.leaders(), l.lease.GetSpec().GetEpoch())
		}
		for _, stop := range stops {
			stop()
		}
	})
}

func TestARenewalWithoutAnAnswerIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := &fakeRegistry{unreachable: map[string]bool{}}, &journal{leading: map[string]uint64{}}
		stops := compete(t, l, j, "a", "b")
		l.set(func() { l.lostAcks = 1 })
		time.Sleep(duration * 3)
		synctest.Wait()
		if j.leaders() != "a" || l.lease.GetSpec().GetEpoch() != 1 {
			t.Errorf("%q leads, epoch %d", j.leaders(), l.lease.GetSpec().GetEpoch())
		}
		for _, stop := range stops {
			stop()
		}
	})
}
