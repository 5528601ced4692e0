package admission_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/admission"
	"portolan.dev/registry/internal/allocfake"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// newReserving returns a writer with a filled reserve.
func newReserving(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.allocator.EnableReserves(3)
	f.must(t, named("first"))
	f.stocked(t)
	return f
}

// joined returns another process on the store and the allocator of f, with a filled reserve.
func (f *fixture) joined(t *testing.T) *fixture {
	t.Helper()
	other, follow := newProcess(t, f.store.Store, f.allocator)
	follow()
	other.must(t, named("first-of-the-other"))
	other.stocked(t)
	return other
}

// stocked waits until the reserve has as many values as it may have.
func (f *fixture) stocked(t *testing.T) {
	t.Helper()
	kittest.Eventually(t, "a reserve", func() error { return allocfake.Stocked(f.metrics, 3) })
}

func named(name string) *corev1.Service {
	svc := service(corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP)
	svc.Metadata.Name = name
	return svc
}

func address(t *testing.T, o object.Object) string {
	t.Helper()
	svc, ok := o.(*corev1.Service)
	if !ok {
		t.Fatalf("%v is no service", o)
	}
	return svc.GetSpec().GetClusterIp()
}

// holder returns the holder of the only reserve.
func (f *fixture) holder(t *testing.T) string {
	t.Helper()
	holders := f.allocator.Holders()
	if len(holders) != 1 {
		t.Fatalf("the reserves are %v, want one", holders)
	}
	return holders[0]
}

// closeReserve closes a reserve as the allocator does: it deletes the Lease, and then reads the log.
func (f *fixture) closeReserve(t *testing.T, holder string) {
	t.Helper()
	if err := (admission.ReserveLeases{Store: f.store.Store}).DeleteLease(t.Context(), holder); err != nil {
		t.Fatal(err)
	}
	head, err := f.store.Store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := f.View.WaitForHead(t.Context(), head); err != nil {
		t.Fatal(err)
	}
	inUse := map[string]string{}
	for item := range f.View.State().All("Service", "") {
		if svc, ok := item.Object.(*corev1.Service); ok {
			inUse[svc.GetSpec().GetClusterIp()] = svc.GetMetadata().GetUid()
		}
	}
	f.allocator.CloseReserve(holder, inUse)
}

// stopAt makes the next commit of an object stop, as a stopped process does, and returns a channel
// that has an element when it has stopped, and a function that lets it go on.
func stopAt(t *testing.T, hook interface{ Store(*func()) }) (stopped chan struct{}, goOn func()) {
	t.Helper()
	stopped, released := make(chan struct{}, 1), make(chan struct{})
	wait := func() {
		stopped <- struct{}{}
		<-released
	}
	hook.Store(&wait)
	done := false
	goOn = func() {
		if !done {
			done = true
			close(released)
		}
	}
	t.Cleanup(goOn)
	return stopped, goOn
}

// begin creates a service in the background.
func (f *fixture) begin(t *testing.T, name string) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	go func() {
		result, err := f.Create(context.WithoutCancel(t.Context()), named(name), admission.Options{})
		done <- outcome{result, err}
	}()
	return done
}

// TestAStoppedProcessStoresNothingLate stops a process between taking an address and its commit. Its
// reserve is closed, and another process gets all of its addresses. When the first one goes on, its
// commit must be refused, and its client must get another address.
func TestAStoppedProcessStoresNothingLate(t *testing.T) {
	f := newReserving(t)
	holder := f.holder(t)
	stopped, goOn := stopAt(t, &f.store.submitting)
	done := f.begin(t, "late")
	kittest.Receive(t, "the commit", stopped)
	f.closeReserve(t, holder)
	other := f.joined(t)
	used := map[string]string{}
	for n := range 6 { // more than the reserve had
		svc := other.must(t, named(fmt.Sprint("other-", n)))
		used[address(t, svc)] = svc.GetMetadata().GetName()
	}
	goOn()
	late := kittest.Receive(t, "the late create", done)
	if late.error != nil {
		t.Fatalf("the late create: %v", late.error)
	}
	if name := used[address(t, late.Object)]; name != "" {
		t.Errorf("the late service has %s, which %s has", address(t, late.Object), name)
	}
	f.owns(t, late.Object)
}

// owns waits until the allocator has the address of a service for it.
func (f *fixture) owns(t *testing.T, o object.Object) {
	t.Helper()
	kittest.Eventually(t, "the allocator to have the address", func() error {
		if got := f.allocator.Values(o.GetMetadata().GetUid()); !slices.Equal(got, []string{address(t, o)}) {
			return fmt.Errorf("it has %v, want %s", got, address(t, o))
		}
		return nil
	})
}

// TestKilledBeforeTheAllocatorKnows kills a process before and after its commit, so that it never
// settles. After its reserve is closed, the address belongs to the service if the service was stored, and
// is free otherwise.
func TestKilledBeforeTheAllocatorKnows(t *testing.T) {
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprintf("stored %v", stored), func(t *testing.T) {
			f := newReserving(t)
			holder := f.holder(t)
			hook := &f.store.submitting
			if stored {
				hook = &f.store.committed
			}
			stopped, _ := stopAt(t, hook)
			f.begin(t, "killed")
			kittest.Receive(t, "the commit", stopped)
			survivor, follow := newProcess(t, f.store.Store, f.allocator)
			follow()
			survivor.closeReserve(t, holder)
			item := survivor.View.State().Get(object.KeyOf(&corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "killed"}}))
			if (item != nil) != stored {
				t.Fatalf("the service is %v", item)
			}
			seen := map[string]bool{}
			if stored {
				seen[address(t, item.Object)] = true
				if got := f.allocator.Values(item.Object.GetMetadata().GetUid()); !slices.Equal(got, []string{address(t, item.Object)}) {
					t.Errorf("the allocator has %v for the service, want %s", got, address(t, item.Object))
				}
			}
			for n := range 8 {
				svc := survivor.must(t, named(fmt.Sprint("s", n)))
				if seen[address(t, svc)] {
					t.Errorf("two services have %s", address(t, svc))
				}
				seen[address(t, svc)] = true
			}
		})
	}
}

// TestAFailedCreatePutsItsAddressBack checks that the address of a service that was certainly not
// stored is used for the next one, without a call to the allocator.
func TestAFailedCreatePutsItsAddressBack(t *testing.T) {
	f := newReserving(t)
	before := f.allocator.Calls().Allocate
	for range 10 { // more than the reserve has
		fail(&f.store.before, store.ErrUnavailable, func() {
			if _, err := f.Create(t.Context(), named("web"), admission.Options{}); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("create: %v", err)
			}
		})
	}
	f.must(t, named("web"))
	if asked := f.allocator.Calls().Allocate - before; asked != 0 {
		t.Errorf("%d calls to the allocator", asked)
	}
}

// TestAnUnknownCommitHoldsItsAddress checks that the address of a service that may be stored is held
// for it, neither confirmed nor used again.
func TestAnUnknownCommitHoldsItsAddress(t *testing.T) {
	f := newReserving(t)
	fail(&f.store.after, store.ErrUnknown, func() {
		if _, err := f.Create(t.Context(), named("web"), admission.Options{}); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("create: %v", err)
		}
	})
	held := ""
	kittest.Eventually(t, "the address is held", func() error {
		item := f.View.State().Get(object.KeyOf(&corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"}}))
		if item == nil {
			return errors.New("the service is not visible yet")
		}
		held = address(t, item.Object)
		if all := f.allocator.Held(); !slices.Contains(all, held) {
			return fmt.Errorf("held are %v, the service has %s", all, held)
		}
		return nil
	})
	for n := range 5 {
		if got := address(t, f.must(t, named(fmt.Sprint("s", n)))); got == held {
			t.Errorf("another service has %s", got)
		}
	}
}

// TestTheLogChangesDuringACreate gives the log another epoch between the allocation and the commit.
// The commit must be refused, and the create must succeed with an address for the new log.
func TestTheLogChangesDuringACreate(t *testing.T) {
	for _, kind := range []corev1.ServiceType{corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, corev1.ServiceType_SERVICE_TYPE_NODE_PORT} {
		t.Run(kind.String(), func(t *testing.T) {
			f := newFixture(t)
			f.allocator.EnableReserves(3)
			head, err := f.store.Store.Head(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f.allocator.SetLogEpoch(head.Epoch)
			f.must(t, named("first"))
			f.stocked(t)
			holder := f.holder(t)
			submits := f.store.submits.Load()
			change := func() {
				next, err := f.store.Store.NewEpoch(t.Context())
				if err != nil {
					t.Error(err)
				}
				f.closeReserve(t, holder)
				f.allocator.SetLogEpoch(next.Epoch)
			}
			f.store.submitting.Store(&change)
			svc := f.must(t, func() object.Object { s := service(kind); s.Metadata.Name = "second"; return s }())
			// One submit is refused. The next two store the new Lease and the service.
			if n := f.store.submits.Load() - submits; n != 3 {
				t.Errorf("%d submits, want 3", n)
			}
			want := []string{address(t, svc)}
			if kind == corev1.ServiceType_SERVICE_TYPE_NODE_PORT {
				want = append(want, "30000")
				if got, _ := svc.(*corev1.Service); fmt.Sprint(got.GetSpec().GetPorts()[0].GetNodePort()) != "30000" {
					t.Errorf("the node port is %d", got.GetSpec().GetPorts()[0].GetNodePort())
				}
			}
			kittest.Eventually(t, "its values are settled", func() error { // they may come from the new reserve
				if got := f.allocator.Values(svc.GetMetadata().GetUid()); !slices.Equal(got, want) {
					return fmt.Errorf("the allocator has %v for it, want %v", got, want)
				}
				return nil
			})
		})
	}
}

// TestAllocationsForAnotherLogEnd checks that a create ends with UNAVAILABLE if the allocator keeps
// answering for a log that is gone, and that it leaves no values.
func TestAllocationsForAnotherLogEnd(t *testing.T) {
	f := newFixture(t)
	f.allocator.SetLogEpoch("of another log")
	_, err := f.Create(t.Context(), service(corev1.ServiceType_SERVICE_TYPE_NODE_PORT), admission.Options{})
	if _, retry := apierr.RetryAfter(err); !apierr.IsUnavailable(err) || !retry {
		t.Errorf("create: %v", err)
	}
	if calls, used := f.allocator.Calls().Allocate, f.allocator.Used(); calls != 3 || used != 0 {
		t.Errorf("%d calls left %d values, want 3 and none", calls, used)
	}
}

// TestAClientsFence checks that a write with a fence of the client is stored under that fence, with
// values from calls to the allocator.
func TestAClientsFence(t *testing.T) {
	f := newReserving(t)
	lease, _ := f.must(t, &corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "mine"}}).(*corev1.Lease)
	before := f.allocator.Calls().Allocate
	fence := &store.Fence{Lease: object.KeyOf(lease), Epoch: lease.GetSpec().GetEpoch()}
	if _, err := f.Create(t.Context(), named("web"), admission.Options{Fence: fence}); err != nil {
		t.Errorf("create: %v", err)
	}
	fence.Epoch++
	_, err := f.Create(t.Context(), named("other"), admission.Options{Fence: fence})
	if refused, ok := errors.AsType[*store.Fenced](err); !ok || refused.Fence != *fence {
		t.Errorf("create under a fence that does not hold: %v", err)
	}
	if asked := f.allocator.Calls().Allocate - before; asked != 2 {
		t.Errorf("%d calls to the allocator, want one for each", asked)
	}
	if holders := f.allocator.Holders(); len(holders) != 1 {
		t.Errorf("the reserves are %v, want one that goes on", holders)
	}
}

// TestADryRunTakesNothing checks that dry runs call the allocator and take nothing from the reserve.
func TestADryRunTakesNothing(t *testing.T) {
	f := newReserving(t)
	before, reserved := f.allocator.Calls().Allocate, f.allocator.Reserved()
	for range 5 {
		if _, err := f.Create(t.Context(), named("web"), admission.Options{DryRun: true}); err != nil {
			t.Fatal(err)
		}
	}
	if asked := f.allocator.Calls().Allocate - before; asked != 5 || !slices.Equal(f.allocator.Reserved(), reserved) {
		t.Errorf("%d calls, the reserve has %v, before it had %v", asked, f.allocator.Reserved(), reserved)
	}
}

// TestADeletedLeaseIsReplaced deletes the Lease of the reserve. Creates of all kinds must go on under
// another Lease.
func TestADeletedLeaseIsReplaced(t *testing.T) {
	f := newReserving(t)
	for n, kind := range []corev1.ServiceType{corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, corev1.ServiceType_SERVICE_TYPE_NODE_PORT} {
		holder := f.holder(t)
		f.closeReserve(t, holder)
		svc := service(kind)
		svc.Metadata.Name = fmt.Sprint("s", n)
		f.must(t, svc)
		f.stocked(t)
		if next := f.holder(t); next == holder {
			t.Errorf("the reserve of %s goes on", holder)
		}
	}
}

// TestWithoutReserves checks that an allocator without reserves gets every claim, that no Lease is
// left, and that commits have no fence.
func TestWithoutReserves(t *testing.T) {
	f := newFixture(t)
	f.must(t, named("first"))
	kittest.Eventually(t, "the Lease is deleted", func() error {
		for item := range f.View.State().All("Lease", "") {
			return fmt.Errorf("there is %s", item.Key)
		}
		return nil
	})
	before, submits := f.allocator.Calls().Allocate, f.store.submits.Load()
	for n := range 3 {
		f.must(t, named(fmt.Sprint("s", n)))
	}
	if asked, n := f.allocator.Calls().Allocate-before, f.store.submits.Load()-submits; asked != 3 || n != 3 {
		t.Errorf("%d calls and %d submits for 3 services", asked, n)
	}
}

// TestAGeneratedNameThatIsTakenKeepsNoAddress lets a service get a generated name that is taken. Its
// second attempt must not claim the address of the first one.
func TestAGeneratedNameThatIsTakenKeepsNoAddress(t *testing.T) {
	f := newReserving(t)
	svc := named("")
	svc.Metadata.GenerateName = "web-"
	taken := store.ErrExists
	f.store.before.Store(&taken)
	again := func() { f.store.before.Store(nil) }
	f.store.refused.Store(&again)
	created := f.must(t, svc)
	if got := f.allocator.Values(created.GetMetadata().GetUid()); len(got) > 1 {
		t.Errorf("it has %v", got)
	}
	if address(t, created) == "" {
		t.Error("it has no address")
	}
}

// TestBulkTakesAddressesAtHand creates services together with another object. Services that get addresses
// from the reserve share the commit. If the reserve ends before the commit, they get other addresses.
func TestBulkTakesAddressesAtHand(t *testing.T) {
	f := newReserving(t)
	writes := func(suffix string) []admission.Write {
		return []admission.Write{
			write(admission.Create, named("one"+suffix)), write(admission.Create, pod("pod"+suffix, "a")), write(admission.Apply, named("two"+suffix)),
		}
	}
	seen := map[string]bool{}
	check := func(outcomes []admission.Outcome) {
		t.Helper()
		for i, o := range outcomes {
			if o.Err != nil {
				t.Fatalf("write %d: %v", i, o.Err)
			}
			if _, isPod := o.Result.Object.(*corev1.Pod); isPod {
				continue
			}
			ip := address(t, o.Result.Object)
			if ip == "" || seen[ip] {
				t.Errorf("write %d got address %q, after %v", i, ip, seen)
			}
			seen[ip] = true
		}
	}
	check(f.WriteMany(t.Context(), writes("-a"), admission.Options{}))
	if got := fmt.Sprint(f.store.many); got != "[3]" {
		t.Errorf("commits of %s writes, want one of all", got)
	}
	f.stocked(t)
	holder := f.holder(t)
	f.store.race = func() { f.closeReserve(t, holder) }
	check(f.WriteMany(t.Context(), writes("-b"), admission.Options{}))
	if slices.Contains(f.allocator.Holders(), holder) {
		t.Error("the closed reserve is there again")
	}
}
