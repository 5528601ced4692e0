package packetfilter_test

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/kerneltest/topology"
	"portolan.dev/nodeagent/plan"
)

// TestRemainsDescribeFrontends checks that the tables of a filter describe its sources, virtual addresses and
// frontends, for a process that does not know them.
func TestRemainsDescribeFrontends(t *testing.T) {
	at := func(text string) plan.Frontend {
		return plan.Frontend{Addr: netip.MustParseAddrPort(text), Protocol: plan.TCP}
	}
	limited, split, v6 := at("203.0.113.1:80"), at("10.96.0.1:443"), at("[fd00:96::1]:53")
	allowed := []netip.Prefix{netip.MustParsePrefix("192.0.2.0/25"), netip.MustParsePrefix("198.51.100.7/32")}
	standIn := netip.MustParseAddr("240.112.1.2")
	c := packetfilter.Change{Add: slices.Concat(
		[]packetfilter.Element{
			packetfilter.Virtual(limited.Addr.Addr()),
			packetfilter.Frontend(packetfilter.LimitInside, limited), packetfilter.Frontend(packetfilter.LimitOutside, limited),
			packetfilter.Split(split, standIn), packetfilter.Frontend(packetfilter.DropOutside, split),
			packetfilter.Masquerade(v6, packetfilter.Node|packetfilter.Outside), packetfilter.Frontend(packetfilter.DropInside, v6),
		}, packetfilter.Allowed(limited, allowed),
	)}
	_, ns := newFilter(t, func(f *packetfilter.Filter) {
		if err := f.Commit(c); err != nil {
			t.Fatal(err)
		}
	})
	r, err := packetfilter.ReadRemains(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(r.Sources.Pods, podNet) || !sameAddresses(r.Sources.Node, nodeNet) {
		t.Errorf("sources %v", r.Sources)
	}
	if len(r.Virtual) != 1 || !r.Virtual[limited.Addr.Addr()] {
		t.Errorf("virtual addresses %v", r.Virtual)
	}
	one := r.Frontends[limited]
	slices.SortFunc(one.Allowed, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	r.Frontends[limited] = one
	want := map[plan.Frontend]packetfilter.Remnant{
		limited: {LimitInside: true, LimitOutside: true, Allowed: allowed},
		split:   {StandIn: standIn, DropOutside: true},
		v6:      {Masquerade: packetfilter.Node | packetfilter.Outside, Explicit: true, DropInside: true},
	}
	if !reflect.DeepEqual(r.Frontends, want) {
		t.Errorf("frontends %+v, want %+v", r.Frontends, want)
	}
}

func sameAddresses(a, b []netip.Prefix) bool {
	sorted := func(list []netip.Prefix) []netip.Prefix {
		return slices.SortedFunc(slices.Values(list), func(x, y netip.Prefix) int { return x.Addr().Compare(y.Addr()) })
	}
	return slices.Equal(sorted(a), sorted(b))
}

// TestNothingRemains checks that it is no error to read or to remove tables that are not there.
func TestNothingRemains(t *testing.T) {
	kerneltest.Need(t)
	ns := topology.New(t, "node")
	r, err := packetfilter.ReadRemains(ns.Path)
	if err != nil || len(r.Frontends)+len(r.Virtual)+len(r.Sources.Pods) > 0 {
		t.Errorf("remains %+v, %v", r, err)
	}
	if err := packetfilter.RemoveTables(ns.Path); err != nil {
		t.Error(err)
	}
}

// TestRemoveTables checks that only the filter's own tables are removed.
func TestRemoveTables(t *testing.T) {
	_, ns := newFilter(t, nil)
	if err := packetfilter.RemoveTables(ns.Path); err != nil {
		t.Fatal(err)
	}
	tables, err := packetfilter.ReadTables(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	if !packetfilter.IsEmpty(tables) {
		t.Error("the tables are still there")
	}
}
