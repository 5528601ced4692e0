package verifier

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/store"
)

const holder = "portolan-reserve-1"

func lease(name string) *corev1.Lease {
	return &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name}}
}

// reserve begins a reserve with its Lease and returns so many values of it.
func (w *testVerifier) reserve(count uint64) []allocation.ReservedValue {
	w.Helper()
	w.feed.Put(lease(holder))
	return w.call(allocation.ReserveRequest{Begin: true, Wishes: []allocation.ReserveCount{{Family: corev1.IPFamily_IP_FAMILY_IPV4, Count: count}}}).Granted
}

// call calls for the holder.
func (w *testVerifier) call(req allocation.ReserveRequest) allocation.ReserveResult {
	w.Helper()
	req.Holder = holder
	res, err := w.engine.Reserve(w.Context(), req)
	if err != nil {
		w.Fatal(err)
	}
	return res
}

// stored puts a service with a value into the registry.
func (w *testVerifier) stored(name, uid string, v allocation.ReservedValue) *corev1.Service {
	svc := service(name, uid, v.Value.String())
	w.feed.Put(svc)
	return svc
}

func settlement(svc *corev1.Service, v allocation.ReservedValue, confirmed bool) allocation.Settlement {
	return allocation.Settlement{ReservedValue: v, Owner: ownerOf(svc), Slot: "ip", Confirmed: confirmed}
}

// lapse lets the time of the lease pass and closes the reserves that have lapsed.
func (w *testVerifier) lapse() {
	w.ahead += allocation.Lease
	w.verifier.keepReservesOnce(w.Context())
}

func (w *testVerifier) hasLease() bool {
	return w.feed.Get(object.Key{Kind: "Lease", Namespace: "default", Name: holder}) != nil
}

// wantPool checks the numbers of the pool of virtual IPs.
func (w *testVerifier) wantPool(used, reserved, resting uint64) {
	w.Helper()
	if p := w.engine.Pools()[0]; p.Used != used || p.Reserved != reserved || p.Resting != resting {
		w.Errorf("%d used, %d reserved, %d resting; want %d, %d, %d", p.Used, p.Reserved, p.Resting, used, reserved, resting)
	}
}

// TestAHolderThatDies lets the holder of a reserve die at each step of a create: before the commit,
// after it, when its outcome is unknown, and after the settlement.
func TestAHolderThatDies(t *testing.T) {
	for name, c := range map[string]struct {
		die           func(w *testVerifier, v []allocation.ReservedValue)
		used, resting uint64
		want          func(v string) []string
	}{
		"before the commit": {func(*testVerifier, []allocation.ReservedValue) {}, 0, 3, func(string) []string { return nil }},
		"after the commit": {
			func(w *testVerifier, v []allocation.ReservedValue) { w.stored("web", "u1", v[0]) },
			1, 2, func(v string) []string { return []string{v + " u1"} },
		},
		"with an unknown outcome": {
			func(w *testVerifier, v []allocation.ReservedValue) {
				w.call(allocation.ReserveRequest{Settled: []allocation.Settlement{settlement(service("web", "u1", ""), v[0], false)}})
			}, 1, 2, func(v string) []string { return []string{v + " u1?"} },
		},
		"after the settlement": {
			func(w *testVerifier, v []allocation.ReservedValue) {
				svc := w.stored("web", "u1", v[0])
				w.call(allocation.ReserveRequest{Settled: []allocation.Settlement{settlement(svc, v[0], true)}})
			}, 1, 2, func(v string) []string { return []string{v + " u1"} },
		},
		"after the deletion": {
			func(w *testVerifier, v []allocation.ReservedValue) {
				w.feed.Delete(object.KeyOf(w.stored("web", "u1", v[0])))
			}, 0, 3, func(string) []string { return nil },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestVerifier(t)
			v := w.reserve(3)
			c.die(w, v)
			w.verifier.keepReservesOnce(t.Context())
			if !w.hasLease() || len(w.engine.Reserves()) != 1 {
				t.Fatal("the reserve was closed before it lapsed")
			}
			w.lapse()
			if w.hasLease() || len(w.engine.Reserves()) != 0 {
				t.Fatal("the reserve was not closed")
			}
			w.wantPool(c.used, 0, c.resting)
			w.want(c.want(v[0].Value.String())...)
			w.wantEvents()
		})
	}
}

// TestAnUnknownOutcomeIsDecided settles a value of a commit with an unknown outcome. The verifier decides
// after the grace.
func TestAnUnknownOutcomeIsDecided(t *testing.T) {
	w := newTestVerifier(t)
	v := w.reserve(2)
	web := w.stored("web", "u1", v[0])
	w.call(allocation.ReserveRequest{Settled: []allocation.Settlement{settlement(web, v[0], false), settlement(service("none", "u2", ""), v[1], false)}})
	w.passGrace()
	w.want(v[0].Value.String() + " u1")
	w.wantPool(1, 0, 1)
}

// TestNothingIsClosedInDoubt checks that a reserve stays as long as one of its values may still be stored.
func TestNothingIsClosedInDoubt(t *testing.T) {
	for name, doubt := range map[string]func(w *testVerifier){
		"the Lease cannot be deleted":  func(w *testVerifier) { w.registry.kept[holder] = true },
		"the registry does not answer": func(w *testVerifier) { w.registry.err = errors.New("gone fishing") },
		"the head is not known": func(w *testVerifier) {
			w.registry.onHead = func() (string, uint64, error) { return "", 0, errors.New("gone fishing") }
		},
		"the store is closed": func(w *testVerifier) { w.engine.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestVerifier(t)
			w.reserve(3)
			doubt(w)
			w.lapse()
			w.wantPool(0, 3, 0)
		})
	}
}

// TestClosingWaitsForTheView has a service in the registry that the view does not have yet when the
// Lease is deleted. Its value is not freed, because the closing waits until the view has the service.
func TestClosingWaitsForTheView(t *testing.T) {
	for name, head := range map[string]position{
		"the view lags": {epoch: "epoch-1", revision: 1}, "the log has begun anew": {epoch: "epoch-2"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestVerifier(t)
				v := w.reserve(2)
				w.registry.onHead = func() (string, uint64, error) { return head.epoch, w.feed.Revision() + head.revision, nil }
				done := make(chan struct{})
				go func() {
					defer close(done)
					w.lapse()
				}()
				synctest.Wait()
				w.wantPool(0, 2, 0)
				w.epoch = head.epoch
				w.stored("web", "u1", v[0])
				<-done
				w.want(v[0].Value.String() + " u1")
				w.wantPool(1, 0, 1)
			})
		})
	}
}

// TestAViewThatDoesNotMoveClosesNothing gives up after a while, and tries again.
func TestAViewThatDoesNotMoveClosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestVerifier(t)
		w.reserve(2)
		w.registry.onHead = func() (string, uint64, error) { return "epoch-1", 1000, nil }
		begin := time.Now()
		w.lapse()
		if took := time.Since(begin); took != reachTimeout {
			t.Errorf("gave up after %s, want %s", took, reachTimeout)
		}
		w.wantPool(0, 2, 0)
		w.registry.onHead = nil
		w.verifier.keepReservesOnce(t.Context())
		w.wantPool(0, 0, 2)
	})
}

// TestEveryStartClosesReserves starts with a Lease that the store does not know, as an old copy of it
// would.
func TestEveryStartClosesReserves(t *testing.T) {
	w := newTestVerifier(t, lease(holder), lease("endpointctl"), service("web", "u1", "10.96.0.1"))
	if w.hasLease() {
		t.Error("the Lease of a reserve that the store does not know is still there")
	}
	if w.feed.Get(object.Key{Kind: "Lease", Namespace: "default", Name: "endpointctl"}) == nil {
		t.Error("the Lease of the endpoint controller was deleted")
	}
	if epoch, open, _ := w.verifier.gate.state(); !open || epoch != "epoch-1" {
		t.Errorf("open %v for %q", open, epoch)
	}
	w.want("10.96.0.1 u1")
}

// TestARestoredRegistryIsAdopted lets the registry's log begin anew: nothing is allocated until the
// reserves are closed and the values of its objects are adopted. A value that the store has for
// another object, which is gone, goes to the object that has it now.
func TestARestoredRegistryIsAdopted(t *testing.T) {
	w := newTestVerifier(t)
	v := w.reserve(3)
	w.allocate(store.Owner{UID: "u8", Kind: "Service", Namespace: "default", Name: "gone"}, "ip", clusterIP, "10.96.0.8")
	w.allocate(store.Owner{UID: "u9", Kind: "Machine", Name: "m"}, "ip", clusterIP, "10.96.0.9")
	w.confirm("u8")
	w.confirm("u9")
	w.registry.kept[holder] = true
	w.epoch = "epoch-2"
	w.feed.Put(service("web", "u1", v[0].Value.String()), service("shop", "u2", "10.96.0.8"), service("odd", "u3", "10.96.0.9"))
	w.verifier.keepReservesOnce(t.Context())
	w.passGrace() // decides nothing
	if _, open, _ := w.verifier.gate.state(); open || w.health.Ready() == nil {
		t.Fatal("allocation is open although the reserves of before are not closed")
	}
	w.want(v[0].Value.String()+" "+holder, v[1].Value.String()+" "+holder, v[2].Value.String()+" "+holder, "10.96.0.8 u8", "10.96.0.9 u9")
	delete(w.registry.kept, holder)
	w.verifier.keepReservesOnce(t.Context())
	if epoch, err := w.verifier.Adopted(t.Context()); err != nil || epoch != "epoch-2" || w.health.Ready() != nil {
		t.Errorf("adopted for %q, %v", epoch, err)
	}
	w.want(v[0].Value.String()+" u1", "10.96.0.8 u2", "10.96.0.9 u9")
	w.wantPool(3, 0, 2)
}

// TestALostSettlementIsMadeUpFor settles the value of a service that has been in a reserve for the
// grace, and leaves the other values of the reserve alone.
func TestALostSettlementIsMadeUpFor(t *testing.T) {
	w := newTestVerifier(t)
	v := w.reserve(3)
	web, brief := w.stored("web", "u1", v[0]), w.stored("brief", "u2", v[1])
	w.registry.differs[object.KeyOf(brief)] = nil // deleted, which the view does not know yet
	w.verifier.cfg.Grace = time.Hour
	w.passGrace()
	w.wantPool(0, 3, 0)
	w.verifier.cfg.Grace = time.Nanosecond
	w.passGrace()
	w.want(v[0].Value.String()+" u1", v[1].Value.String()+" "+holder, v[2].Value.String()+" "+holder)
	w.wantEvents()
	w.wantCounts(map[string]float64{"settled": 1, "readded": 0, "freed": 0})
	if res := w.call(allocation.ReserveRequest{Settled: []allocation.Settlement{settlement(web, v[0], true)}}); res.Ignored != 1 {
		t.Errorf("the settlement after it: %+v", res)
	}
}

// TestRunClosesReserves closes a lapsed reserve within the time between two looks.
func TestRunClosesReserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestVerifier(t)
		w.reserve(3)
		kittest.Run(t, "verifier", w.verifier.Run)
		time.Sleep(allocation.Lease - time.Millisecond)
		synctest.Wait()
		w.wantPool(0, 3, 0)
		time.Sleep(2 * lookForLapsed)
		synctest.Wait()
		w.wantPool(0, 0, 3)
	})
}

// TestSettlingAClosedReserve closes a reserve, and then lets its holder settle a value.
func TestSettlingAClosedReserve(t *testing.T) {
	w := newTestVerifier(t)
	v := w.reserve(1)
	w.lapse()
	n, err := w.engine.Settle(t.Context(), []engine.HolderSettlement{{Holder: holder, Settlement: settlement(service("web", "u1", ""), v[0], true)}})
	if err != nil || n != 0 {
		t.Errorf("settled %d, %v", n, err)
	}
	w.wantPool(0, 0, 1)
}
