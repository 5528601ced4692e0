package registry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
)

// gone waits until a lookup returns NotFound.
func gone(t *testing.T, what string, get func(ctx context.Context) error) {
	t.Helper()
	kittest.Eventually(t, what+" is collected", func() error {
		err := get(within(t))
		switch {
		case apierr.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return errors.New("it is still there")
	})
}

func (r *replica) getSlice(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := r.slices.GetEndpointSlice(ctx, &registryv1.GetEndpointSliceRequest{Name: name})
		return err
	}
}

func (r *replica) slice(t *testing.T, name string, owners ...*corev1.OwnerReference) {
	t.Helper()
	_, err := r.slices.CreateEndpointSlice(within(t), &registryv1.CreateEndpointSliceRequest{EndpointSlice: &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Name: name, OwnerReferences: owners},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func owner(svc *corev1.Service) *corev1.OwnerReference {
	return &corev1.OwnerReference{ApiVersion: "v1", Kind: "Service", Name: svc.GetMetadata().GetName(), Uid: svc.GetMetadata().GetUid()}
}

func TestOwnedObjectsGoWithTheirOwners(t *testing.T) {
	_, r := run(t)
	one, two := r.create(t, web("one")), r.create(t, web("two"))
	r.slice(t, "of-one", owner(one))
	r.slice(t, "of-both", owner(one), owner(two))
	r.slice(t, "of-nobody")
	r.slice(t, "of-somebody-elsewhere", &corev1.OwnerReference{ApiVersion: "apps/v1", Kind: "Deployment", Name: "d", Uid: "u"})
	if _, err := r.endpoints.CreateEndpoints(within(t), &registryv1.CreateEndpointsRequest{Endpoints: &corev1.Endpoints{Metadata: &corev1.ObjectMeta{Name: "one"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "one"}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the slice of one", r.getSlice("of-one"))
	gone(t, "the Endpoints of one", func(ctx context.Context) error {
		_, err := r.endpoints.GetEndpoints(ctx, &registryv1.GetEndpointsRequest{Name: "one"})
		return err
	})
	if err := r.getSlice("of-both")(within(t)); err != nil {
		t.Errorf("the slice of both: %v", err)
	}
	if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "two"}); err != nil {
		t.Fatal(err)
	}
	gone(t, "the slice of both", r.getSlice("of-both"))
	for _, name := range []string{"of-nobody", "of-somebody-elsewhere"} {
		if err := r.getSlice(name)(within(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Its owner was deleted before it was created.
	r.slice(t, "late", owner(one))
	gone(t, "the late slice", r.getSlice("late"))
}

func TestNamespaceEmptiesFirst(t *testing.T) {
	i, r := run(t)
	if _, err := r.namespaces.CreateNamespace(within(t), &registryv1.CreateNamespaceRequest{Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "shop"}}}); err != nil {
		t.Fatal(err)
	}
	inShop := func(s *corev1.Service) { s.Metadata.Namespace = "shop" }
	for n := range 5 {
		r.create(t, web(fmt.Sprintf("web-%d", n), inShop))
	}
	held := r.create(t, web("held", inShop, func(s *corev1.Service) { s.Metadata.Finalizers = []string{"example.com/cleanup"} }))
	if _, err := r.namespaces.DeleteNamespace(within(t), &registryv1.DeleteNamespaceRequest{Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "only what has a finalizer is left", func() error {
		list, err := r.services.ListServices(within(t), &registryv1.ListServicesRequest{Namespace: "shop"})
		if err != nil {
			return err
		}
		if len(list.GetServices()) != 1 || list.GetServices()[0].GetMetadata().GetDeletionTimestamp() == nil {
			return fmt.Errorf("there are %d services", len(list.GetServices()))
		}
		held = list.GetServices()[0]
		return nil
	})
	getNamespace := func(ctx context.Context) error {
		_, err := r.namespaces.GetNamespace(ctx, &registryv1.GetNamespaceRequest{Name: "shop"})
		return err
	}
	if err := getNamespace(within(t)); err != nil {
		t.Errorf("the namespace went before what is in it: %v", err)
	}
	held.Metadata.Finalizers = nil
	r.update(t, held)
	gone(t, "the namespace", getNamespace)
	kittest.Eventually(t, "what was collected gives back its values", func() error {
		if n := i.allocator.Used(); n != 0 {
			return fmt.Errorf("%d values are still allocated", n)
		}
		return nil
	})
}

// TestCollectionGoesOn checks that objects which were due when the registry stopped are removed
// after it starts again.
func TestCollectionGoesOn(t *testing.T) {
	i, r := run(t)
	r.slice(t, "orphan")
	r.stop()
	// The reference is written directly to the store, to get the state that a registry leaves if it
	// stops in the middle of a collection.
	i.edit("EndpointSlice", "orphan", func(o *corev1.ObjectMeta) {
		o.OwnerReferences = []*corev1.OwnerReference{{Kind: "Service", Name: "gone", Uid: "gone"}}
	})
	again := i.start()
	gone(t, "the orphan", again.getSlice("orphan"))
}

func TestEventsAreFolded(t *testing.T) {
	_, r := run(t)
	say := func(message string) *corev1.Event {
		answer, err := r.events.CreateEvent(within(t), &registryv1.CreateEventRequest{Event: &corev1.Event{
			Metadata:  &corev1.ObjectMeta{GenerateName: "web."},
			Regarding: &corev1.ObjectReference{Kind: "Service", Namespace: "default", Name: "web"},
			Reason:    "Tested", Message: message, Type: corev1.EventType_EVENT_TYPE_WARNING, ReportingComponent: "test",
		}})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetEvent()
	}
	first := say("something happened")
	if first.GetCount() != 1 || first.GetFirstTimestamp() == nil {
		t.Errorf("first: %v", first)
	}
	other := say("something else happened")
	for range 4 {
		say("something happened")
	}
	got := say("something happened")
	if got.GetCount() != 6 || got.GetMetadata().GetName() != first.GetMetadata().GetName() ||
		!got.GetFirstTimestamp().AsTime().Equal(first.GetFirstTimestamp().AsTime()) || got.GetLastTimestamp().AsTime().Before(first.GetLastTimestamp().AsTime()) {
		t.Errorf("repeated: %v, first %v", got, first)
	}
	if other.GetCount() != 1 || other.GetMetadata().GetName() == first.GetMetadata().GetName() {
		t.Errorf("another: %v", other)
	}
}

func countEvents(t *testing.T, r *replica) int {
	t.Helper()
	list, err := r.events.ListEvents(within(t), &registryv1.ListEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return len(list.GetEvents())
}

func (r *replica) event(t *testing.T, name string) {
	t.Helper()
	_, err := r.events.CreateEvent(within(t), &registryv1.CreateEventRequest{Event: &corev1.Event{
		Metadata: &corev1.ObjectMeta{Name: name}, Regarding: &corev1.ObjectReference{Kind: "Node", Name: name},
		Reason: "Tested", Message: "m", ReportingComponent: "test",
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEventsAreBounded(t *testing.T) {
	_, r := run(t, func(c *registry.Config) { c.MaxEvents, c.ReapInterval = 3, 10*time.Millisecond })
	for n := range 8 {
		r.event(t, fmt.Sprintf("e%d", n))
	}
	kittest.Eventually(t, "the oldest events go", func() error {
		if n := countEvents(t, r); n != 3 {
			return fmt.Errorf("there are %d events", n)
		}
		return nil
	})
	if _, err := r.events.GetEvent(within(t), &registryv1.GetEventRequest{Name: "e7"}); err != nil {
		t.Errorf("the newest event: %v", err)
	}
}

func TestEventsExpire(t *testing.T) {
	_, r := run(t, func(c *registry.Config) { c.EventTTL, c.ReapInterval = 50*time.Millisecond, 10*time.Millisecond })
	r.event(t, "e")
	kittest.Eventually(t, "the event expires", func() error {
		if n := countEvents(t, r); n != 0 {
			return fmt.Errorf("there are %d events", n)
		}
		return nil
	})
}

func held(name, holder string, version uint64) *corev1.Lease {
	return &corev1.Lease{
		Metadata: &corev1.ObjectMeta{Name: name, ResourceVersion: version},
		Spec:     &corev1.LeaseSpec{HolderIdentity: holder, LeaseDurationSeconds: 15},
	}
}

func TestLeasesHaveEpochs(t *testing.T) {
	_, r := run(t)
	take := func(holder string, version uint64) *corev1.Lease {
		t.Helper()
		answer, err := r.leases.UpdateLease(within(t), &registryv1.UpdateLeaseRequest{Lease: held("leader", holder, version)})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetLease()
	}
	created, err := r.leases.CreateLease(within(t), &registryv1.CreateLeaseRequest{Lease: held("leader", "a", 0)})
	if err != nil {
		t.Fatal(err)
	}
	first := created.GetLease()
	renewed := first.CloneVT()
	renewed.Spec.LeaseDurationSeconds, renewed.Spec.Epoch = 16, 99
	answer, err := r.leases.UpdateLease(within(t), &registryv1.UpdateLeaseRequest{Lease: renewed})
	if err != nil || answer.GetLease().GetSpec().GetEpoch() != first.GetSpec().GetEpoch() {
		t.Errorf("renewed: %v, %v; want epoch %d", answer, err, first.GetSpec().GetEpoch())
	}
	second := take("b", answer.GetLease().GetMetadata().GetResourceVersion())
	if second.GetSpec().GetEpoch() <= first.GetSpec().GetEpoch() {
		t.Errorf("the lease changed hands and has epoch %d after %d", second.GetSpec().GetEpoch(), first.GetSpec().GetEpoch())
	}
	if _, err := r.leases.UpdateLease(within(t), &registryv1.UpdateLeaseRequest{Lease: held("leader", "a", first.GetMetadata().GetResourceVersion())}); !apierr.IsConflict(err) {
		t.Errorf("the lease was taken on an old version: %v", err)
	}
	if given := take("", 0); given.GetSpec().GetEpoch() != second.GetSpec().GetEpoch() {
		t.Errorf("given up, it has epoch %d", given.GetSpec().GetEpoch())
	}
	r.drop(t, "leader")
	created, err = r.leases.CreateLease(within(t), &registryv1.CreateLeaseRequest{Lease: held("leader", "c", 0)})
	if err != nil || created.GetLease().GetSpec().GetEpoch() <= second.GetSpec().GetEpoch() {
		t.Errorf("made anew: %v, %v; want an epoch above %d", created, err, second.GetSpec().GetEpoch())
	}
}

func TestFencing(t *testing.T) {
	_, r := run(t)
	created, err := r.leases.CreateLease(within(t), &registryv1.CreateLeaseRequest{Lease: held("leader", "a", 0)})
	if err != nil {
		t.Fatal(err)
	}
	epoch := created.GetLease().GetSpec().GetEpoch()
	write := func(fence, name string) error {
		ctx := metadata.AppendToOutgoingContext(within(t), "portolan-fence", fence)
		_, err := r.slices.CreateEndpointSlice(ctx, &registryv1.CreateEndpointSliceRequest{EndpointSlice: &corev1.EndpointSlice{
			Metadata: &corev1.ObjectMeta{Name: name}, AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		}})
		return err
	}
	mine := fmt.Sprintf("default/leader=%d", epoch)
	if err := write(mine, "one"); err != nil {
		t.Errorf("the holder writes: %v", err)
	}
	if _, err := r.leases.UpdateLease(within(t), &registryv1.UpdateLeaseRequest{Lease: held("leader", "b", 0)}); err != nil {
		t.Fatal(err)
	}
	for name, fence := range map[string]string{"former-holder": mine, "no-such-lease": "default/none=1"} {
		if err := write(fence, name); apierr.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s writes: %v", name, err)
		}
		if err := r.getSlice(name)(within(t)); !apierr.IsNotFound(err) {
			t.Errorf("%s has written: %v", name, err)
		}
	}
	if err := write("nonsense", "three"); apierr.Code(err) != codes.InvalidArgument {
		t.Errorf("a fence that is none: %v", err)
	}
}
