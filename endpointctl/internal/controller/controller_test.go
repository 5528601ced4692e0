package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
	"portolan.dev/services/queue"
	"portolan.dev/services/spec"

	"portolan.dev/endpointctl/internal/index"
	"portolan.dev/endpointctl/internal/registrytest"
)

// web is the service of these tests.
var web = object.Name{Namespace: "default", Name: "web"}

func service() *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec: &corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"}, ClusterIp: "10.96.0.1", IpFamilies: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4},
			Ports: []*corev1.ServicePort{{Port: 80}},
		},
	}
}

func pod(name, ip string) *corev1.Pod {
	return &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "web"}},
		Status: &corev1.PodStatus{PodIp: ip, Conditions: []*corev1.Condition{
			{Type: "Ready", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE},
		}},
	}
}

// run runs a leading controller with a registry.
func run(t *testing.T, r *registrytest.Registry, change func(*Config)) (*Controller, *prometheus.Registry) {
	t.Helper()
	conn := kittest.Conn(t, r.Register)
	r.Put(&corev1.Lease{Metadata: &corev1.ObjectMeta{Name: "l", Namespace: "default"}, Spec: &corev1.LeaseSpec{Epoch: 1}})
	reg := prometheus.NewRegistry()
	cfg := Config{
		Registry: conn, Log: kittest.Logger(t), Metrics: reg, Index: index.New(nil), MaxPerSlice: 100, Shards: 1, Workers: 2,
		SyncTimeout: time.Minute, LastingFailure: 20 * time.Millisecond, Recheck: time.Hour,
		Queue: queue.Options{Quiet: time.Millisecond, Longest: 20 * time.Millisecond, RetryMin: 5 * time.Millisecond, RetryMax: 20 * time.Millisecond},
	}
	if change != nil {
		change(&cfg)
	}
	c := New(cfg)
	synced := make(chan struct{}, 1)
	follower, err := changes.NewFollower(changes.FollowerConfig{
		Registry: conn, Kinds: index.Kinds(), Log: cfg.Log, BookmarkEvery: 10 * time.Millisecond, IdleEvery: 10 * time.Millisecond,
		Apply: func(ctx context.Context, batch []changes.Change, revision uint64) error {
			select {
			case synced <- struct{}{}:
			default:
			}
			return c.Apply(ctx, batch, revision)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "follower", follower.Run)
	kittest.Receive(t, "the snapshot", synced)
	kittest.Run(t, "controller", func(ctx context.Context) error {
		c.Lead(metadata.AppendToOutgoingContext(ctx, "portolan-fence", "default/l=1"), 0)
		return nil
	})
	return c, reg
}

// gauge returns the value of a metric without labels.
func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// eventsIn describes the events in the registry, each once.
func eventsIn(r *registrytest.Registry) []string {
	var all []string
	for _, e := range registrytest.All[*corev1.Event](r) {
		all = append(all, spec.EnumName(e.GetType())+" "+e.GetReason()+": "+e.GetMessage())
	}
	slices.Sort(all)
	return all
}

// addresses returns the addresses in the slices and in the Endpoints of the service.
func addresses(r *registrytest.Registry) string {
	var slice, legacy []string
	for _, s := range registrytest.All[*corev1.EndpointSlice](r) {
		for _, ep := range s.GetEndpoints() {
			slice = append(slice, ep.GetAddresses()...)
		}
	}
	for _, e := range registrytest.All[*corev1.Endpoints](r) {
		for _, s := range e.GetSubsets() {
			for _, a := range s.GetAddresses() {
				legacy = append(legacy, a.GetIp())
			}
		}
	}
	slices.Sort(slice)
	return strings.Join(slice, " ") + " / " + strings.Join(legacy, " ")
}

func waitFor(t *testing.T, r *registrytest.Registry, want string) {
	t.Helper()
	kittest.Eventually(t, want, func() error {
		if got := addresses(r); got != want {
			return fmt.Errorf("got %s; events %q", got, eventsIn(r))
		}
		return nil
	})
}

// invalid returns the registry's refusal of an object for one field.
func invalid(o object.Object, field, message string) error {
	return apierr.Invalid(object.KindOf(o), object.KeyOf(o).Path(), apierr.Violations{{Field: field, Reason: apierr.ReasonInvalid, Message: message}})
}

// refuse makes all writes of slices fail. The channel gets a value for each attempt.
func refuse(r *registrytest.Registry, with func(o object.Object) error) <-chan struct{} {
	attempts := make(chan struct{}, 2)
	r.Fail(func(_ string, o object.Object) error {
		if object.KindOf(o) != "EndpointSlice" {
			return nil
		}
		select {
		case attempts <- struct{}{}:
		default:
		}
		return with(o)
	})
	return attempts
}

const failing = "portolan_endpointctl_failing_services"

func TestALastingFailureIsToldToThePeopleOnce(t *testing.T) {
	r := registrytest.New(t)
	r.Put(service(), pod("p1", "10.0.0.1"))
	attempts := refuse(r, func(object.Object) error { return registrytest.Unavailable })
	c, reg := run(t, r, nil)
	want := []string{"Warning FailedToUpdateEndpointSlices: the endpoints cannot be written: the registry is away"}
	kittest.Eventually(t, "an event", func() error {
		if got := eventsIn(r); !slices.Equal(got, want) {
			return fmt.Errorf("events %q, want %q", got, want)
		}
		return nil
	})
	for range cap(attempts) + 3 { // attempts before the event, and some after it
		kittest.Receive(t, "an attempt", attempts)
	}
	if got := eventsIn(r); !slices.Equal(got, want) {
		t.Errorf("after more attempts: events %q, want %q", got, want)
	}
	failure, failed := c.Failure(web)
	if n := gauge(t, reg, failing); !failed || failure.Message == "" || time.Since(failure.Since) < c.shards[0].cfg.LastingFailure || n != 1 {
		t.Errorf("failed %v: %+v; %v services fail", failed, failure, n)
	}
	r.Fail(nil)
	waitFor(t, r, "10.0.0.1 / 10.0.0.1")
	kittest.Eventually(t, "the failure to be over", func() error {
		if failure, failed := c.Failure(web); failed || gauge(t, reg, failing) != 0 {
			return fmt.Errorf("%+v", failure)
		}
		return nil
	})
}

// TestSyncsAreCounted checks the metrics of failed and successful syncs, and of the delay of
// written changes.
func TestSyncsAreCounted(t *testing.T) {
	r := registrytest.New(t)
	r.Put(service(), pod("p1", "10.0.0.1"))
	attempts := refuse(r, func(object.Object) error { return registrytest.Unavailable })
	_, reg := run(t, r, nil)
	kittest.Receive(t, "an attempt", attempts)
	r.Fail(nil)
	waitFor(t, r, "10.0.0.1 / 10.0.0.1")
	kittest.Eventually(t, "the syncs to be counted", func() error {
		families, err := reg.Gather()
		if err != nil {
			return err
		}
		missing := map[string]bool{"error": true, "ok": true, "portolan_endpointctl_sync_seconds": true, "portolan_endpointctl_propagation_seconds": true,
			"portolan_endpointctl_collect_seconds": true, "portolan_endpointctl_sync_changes": true, "portolan_endpointctl_call_writes": true, "portolan_endpointctl_call_seconds": true}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if metric.GetHistogram().GetSampleCount() > 0 {
					delete(missing, family.GetName())
				}
				if family.GetName() == "portolan_endpointctl_syncs_total" && metric.GetCounter().GetValue() > 0 {
					delete(missing, metric.GetLabel()[0].GetValue())
				}
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("not counted: %v", missing)
		}
		return nil
	})
}

func TestARefusalIsOneEventHoweverOftenItIsTried(t *testing.T) {
	r := registrytest.New(t)
	r.Put(service(), pod("p1", "10.0.0.1"))
	attempts := refuse(r, func(o object.Object) error { return invalid(o, "ports[0].name", "is no name") })
	c, _ := run(t, r, nil)
	for range 4 { // each with another generated name
		kittest.Receive(t, "an attempt", attempts)
	}
	want := []string{"Warning FailedToUpdateEndpointSlices: the registry refuses the endpoints: ports[0].name: is no name"}
	if got := eventsIn(r); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	if refused := c.Refused(web); len(refused) > 0 {
		t.Errorf("the endpoints %q are left out, which nobody refused", refused.Texts())
	}
}

// TestEndpointsOfOthersAreKept has an Endpoints that a person wrote for a service with a selector. The
// controller keeps it, also after the service is deleted, and reports an event. After the Endpoints is
// deleted, the controller writes its own.
func TestEndpointsOfOthersAreKept(t *testing.T) {
	r := registrytest.New(t)
	byHand := &corev1.Endpoints{
		Metadata: &corev1.ObjectMeta{Name: "web", Namespace: "default"},
		Subsets:  []*corev1.EndpointSubset{{Addresses: []*corev1.EndpointAddress{{Ip: "10.9.9.9"}}}},
	}
	r.Put(service(), pod("p1", "10.0.0.1"), byHand)
	run(t, r, nil)
	waitFor(t, r, "10.0.0.1 / 10.9.9.9")
	kittest.Eventually(t, "an event", func() error {
		if got := eventsIn(r); len(got) != 1 || !strings.HasPrefix(got[0], "Warning EndpointsKept: ") {
			return fmt.Errorf("events %q", got)
		}
		return nil
	})
	r.Delete(service())
	waitFor(t, r, " / 10.9.9.9")
	r.Put(service())
	waitFor(t, r, "10.0.0.1 / 10.9.9.9")
	r.Delete(byHand)
	waitFor(t, r, "10.0.0.1 / 10.0.0.1")
}

func TestSlicesWithoutSelectorStayAndAreToldAbout(t *testing.T) {
	r := registrytest.New(t)
	r.Put(service(), pod("p1", "10.0.0.1"))
	run(t, r, nil)
	waitFor(t, r, "10.0.0.1 / 10.0.0.1")
	without := service()
	without.Spec.Selector = nil
	r.Put(without)
	name := registrytest.All[*corev1.EndpointSlice](r)[0].GetMetadata().GetName()
	kittest.Eventually(t, "an event", func() error {
		if got := eventsIn(r); len(got) != 1 || !strings.HasPrefix(got[0], "Warning EndpointSlicesUntended: ") || !strings.HasSuffix(got[0], ": "+name) {
			return fmt.Errorf("events %q", got)
		}
		return nil
	})
	r.Delete(pod("p1", ""))
	with := service()
	with.Metadata.Name, with.Spec.Selector = "other", map[string]string{"app": "none"}
	r.Put(with) // once this service is synced, the deletion has been seen
	kittest.Eventually(t, "the other service's Endpoints", func() error {
		if n := len(registrytest.All[*corev1.Endpoints](r)); n != 2 {
			return fmt.Errorf("%d Endpoints", n)
		}
		return nil
	})
	waitFor(t, r, "10.0.0.1 / 10.0.0.1")
}
