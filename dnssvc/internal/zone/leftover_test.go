package zone

import (
	"net/netip"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

// TestNothingIsKeptOfWhatIsGone changes, moves and deletes objects, and checks that the table is
// empty afterwards.
func TestNothingIsKeptOfWhatIsGone(t *testing.T) {
	table, err := New(Config{Zones: []string{"z"}, Pods: PodsVerified})
	if err != nil {
		t.Fatal(err)
	}
	size := table.Snapshot().Size()
	service := &corev1.Service{Metadata: key{"a", "x"}.meta(), Spec: &corev1.ServiceSpec{ClusterIps: []string{"None"}}}
	slice := func(of string) *corev1.EndpointSlice {
		s := &corev1.EndpointSlice{Metadata: key{"a", "s"}.meta(), Endpoints: []*corev1.Endpoint{{Addresses: []string{"10.0.0.1"}}}}
		s.Metadata.Labels = map[string]string{object.LabelServiceName: of}
		return s
	}
	pod := &corev1.Pod{Metadata: key{"a", "p"}.meta(), Status: &corev1.PodStatus{PodIps: []string{"10.0.0.1"}}}
	for i, batch := range [][]Change{
		{{Object: service}, {Object: slice("x")}, {Object: pod}},
		{{Object: slice("y")}, {Object: pod}},
		{{Object: service, Deleted: true}, {Object: slice("y"), Deleted: true}, {Object: pod, Deleted: true}},
	} {
		if err := table.Apply(batch, uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(table.services) + len(table.sliceOwner) + len(table.pods) + len(table.podNames); n > 0 {
		t.Errorf("kept: services %v, owners of slices %v, pods %v, their names %v", table.services, table.sliceOwner, table.pods, table.podNames)
	}
	if got := table.Snapshot().Size(); got != size {
		t.Errorf("%d names, want %d", got, size)
	}
}

// TestAddressesOfTwoSlicesAreOne checks that an endpoint in two slices has one record. An endpoint
// that moves between slices is in both for a while.
func TestAddressesOfTwoSlicesAreOne(t *testing.T) {
	one := &slice{name: "s1"}
	one.add(endpoint{addr: netip.MustParseAddr("10.0.0.1"), details: details{weight: unweighted}})
	s := &service{key: key{"a", "x"}, spec: &serviceSpec{headless: true}, slices: []*slice{one, one}}
	for name, sets := range (Config{}).render(s).names {
		for _, set := range sets {
			if set.Count != 1 {
				t.Errorf("%q has %d records of one endpoint", name, set.Count)
			}
		}
	}
}

// TestWeightsOfManyEndpointsAreNotZero checks that the weight of many endpoints is at least 1,
// because clients avoid records with weight 0.
func TestWeightsOfManyEndpointsAreNotZero(t *testing.T) {
	var records []SRV
	for i := range 300 {
		records = append(records, SRV{Port: uint16(i + 1)})
	}
	set := srvForm{}.set(0, records)
	for r := range set.SRVs() {
		if r.Weight != 1 {
			t.Fatalf("weight %d", r.Weight)
		}
	}
}
