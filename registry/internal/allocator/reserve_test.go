package allocator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
)

// granting is an allocator that grants as many values as are wished, up to a limit.
type granting struct {
	allocatorv1.AllocatorServiceClient

	mu       sync.Mutex
	err      error // of all calls
	limit    int
	next     int                           // last value that was granted
	reserves map[string]map[string]uint64  // value to grant, by holder
	calls    []*allocatorv1.ReserveRequest // all that were executed
	tried    int                           // number of all calls
}

func newGranting() *granting {
	return &granting{limit: mostWished, reserves: map[string]map[string]uint64{}}
}

func (g *granting) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

func (g *granting) restrict(limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = limit
}

func (g *granting) Reserve(_ context.Context, request *allocatorv1.ReserveRequest, _ ...grpc.CallOption) (*allocatorv1.ReserveResponse, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tried++
	if g.err != nil {
		return nil, g.err
	}
	g.calls = append(g.calls, request)
	has := g.reserves[request.GetHolder()]
	if has == nil {
		has = map[string]uint64{}
		g.reserves[request.GetHolder()] = has
	}
	for _, s := range request.GetSettled() {
		delete(has, s.GetValue())
	}
	for _, v := range request.GetReturned() {
		delete(has, v.GetValue())
	}
	answer := &allocatorv1.ReserveResponse{}
	for _, wish := range request.GetWishes() {
		answer.Limits = append(answer.Limits, &allocatorv1.ReserveLimit{Family: wish.GetFamily(), Count: uint32(g.limit)})
		for len(has) < min(int(wish.GetCount()), g.limit) {
			g.next++
			value := fmt.Sprintf("10.%d.%d.%d", g.next>>16, g.next>>8&255, g.next&255)
			has[value] = request.GetCall()
			answer.Granted = append(answer.Granted, &allocatorv1.ReservedValue{Value: value, Grant: request.GetCall()})
		}
	}
	return answer, nil
}

// seen returns the calls since the last time.
func (g *granting) seen() []*allocatorv1.ReserveRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	calls := g.calls
	g.calls, g.tried = nil, 0
	return calls
}

// attempts returns the number of calls since the last time, also of those that failed.
func (g *granting) attempts() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tried
}

// reserved returns the number of values in reserves.
func (g *granting) reserved() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := 0
	for _, has := range g.reserves {
		n += len(has)
	}
	return n
}

// memoryLeases keeps Leases in memory.
type memoryLeases struct {
	mu      sync.Mutex
	names   map[string]bool
	created int
	err     error
}

// count returns how many Leases were created, and how many of them are left.
func (l *memoryLeases) count() (created, left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.created, len(l.names)
}

func (l *memoryLeases) CreateLease(_ context.Context, name string) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0, l.err
	}
	l.names[name] = true
	l.created++
	return uint64(l.created), nil
}

func (l *memoryLeases) DeleteLease(_ context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.names, name)
	return nil
}

// running is a client with a reserve. Its background tasks run in a bubble of synctest.
type running struct {
	*Client
	server *granting
	leases *memoryLeases
	stop   func()
	next   int
}

func inBubble(t *testing.T, fn func(t *testing.T, r *running)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		host := kittest.Host(t, nil, "")
		r := &running{server: newGranting(), leases: &memoryLeases{names: map[string]bool{}}}
		r.Client = NewClient(r.server, host.Log, host.Metrics)
		t.Cleanup(r.Close)
		r.KeepReserve(r.leases, host.Health, host.Metrics)
		r.stop = kittest.Run(t, "client", r.Run)
		fn(t, r)
	})
}

// plan returns a plan of a new service that needs an address.
func (r *running) plan() *Plan {
	r.next++
	return NewPlan(&corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: fmt.Sprint("s", r.next), Uid: fmt.Sprint("u", r.next)},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, IpFamilies: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4},
		},
	}, nil)
}

// take takes an address from the reserve. It returns nil if the reserve has none.
func (r *running) take(t *testing.T) *Plan {
	t.Helper()
	plan := r.plan()
	holder, err := r.reserve.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan.holder = holder
	if !r.takeAtHand(plan, func(string) bool { return false }) {
		return nil
	}
	return plan
}

// begin begins the reserve and waits until it has its first values.
func (r *running) begin(t *testing.T) {
	t.Helper()
	if r.take(t) != nil {
		t.Fatal("a new reserve has values")
	}
	time.Sleep(heartbeat) // in the bubble, no time passes
	synctest.Wait()
	r.server.seen()
}

func (r *running) free() int { return r.reserve.stock.atHand()[corev1.IPFamily_IP_FAMILY_IPV4] }

// TestAnIdleInstallationMakesNoCalls checks that the first call follows the first allocation, and
// that there is one in each second from then on.
func TestAnIdleInstallationMakesNoCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, r *running) {
		time.Sleep(time.Hour)
		synctest.Wait()
		created, _ := r.leases.count()
		if calls := r.server.seen(); len(calls) != 0 || created != 0 {
			t.Errorf("%d calls, %d Leases", len(calls), created)
		}
		r.begin(t)
		if n := r.free(); n != leastWanted {
			t.Errorf("%d values are at hand, want %d", n, leastWanted)
		}
		time.Sleep(10 * heartbeat)
		synctest.Wait()
		if calls := r.server.seen(); len(calls) != 10 {
			t.Errorf("%d calls in 10 s, want 10", len(calls))
		}
	})
}

// TestSettlementsShareACall checks that services which are stored shortly after one another are
// settled in one call.
func TestSettlementsShareACall(t *testing.T) {
	inBubble(t, func(t *testing.T, r *running) {
		r.begin(t)
		for range 5 {
			plan := r.take(t)
			time.Sleep(settleAfter / 10)
			r.Finish(t.Context(), plan, nil)
		}
		time.Sleep(settleAfter)
		synctest.Wait()
		calls := r.server.seen()
		if len(calls) != 1 || len(calls[0].GetSettled()) != 5 {
			t.Fatalf("the calls are %v, want one with 5 settlements", calls)
		}
		s := calls[0].GetSettled()[0]
		if s.GetOwner().GetUid() != "u2" || s.GetSlot() != "clusterIPs/IPv4" || !s.GetConfirmed() || s.GetGrant() == 0 || s.GetValue() == "" {
			t.Errorf("a settlement is %v", s)
		}
	})
}

// TestTheReserveGrowsAndShrinks checks that the number of values at hand follows the demand, and
// that it never exceeds its limits.
func TestTheReserveGrowsAndShrinks(t *testing.T) {
	inBubble(t, func(t *testing.T, r *running) {
		r.begin(t)
		most := 0
		for range 400 { // 200 in a second
			if plan := r.take(t); plan != nil {
				r.Finish(t.Context(), plan, nil)
			}
			time.Sleep(5 * time.Millisecond)
			synctest.Wait()
			most = max(most, r.free())
		}
		if most < 200 || most > 500 {
			t.Errorf("up to %d values are at hand for 200 in a second, want about 400", most)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := r.free(); n < leastWanted || n > 2*leastWanted {
			t.Errorf("%d values are at hand after a quiet while", n)
		}
		r.server.restrict(3)
		time.Sleep(heartbeat + time.Millisecond)
		synctest.Wait()
		if n := r.free(); n != 3 {
			t.Errorf("%d values are at hand, the limit is 3", n)
		}
		if n := r.server.reserved(); n != 3 {
			t.Errorf("the allocator has %d values in the reserve", n)
		}
	})
}

// TestTheAllocatorIsNotPressed checks that an allocator that does not answer is called only once in a
// second, however many writes there are, and gets all settlements and returns when it answers again.
func TestTheAllocatorIsNotPressed(t *testing.T) {
	inBubble(t, func(t *testing.T, r *running) {
		r.begin(t)
		r.server.fail(status.Error(codes.Unavailable, "away"))
		taken := 0
		for range 100 {
			if plan := r.take(t); plan != nil {
				taken++
				r.Finish(t.Context(), plan, nil)
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		if n := r.server.attempts(); n < 9 || n > 11 || taken != leastWanted {
			t.Errorf("%d calls in 10 s, %d values were taken, want %d", n, taken, leastWanted)
		}
		r.server.fail(nil)
		time.Sleep(heartbeat)
		synctest.Wait()
		calls := r.server.seen()
		if len(calls) == 0 || len(calls[0].GetSettled()) != leastWanted {
			t.Errorf("the calls afterwards are %v", calls)
		}
	})
}

// TestAClosedReserveIsReplaced lets the allocator close each reserve. A new one must begin, with a
// new Lease, but not more than one in a second.
func TestAClosedReserveIsReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, r *running) {
		r.begin(t)
		plan := r.take(t)
		former := plan.holder
		r.server.fail(status.Error(codes.FailedPrecondition, "closed"))
		time.Sleep(10 * heartbeat)
		synctest.Wait()
		if created, _ := r.leases.count(); created < 2 || created > 12 {
			t.Errorf("%d Leases in 10 s", created)
		}
		r.server.fail(nil)
		time.Sleep(2 * heartbeat)
		synctest.Wait()
		if n := r.free(); n != leastWanted || r.reserve.stock.current() == former {
			t.Errorf("%d values are at hand", n)
		}
		r.server.seen()
		r.Finish(t.Context(), plan, nil)
		time.Sleep(heartbeat)
		synctest.Wait()
		for _, call := range r.server.seen() {
			if len(call.GetSettled()) != 0 {
				t.Errorf("a value of the closed reserve is settled: %v", call)
			}
		}
	})
}

// TestFaultyCallsAreNotRepeated lets the allocator refuse a call as invalid. Its settlements are left
// to the verifier, so that they do not keep the reserve from being renewed.
func TestFaultyCallsAreNotRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, r *running) {
		r.begin(t)
		r.Finish(t.Context(), r.take(t), nil)
		r.server.fail(status.Error(codes.InvalidArgument, "no"))
		time.Sleep(heartbeat)
		synctest.Wait()
		r.server.fail(nil)
		time.Sleep(heartbeat)
		synctest.Wait()
		calls := r.server.seen()
		if len(calls) == 0 || len(calls[0].GetSettled()) != 0 {
			t.Errorf("the calls afterwards are %v", calls)
		}
	})
}

// TestTheEndOfAReserve checks that a clean stop sends all waiting settlements and returns all free values
// before the Lease is deleted. A reserve with a write under way is left to the allocator.
func TestTheEndOfAReserve(t *testing.T) {
	for _, underWay := range []bool{false, true} {
		t.Run(fmt.Sprintf("a write is under way %v", underWay), func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *running) {
				r.begin(t)
				plan := r.take(t)
				if !underWay {
					r.Finish(t.Context(), plan, nil)
				}
				r.stop()
				calls := r.server.seen()
				closed := len(calls) > 0 && calls[len(calls)-1].GetClose()
				if _, left := r.leases.count(); closed == underWay || left == 0 == underWay {
					t.Fatalf("closed %v, %d Leases are left", closed, left)
				}
				if _, err := r.reserve.open(t.Context()); !underWay && !errors.Is(err, store.ErrClosed) {
					t.Errorf("another reserve after the end: %v", err)
				}
				if last := r.server.seen(); closed && len(last) > 0 {
					t.Errorf("calls after the end: %v", last)
				}
				if closed && (len(calls[len(calls)-1].GetReturned()) != leastWanted-1 || len(calls[len(calls)-1].GetSettled()) != 1) {
					t.Errorf("the last call is %v", calls[len(calls)-1])
				}
			})
		})
	}
}

// TestNoLeaseNoAllocation checks that nothing is allocated if the store does not take the Lease, and
// that the error does not say that the outcome for the service is unknown.
func TestNoLeaseNoAllocation(t *testing.T) {
	inBubble(t, func(t *testing.T, r *running) {
		r.leases.err = store.ErrUnknown
		err := r.Allocate(t.Context(), r.plan(), Terms{InUse: func(string) bool { return false }})
		if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) {
			t.Errorf("allocate: %v", err)
		}
	})
}

// TestAtHandElsewhereIsUnavailable checks the error for values that another registry has at hand.
func TestAtHandElsewhereIsUnavailable(t *testing.T) {
	p := (&running{}).plan()
	err := p.toAPIError([]*allocatorv1.ClaimFailure{{
		Slot: p.Claims[0].GetSlot(), Reason: allocatorv1.FailureReason_FAILURE_REASON_AT_HAND, Message: "12 values are at hand",
	}})
	if _, retry := apierr.RetryAfter(err); !apierr.IsUnavailable(err) || !retry {
		t.Errorf("%v", err)
	}
}
