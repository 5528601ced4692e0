package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/registrytest"
)

// manyPods returns a service and n pods, which need a slice for each hundred.
func manyPods(n int) []object.Object {
	all := []object.Object{service()}
	for i := range n {
		all = append(all, pod(fmt.Sprintf("p-%03d", i), fmt.Sprintf("10.0.%d.%d", i/200, i%200)))
	}
	return all
}

// endpointCounts returns the numbers of endpoints of the slices, in order.
func endpointCounts(r *registrytest.Registry) []int {
	var counts []int
	for _, s := range registrytest.All[*corev1.EndpointSlice](r) {
		counts = append(counts, len(s.GetEndpoints()))
	}
	slices.Sort(counts)
	return counts
}

// TestAllWritesOfAServiceAreOneCall checks that the slices and the Endpoints of a service are written
// with one call, and that a change writes only the slice that has it.
func TestAllWritesOfAServiceAreOneCall(t *testing.T) {
	d := newManual(t, manyPods(250)...)
	d.deliver(251)
	if err := d.sync(); err != nil {
		t.Fatal(err)
	}
	if got := endpointCounts(d.registry); !slices.Equal(got, []int{50, 100, 100}) {
		t.Errorf("slices have %d endpoints", got)
	}
	changed := pod("p-007", "10.0.0.7")
	changed.Status.Conditions[0].Status = corev1.ConditionStatus_CONDITION_STATUS_FALSE
	d.registry.Put(changed)
	d.deliver(int(d.registry.Log.Revision() - d.delivered))
	if err := d.sync(); err != nil {
		t.Fatal(err)
	}
	if got := d.registry.Calls(); !slices.Equal(got, []int{4, 2}) {
		t.Errorf("the calls have %d writes, want 3 slices and the Endpoints, then one of each", got)
	}
}

// TestOneFailedWriteIsMadeAgainAlone has one of several writes of a call fail. The others are made,
// the sync fails, and the next one makes only the failed write.
func TestOneFailedWriteIsMadeAgainAlone(t *testing.T) {
	d := newManual(t, manyPods(250)...)
	d.deliver(251)
	d.registry.Fail(func(_ string, o object.Object) error {
		if s, ok := o.(*corev1.EndpointSlice); ok && len(s.GetEndpoints()) == 50 {
			return registrytest.Unavailable
		}
		return nil
	})
	if err := d.sync(); apierr.Code(err) != codes.Unavailable {
		t.Errorf("the sync returned %v", err)
	}
	if got := endpointCounts(d.registry); !slices.Equal(got, []int{100, 100}) {
		t.Errorf("slices have %d endpoints", got)
	}
	d.registry.Fail(nil)
	if err := d.sync(); err != nil {
		t.Error(err)
	}
	if got := endpointCounts(d.registry); !slices.Equal(got, []int{50, 100, 100}) {
		t.Errorf("slices have %d endpoints", got)
	}
	if got := d.registry.Calls(); !slices.Equal(got, []int{4, 1}) {
		t.Errorf("the calls have %d writes", got)
	}
}

// TestRefusalsOfSeveralWritesAreLeftOutTogether has the registry refuse an endpoint in each of two
// slices. One sync leaves both out.
func TestRefusalsOfSeveralWritesAreLeftOutTogether(t *testing.T) {
	d := newManual(t, manyPods(200)...)
	d.deliver(201)
	refused := map[string]bool{"10.0.0.7": true, "10.0.0.150": true}
	d.registry.Fail(func(_ string, o object.Object) error {
		s, _ := o.(*corev1.EndpointSlice)
		for i, ep := range s.GetEndpoints() {
			if refused[ep.GetAddresses()[0]] {
				return invalid(o, fmt.Sprintf("endpoints[%d].addresses[0]", i), "is taken")
			}
		}
		return nil
	})
	if err := d.sync(); err != nil {
		t.Fatal(err)
	}
	if got := endpointCounts(d.registry); !slices.Equal(got, []int{98, 100}) {
		t.Errorf("slices have %d endpoints", got)
	}
	if got := d.controller.Refused(web); len(got) != 2 {
		t.Errorf("left out are %q", got.Texts())
	}
}

// TestTheEndpointsFollowAfterTheInterval checks that a change soon after a write of the Endpoints
// changes only the slices, and that the Endpoints follows, with the time of its first change.
func TestTheEndpointsFollowAfterTheInterval(t *testing.T) {
	d := newManual(t, service(), pod("p1", "10.0.0.1"), pod("p2", "10.0.0.2"))
	d.legacy.interval = time.Hour
	d.deliver(2)
	d.wantAddresses("at first", "10.0.0.1 / 10.0.0.1")
	d.deliver(1)
	d.wantAddresses("soon after", "10.0.0.1 10.0.0.2 / 10.0.0.1")
	task, err := d.syncOne(t.Context(), d.writer, web)
	if err != nil || task.again <= 0 || task.again > time.Hour || task.writes > 0 {
		t.Errorf("again after %v, %d writes: %v; want no writes, and another sync within the hour", task.again, task.writes, err)
	}
	d.legacy.interval = time.Nanosecond
	d.wantAddresses("after the interval", "10.0.0.1 10.0.0.2 / 10.0.0.1 10.0.0.2")
	d.legacy.interval = time.Hour
	d.legacy.forget(web)
	if task, err = d.syncOne(t.Context(), d.writer, web); err != nil || task.again != 0 {
		t.Errorf("again after %v: %v; want nothing left to do", task.again, err)
	}
}

// TestAPostponedEndpointsKeepsTheTimeOfItsFirstChange checks the trigger annotation of an Endpoints
// after its write was postponed over two changes.
func TestAPostponedEndpointsKeepsTheTimeOfItsFirstChange(t *testing.T) {
	p := legacyPace{interval: time.Hour, last: map[object.Name]legacyWrite{}}
	p.written(web)
	if p.wait(web, "first") <= 0 || p.wait(web, "second") <= 0 {
		t.Fatal("the write is not postponed")
	}
	if got := p.trigger(web, "third"); got != "first" {
		t.Errorf("the trigger is %q, want the first", got)
	}
	p.written(web)
	if got := p.trigger(web, "third"); got != "third" {
		t.Errorf("the trigger is %q after a write, want the third", got)
	}
}
