package registry_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/registry/internal/allocfake"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/spec"
)

// reserved is the number of addresses of each family that a registry of the tests has at hand.
const reserved = 8

// stocked waits until the registry has n addresses at hand.
func (r *replica) stocked(t *testing.T, n int) {
	t.Helper()
	kittest.Eventually(t, "a reserve", func() error { return allocfake.Stocked(r.metrics, n) })
}

// closeReserve closes a reserve as the allocator does: it deletes the Lease, and then reads which
// objects have values.
func (r *replica) closeReserve(t *testing.T, i *installation, holder string) {
	t.Helper()
	_, err := r.leases.DeleteLease(within(t), &registryv1.DeleteLeaseRequest{Name: holder})
	if err != nil && !apierr.IsNotFound(err) {
		t.Fatal(err)
	}
	inUse := map[string]string{}
	for _, svc := range r.all(t) {
		for _, address := range svc.GetSpec().GetClusterIps() {
			inUse[address] = svc.GetMetadata().GetUid()
		}
	}
	i.allocator.CloseReserve(holder, inUse)
}

// all returns all services, as they are in the store now.
func (r *replica) all(t *testing.T) []*corev1.Service {
	t.Helper()
	ctx := within(t)
	head, err := r.changes.GetHead(ctx, &registryv1.GetHeadRequest{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := r.services.ListServices(ctx, &registryv1.ListServicesRequest{MinRevision: head.GetRevision(), PageSize: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return list.GetServices()
}

// TestCreatesTakeWhatIsAtHand checks that creates do not ask the allocator while the reserve lasts,
// and that the allocator learns of every address.
func TestCreatesTakeWhatIsAtHand(t *testing.T) {
	i, r := run(t)
	r.create(t, web("first"))
	r.stocked(t, reserved)
	before := i.allocator.Calls().Allocate
	seen := map[string]bool{}
	var all []*corev1.Service
	for n := range 8 {
		svc := r.create(t, web(fmt.Sprint("s", n)))
		all = append(all, svc)
		seen[svc.GetSpec().GetClusterIp()] = true
	}
	if asked := i.allocator.Calls().Allocate - before; asked != 0 || len(seen) != 8 {
		t.Errorf("%d calls for 8 services with %d addresses, want none for 8", asked, len(seen))
	}
	for _, svc := range all {
		i.holds(t, svc, svc.GetSpec().GetClusterIp())
	}
	kittest.Eventually(t, "all are confirmed", func() error {
		if held := i.allocator.Held(); len(held) != 0 {
			return fmt.Errorf("%v are held only", held)
		}
		return nil
	})
	if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "s0"}); err != nil {
		t.Fatal(err)
	}
	i.holds(t, all[0])
}

// TestBothFamiliesFromTheReserve checks that a dual-stack service gets both addresses from the
// reserve.
func TestBothFamiliesFromTheReserve(t *testing.T) {
	i, r := run(t, dual)
	both := func(s *corev1.Service) {
		s.Spec.IpFamilyPolicy = corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK
	}
	r.create(t, web("first", both))
	r.stocked(t, 2*reserved)
	before := i.allocator.Calls().Allocate
	svc := r.create(t, web("second", both))
	if asked := i.allocator.Calls().Allocate - before; asked != 0 || len(svc.GetSpec().GetClusterIps()) != 2 {
		t.Errorf("%d calls for the addresses %v", asked, svc.GetSpec().GetClusterIps())
	}
	i.holds(t, svc, svc.GetSpec().GetClusterIps()...)
}

// TestDeleteBeforeTheAllocatorKnows deletes a service while the allocator has not been told of it.
// The address must be free afterwards, and the late settlement must not take it again.
func TestDeleteBeforeTheAllocatorKnows(t *testing.T) {
	i, r := run(t)
	r.create(t, web("first"))
	r.stocked(t, reserved)
	for n := range 20 {
		svc := r.create(t, web("web"))
		if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "web"}); err != nil {
			t.Fatal(err)
		}
		if n == 19 {
			r.stocked(t, reserved)
			i.holds(t, svc)
		}
	}
	kittest.Eventually(t, "the addresses are free", func() error {
		if used := i.allocator.Used(); used != 1 {
			return fmt.Errorf("%d values are allocated, want that of the first service", used)
		}
		return nil
	})
}

// TestCreatesGoOnWithoutTheAllocator checks that creates succeed while the reserve lasts, that they
// fail with a clear error afterwards, and that a health warning describes the outage meanwhile.
func TestCreatesGoOnWithoutTheAllocator(t *testing.T) {
	i, r := run(t)
	r.create(t, web("first"))
	r.stocked(t, reserved)
	i.allocator.SetAway(true)
	var all []*corev1.Service
	var err error
	for n := 0; err == nil; n++ {
		var answer *registryv1.CreateServiceResponse
		if answer, err = r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web(fmt.Sprint("s", n))}); err == nil {
			all = append(all, answer.GetService())
		}
	}
	_, retry := apierr.RetryAfter(err)
	if len(all) != 8 || !apierr.IsUnavailable(err) || !retry || !strings.Contains(err.Error(), "allocator") {
		t.Errorf("%d services were created, and then: %v", len(all), err)
	}
	kittest.Eventually(t, "a warning", func() error {
		text := strings.Join(r.health.Warnings(), "\n")
		if !strings.Contains(text, "allocator: has not answered for ") || !strings.Contains(text, "; 0 IPv4 addresses are at hand, enough for about 0s at the present rate") {
			return fmt.Errorf("the warnings are %q", text)
		}
		return nil
	})
	i.allocator.SetAway(false)
	for _, svc := range all {
		i.holds(t, svc, svc.GetSpec().GetClusterIp())
	}
	kittest.Eventually(t, "the warning ends", func() error {
		if all := r.health.Warnings(); len(all) > 0 {
			return fmt.Errorf("the warnings are %q", all)
		}
		return nil
	})
	r.create(t, web("last"))
}

// TestACleanStopLeavesNothing checks that a registry that stops settles the values that it has stored,
// returns all others and deletes its Lease.
func TestACleanStopLeavesNothing(t *testing.T) {
	i, r := run(t)
	r.create(t, web("first"))
	r.stocked(t, reserved)
	svc := r.create(t, web("second"))
	r.stop()
	if got := i.allocator.Values(svc.GetMetadata().GetUid()); !slices.Equal(got, svc.GetSpec().GetClusterIps()) || len(i.allocator.Holders()) != 0 {
		t.Errorf("the allocator has %v for a service with %v, and the reserves %v", got, svc.GetSpec().GetClusterIps(), i.allocator.Holders())
	}
	i.allocator.EnableReserves(0) // the next registry makes no Lease
	list, err := i.start().leases.ListLeases(within(t), &registryv1.ListLeasesRequest{})
	if err != nil || len(list.GetLeases()) != 0 {
		t.Errorf("the Leases %v are left, %v", list.GetLeases(), err)
	}
}

// TestAnAddressAtHandIsGivenBack claims an address that a registry has at hand for another owner. The
// registry must give it back at once.
func TestAnAddressAtHandIsGivenBack(t *testing.T) {
	i, r := run(t)
	r.create(t, web("first"))
	r.stocked(t, reserved)
	wanted := i.allocator.Reserved()[0]
	answer, err := i.allocator.Allocate(within(t), &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{{
		Owner:  &allocatorv1.Owner{Uid: "other"},
		Claims: []*allocatorv1.Claim{{Slot: "s", Use: allocatorv1.Use_USE_CLUSTER_IP, Family: corev1.IPFamily_IP_FAMILY_IPV4, Value: wanted}},
	}}})
	if err != nil || !slices.Equal(answer.GetResults()[0].GetValues(), []string{wanted}) {
		t.Fatalf("a claim of %s: %v, %v", wanted, answer, err)
	}
	for n := range 10 {
		if got := r.create(t, web(fmt.Sprint("s", n))).GetSpec().GetClusterIp(); got == wanted {
			t.Errorf("a service has %s too", wanted)
		}
	}
}

// TestAWishForWhatIsAtHand checks that a service gets the address that it names from the reserve.
func TestAWishForWhatIsAtHand(t *testing.T) {
	i, r := run(t)
	r.create(t, web("first"))
	r.stocked(t, reserved)
	before, wanted := i.allocator.Calls().Allocate, i.allocator.Reserved()[3]
	svc := r.create(t, web("second", func(s *corev1.Service) { s.Spec.ClusterIp = wanted }))
	if asked := i.allocator.Calls().Allocate - before; asked != 0 || svc.GetSpec().GetClusterIp() != wanted {
		t.Errorf("it has %s after %d calls, want %s", svc.GetSpec().GetClusterIp(), asked, wanted)
	}
	i.holds(t, svc, wanted)
}

// TestReservesEndUnderLoad lets two registries on one database create services while their Leases are
// deleted and their reserves closed, again and again. A closed reserve's free values are granted
// again at once, so a value that is stored afterwards would be in two places.
func TestReservesEndUnderLoad(t *testing.T) {
	dsn := kittest.Postgres(t)
	i := install(t, func(c *registry.Config) { c.Store = dsn })
	a, b := i.start(), i.start()
	ctx, cancel := context.WithCancel(within(t))
	var created atomic.Int64
	var wg sync.WaitGroup
	for n, r := range []*replica{a, b, a, b} {
		wg.Go(func() {
			for round := 0; ctx.Err() == nil; round++ {
				name := fmt.Sprintf("w%d-%d", n, round)
				if _, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web(name)}); err != nil {
					t.Errorf("create %s: %v", name, err)
					return
				}
				created.Add(1)
				if round%8 == 7 && round < 40 { // 5 of each writer stay; if more did, a slow machine would fill the pool
					continue
				}
				if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: name}); err != nil {
					t.Errorf("delete %s: %v", name, err)
					return
				}
			}
		})
	}
	for n := range 8 {
		kittest.Eventually(t, "creates", func() error {
			if created.Load() < int64(20*(n+1)) || len(i.allocator.Holders()) == 0 {
				return fmt.Errorf("%d so far, reserves %v", created.Load(), i.allocator.Holders())
			}
			return nil
		})
		for _, holder := range i.allocator.Holders() {
			b.closeReserve(t, i, holder)
		}
	}
	cancel()
	wg.Wait()
	owners := map[string]string{}
	for _, svc := range a.all(t) {
		address, name := svc.GetSpec().GetClusterIp(), svc.GetMetadata().GetName()
		if other := owners[address]; other != "" {
			t.Errorf("%s and %s have %s", name, other, address)
		}
		owners[address] = name
		i.holds(t, svc, address)
	}
	t.Logf("%d creates, %d services are left", created.Load(), len(owners))
}

// TestAnImportEndsTheReserve imports a backup into a running registry. Nothing that was allocated for
// the former log may be stored, and creates succeed once the allocator has taken over the new log.
func TestAnImportEndsTheReserve(t *testing.T) {
	i, r := run(t)
	epoch := func() string {
		head, err := r.changes.GetHead(within(t), &registryv1.GetHeadRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return head.GetEpoch()
	}
	i.allocator.SetLogEpoch(epoch())
	restored := r.create(t, web("web"))
	r.stocked(t, reserved)
	backup := r.export(t)
	if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "web"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.restore(t, backup); err != nil {
		t.Fatalf("import into a registry that has only the Lease of its reserve: %v", err)
	}
	_, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("other")})
	if _, retry := apierr.RetryAfter(err); !apierr.IsUnavailable(err) || !retry {
		t.Errorf("a create before the allocator has taken over: %v", err)
	}
	for _, holder := range i.allocator.Holders() {
		r.closeReserve(t, i, holder)
	}
	i.allocator.Take(restored.GetMetadata().GetUid(), restored.GetSpec().GetClusterIp())
	i.allocator.SetLogEpoch(epoch())
	svc := r.create(t, web("other"))
	if svc.GetSpec().GetClusterIp() == restored.GetSpec().GetClusterIp() {
		t.Errorf("both services have %s", svc.GetSpec().GetClusterIp())
	}
	i.holds(t, svc, svc.GetSpec().GetClusterIp())
}

// TestLeasesOfReservesAreNoQuotas checks that a quota of Leases does not keep services from being
// created.
func TestLeasesOfReservesAreNoQuotas(t *testing.T) {
	_, r := run(t, func(c *registry.Config) {
		c.NamespaceQuotas = []registry.NamespaceQuota{{Namespace: "default", Resource: "leases", Limit: 0}}
	})
	r.create(t, web("web"))
	list, err := r.leases.ListLeases(within(t), &registryv1.ListLeasesRequest{})
	if err != nil || len(list.GetLeases()) != 1 || !spec.IsReserveLease(list.GetLeases()[0]) || list.GetLeases()[0].GetSpec().GetEpoch() == 0 {
		t.Errorf("the Leases are %v, %v; want that of the reserve", list.GetLeases(), err)
	}
	_, err = r.leases.CreateLease(within(t), &registryv1.CreateLeaseRequest{Lease: &corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "mine"}}})
	if apierr.Code(err) != codes.ResourceExhausted {
		t.Errorf("a Lease beyond the quota: %v", err)
	}
}
