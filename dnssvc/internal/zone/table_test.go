package zone_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"pgregory.net/rapid"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/zone"
	"portolan.dev/services/object"
)

func config(pods zone.PodMode, emptyExists bool) zone.Config {
	return zone.Config{
		Zones: []string{"cluster.local", "b.example"}, TTL: 5, Pods: pods, EmptyHeadlessExists: emptyExists,
		Reverse: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/9"), netip.MustParsePrefix("2001:db8::/31")},
	}
}

// describe returns a snapshot as text: every name with its sets.
func describe(s *zone.Snapshot) map[string]string {
	all := map[string]string{}
	for i := range len(s.Zones) + 1 {
		if i == len(s.Zones) {
			i = zone.AddressZone
		}
		for n := range s.Nodes(i) {
			all[zone.Text(n.Name())] = fmt.Sprintf("%d %+v", n.Zone(), n.Sets())
		}
	}
	return all
}

// drawObject draws an object from few names and addresses, so that objects often interact.
func drawObject(t *rapid.T) object.Object {
	namespace := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace")
	service := namespace + "/" + rapid.SampledFrom([]string{"x", "y"}).Draw(t, "service")
	address := func() string {
		return rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "10.0.1.1", "10.200.0.1", "2001:db8::1", "2001:db9::2"}).Draw(t, "address")
	}
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return dnstest.Namespace(namespace)
	case 1:
		return dnstest.Service(service, "="+rapid.SampledFrom([]string{"x.a.svc.cluster.local", "other.example"}).Draw(t, "alias"))
	case 2:
		return dnstest.Service(service, address(), "80:http", "53:dns/udp")
	case 3:
		return dnstest.Service(service, "None", "80:http")
	case 4:
		return dnstest.Pod(namespace+"/"+rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pod"), address())
	}
	args := []string{rapid.SampledFrom([]string{"80:http/tcp", "81:http/tcp", "53:/udp"}).Draw(t, "port")}
	for range rapid.IntRange(0, 3).Draw(t, "endpoints") {
		e := rapid.SampledFrom([]string{"", "", "!"}).Draw(t, "ready") + address()
		e += rapid.SampledFrom([]string{"", "=h", "=g"}).Draw(t, "hostname")
		args = append(args, e)
	}
	return dnstest.Slice(service+"/"+rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "slice"), args...)
}

// TestChangesLeaveNothingBehind checks that the names depend on the objects only, not on the
// changes that led to them, and that a name exists exactly if there are records at it or a name
// below it.
func TestChangesLeaveNothingBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkNothingIsLeftBehind(t, config(rapid.SampledFrom([]zone.PodMode{zone.PodsDisabled, zone.PodsVerified}).Draw(t, "pods"), rapid.Bool().Draw(t, "empty exists")))
	})
}

// checkNothingIsLeftBehind applies random changes, and compares the table with one that got the last
// version of each object only.
func checkNothingIsLeftBehind(t *rapid.T, cfg zone.Config) {
	table := newTable(t, cfg)
	objects := map[object.Key]object.Object{}
	for revision := range uint64(rapid.IntRange(1, 12).Draw(t, "batches")) {
		before := table.Snapshot()
		text := describe(before)
		var batch []zone.Change
		for range rapid.IntRange(0, 5).Draw(t, "changes") {
			o := drawObject(t)
			deleted := rapid.IntRange(0, 2).Draw(t, "delete") == 0
			if batch = append(batch, zone.Change{Object: o, Deleted: deleted}); deleted {
				delete(objects, object.KeyOf(o))
			} else {
				objects[object.KeyOf(o)] = o
			}
		}
		apply(t, table, batch, revision+1)
		if !maps.Equal(text, describe(before)) {
			t.Fatal("a snapshot has changed")
		}
	}
	fresh := newTable(t, cfg)
	var batch []zone.Change
	for _, key := range slices.SortedFunc(maps.Keys(objects), object.Compare) {
		batch = append(batch, zone.Change{Object: objects[key]})
	}
	apply(t, fresh, batch, 99)
	got, want := describe(table.Snapshot()), describe(fresh.Snapshot())
	for name := range want {
		if got[name] != want[name] {
			t.Fatalf("%s: %q after changes, %q from nothing", name, got[name], want[name])
		}
	}
	if len(got) != len(want) || table.Snapshot().Size() != len(got) {
		t.Fatalf("%d names (%d counted) after changes, %d from nothing", len(got), table.Snapshot().Size(), len(want))
	}
	checkExistence(t, table.Snapshot())
}

func newTable(t rapid.TB, cfg zone.Config) *zone.Table {
	table, err := zone.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func apply(t *rapid.T, table *zone.Table, batch []zone.Change, revision uint64) {
	if err := table.Apply(batch, revision); err != nil {
		t.Fatal(err)
	}
}

// checkExistence checks that every name below an apex has a parent, and that a name without sets
// has a name below it or is reserved.
func checkExistence(t *rapid.T, s *zone.Snapshot) {
	children := map[string]int{}
	for i := range s.Zones {
		for n := range s.Nodes(i) {
			if !s.IsApex(n) {
				children[zone.Parent(n.Name())]++
				if s.Get([]byte(zone.Parent(n.Name()))) == nil {
					t.Fatalf("%s has no parent", zone.Text(n.Name()))
				}
			}
		}
	}
	for i := range s.Zones {
		for n := range s.Nodes(i) {
			name := zone.Text(n.Name())
			if strings.HasSuffix(name, "arpa.") && !s.IsApex(n) && len(n.Sets()) == 0 && children[n.Name()] == 0 {
				t.Fatalf("%s exists for no reason", name)
			}
		}
	}
}

// TestSerial checks that the serial number changes with names, and not with revisions that change
// no name.
func TestSerial(t *testing.T) {
	table := dnstest.Table(t, config(zone.PodsDisabled, false), dnstest.Service("a/x", "10.0.0.1", "80"))
	first := table.Snapshot()
	dnstest.Apply(t, table, 2)
	dnstest.Apply(t, table, 3, dnstest.Service("a/x", "10.0.0.1", "80"))
	if s := table.Snapshot(); s.Serial != first.Serial || s.Revision != 3 {
		t.Errorf("serial %d, revision %d", s.Serial, s.Revision)
	}
	dnstest.Apply(t, table, 4, dnstest.Service("a/x", "10.0.0.2", "80"))
	if s := table.Snapshot(); s.Serial != 4 {
		t.Errorf("serial %d, want 4", s.Serial)
	}
}

// TestWeightsBeyondARecordAreTheLargest checks that a weight above 65535, the largest weight of an
// SRV record, becomes 65535 and not its lower 16 bits.
func TestWeightsBeyondARecordAreTheLargest(t *testing.T) {
	table := dnstest.Table(t, config(zone.PodsDisabled, false), dnstest.Service("a/x", "None", "80:http"),
		dnstest.Slice("a/x/s", "80:http/tcp", "10.0.0.1*65534", "10.0.0.2*65535", "10.0.0.3*65536", "10.0.0.4*2000000000"))
	name, err := zone.ParseName("_http._tcp.x.a.svc.cluster.local.")
	if err != nil {
		t.Fatal(err)
	}
	var got []uint16
	for r := range table.Snapshot().Get([]byte(name)).Set(dns.TypeSRV).SRVs() {
		got = append(got, r.Weight)
	}
	if want := []uint16{65534, 65535, 65535, 65535}; !slices.Equal(got, want) {
		t.Errorf("weights %d, want %d", got, want)
	}
}

// TestSRVSize checks that SRVSize is the size of the written records, with and without labels of
// endpoints.
func TestSRVSize(t *testing.T) {
	table := dnstest.Table(t, config(zone.PodsDisabled, false), dnstest.Service("a/x", "None"), dnstest.Service("a/y", "10.0.0.1", "80", "81"),
		dnstest.Slice("a/x/s", "80:http/tcp", "10.0.0.1=h", "10.0.0.200"))
	for service, labels := range map[string]string{"x": "\x01h\x0a10-0-0-200", "y": ""} {
		base, err := zone.ParseName(service + ".a.svc.cluster.local.")
		if err != nil {
			t.Fatal(err)
		}
		set := table.Snapshot().Get([]byte(base)).Set(dns.TypeSRV)
		const records, numbers = 2, 6 // sizes of priority, weight and port
		if got, want := set.SRVSize(base), records*(numbers+len(base))+len(labels); got != want || set.Count != records {
			t.Errorf("%s: %d bytes of %d records, want %d", service, got, set.Count, want)
		}
	}
}

// TestLabelsForProxiesDoNotConcernNames sets and removes the labels that take a service away from
// the agents, on a live service and its slice. The name must stay, because another proxy then
// forwards the cluster IP.
func TestLabelsForProxiesDoNotConcernNames(t *testing.T) {
	service := dnstest.Service("a/x", "10.0.0.1", "80:http")
	slice := dnstest.Slice("a/x/s", "80:http/tcp", "10.0.1.1")
	table := dnstest.Table(t, config(zone.PodsDisabled, false), service, slice)
	want := describe(table.Snapshot())
	for i, label := range []string{"service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"} {
		labelled, labelledSlice := object.Clone(service), object.Clone(slice)
		labelled.Metadata.Labels = map[string]string{label: "other"}
		labelledSlice.Metadata.Labels[label] = ""
		dnstest.Apply(t, table, uint64(2*i+2), labelled, labelledSlice)
		if got := describe(table.Snapshot()); !maps.Equal(got, want) {
			t.Errorf("with %s: %v, want %v", label, got, want)
		}
		dnstest.Apply(t, table, uint64(2*i+3), service, slice)
		if got := describe(table.Snapshot()); !maps.Equal(got, want) {
			t.Errorf("after %s: %v, want %v", label, got, want)
		}
	}
}

// TestPoolsMadeLaterHavePTRs gives a service an address outside of the reverse ranges, as if it
// came from a pool made since the start, and takes it away again.
func TestPoolsMadeLaterHavePTRs(t *testing.T) {
	table := dnstest.Table(t, config(zone.PodsDisabled, false), dnstest.Service("a/x", "10.0.0.1", "80"))
	before := describe(table.Snapshot())
	for i, text := range []string{"192.0.2.1", "2001:dc0::1"} {
		reverse := zone.ReverseName(netip.MustParseAddr(text))
		service := dnstest.Service("a/later", text, "80")
		dnstest.Apply(t, table, uint64(3*i+2), service)
		n := table.Snapshot().Get([]byte(reverse))
		if n == nil || n.Set(dns.TypePTR) == nil {
			t.Fatalf("%s has no PTR record", text)
		}
		if got := zone.Text(n.Set(dns.TypePTR).First()); got != "later.a.svc.cluster.local." {
			t.Errorf("%s is %s", text, got)
		}
		z, primary := table.Snapshot().ZoneAt(n.Zone(), "\x01x"+reverse), table.Snapshot().ZoneAt(0, "")
		if z.Name != reverse || z.MName != primary.MName || !z.Reverse || primary.Reverse {
			t.Errorf("%s is in zone %+v, the first one is %+v", text, z, primary)
		}
		name, err := zone.ParseName(zone.Text(reverse))
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Explain(name, dns.TypePTR); len(got) != 1 || !strings.Contains(got[0], "has the address as a cluster IP") {
			t.Errorf("explained as %q", got)
		}
		twin := dnstest.Service("a/twin", text, "80")
		dnstest.Apply(t, table, uint64(3*i+3), twin)
		dnstest.Delete(t, table, uint64(3*i+3), service)
		if got := zone.Text(table.Snapshot().Get([]byte(reverse)).Set(dns.TypePTR).First()); got != "twin.a.svc.cluster.local." {
			t.Errorf("%s is %s", text, got)
		}
		dnstest.Delete(t, table, uint64(3*i+4), twin)
		if got := describe(table.Snapshot()); !maps.Equal(got, before) || table.Snapshot().Size() != len(before) {
			t.Errorf("left behind: %v, before %v", got, before)
		}
	}
}

// TestReverseZones checks that a range that does not end on the boundary of a label is several
// zones, and that a range inside another is none.
func TestReverseZones(t *testing.T) {
	tests := []struct {
		ranges string
		want   []string
	}{
		{"10.96.0.0/16", []string{"96.10.in-addr.arpa."}},
		{"10.96.0.0/14", []string{"96.10.in-addr.arpa.", "97.10.in-addr.arpa.", "98.10.in-addr.arpa.", "99.10.in-addr.arpa."}},
		{"10.96.0.0/15,10.96.0.0/16,10.97.3.0/24", []string{"96.10.in-addr.arpa.", "97.10.in-addr.arpa."}},
		{"10.96.0.0/16,10.0.0.0/8", []string{"10.in-addr.arpa."}},
		{"10.0.0.0/31", []string{"0.0.0.10.in-addr.arpa.", "1.0.0.10.in-addr.arpa."}},
		{"2001:db8::/32", []string{"8.b.d.0.1.0.0.2.ip6.arpa."}},
		{"2001:db8::/31", []string{"8.b.d.0.1.0.0.2.ip6.arpa.", "9.b.d.0.1.0.0.2.ip6.arpa."}},
		{"2001:db8:8000::/33", []string{"8", "9", "a", "b", "c", "d", "e", "f"}},
	}
	for _, tt := range tests {
		cfg := zone.Config{Zones: []string{"z"}}
		for text := range strings.SplitSeq(tt.ranges, ",") {
			cfg.Reverse = append(cfg.Reverse, netip.MustParsePrefix(text))
		}
		table, err := zone.New(cfg)
		if err != nil {
			t.Errorf("%s: %v", tt.ranges, err)
			continue
		}
		var got []string
		for _, z := range table.Snapshot().Zones[1:] {
			got = append(got, zone.Text(z.Name))
		}
		slices.Sort(got)
		for i := range tt.want {
			if len(tt.want[i]) == 1 {
				tt.want[i] += ".8.b.d.0.1.0.0.2.ip6.arpa."
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.ranges, got, tt.want)
		}
	}
}

func TestDashed(t *testing.T) {
	for addr, want := range map[string]string{
		"10.1.2.3": "10-1-2-3", "2001:db8::1": "2001-db8--1", "2001:db8::": "2001-db8--0", "::1": "--1", "fe80::1%eth0": "fe80--1",
	} {
		if got := zone.Dashed(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

// FuzzNames checks that a parsed name stays the same when it is converted to text and parsed again.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"web.default.svc.cluster.local.", "WEB", ".", "", "a..b", `a\.b.c`, `\255\000.x`, strings.Repeat("a.", 127), strings.Repeat("x", 63) + ".y"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name, err := zone.ParseName(text)
		if err != nil {
			return
		}
		again, err := zone.ParseName(zone.Text(name))
		if err != nil || again != name {
			t.Errorf("%q: %q becomes %q, %v", text, name, again, err)
		}
		for rest := name; rest != ""; rest = zone.Parent(rest) {
			if !strings.HasSuffix(name, rest) {
				t.Errorf("%q: parent %q", name, rest)
			}
		}
		table, err := zone.New(zone.Config{Zones: []string{"z"}, Reverse: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Pods: zone.PodsInsecure})
		if err != nil {
			t.Fatal(err)
		}
		table.Explain(name, 1)
		table.Snapshot().InsecurePod(name)
	})
}
