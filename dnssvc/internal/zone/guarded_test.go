package zone

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/guard/guardtest"
	"portolan.dev/services/object"
)

func namespaceObject(name string) *corev1.Namespace {
	return &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: name}}
}

// serviceObject returns a service with a port and a cluster IP, or a headless one.
func serviceObject(namespace, name, ip string) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:     &corev1.ServiceSpec{ClusterIp: ip, ClusterIps: []string{ip}, Ports: []*corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}}},
	}
}

func sliceObject(namespace, service string, ips ...string) *corev1.EndpointSlice {
	name, port := "http", int32(80)
	s := &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{Namespace: namespace, Name: service + "-1", Labels: map[string]string{object.LabelServiceName: service}},
		Ports:    []*corev1.EndpointPort{{Name: &name, Port: &port, Protocol: corev1.Protocol_PROTOCOL_TCP}},
	}
	for _, ip := range ips {
		s.Endpoints = append(s.Endpoints, &corev1.Endpoint{Addresses: []string{ip}})
	}
	return s
}

func podObject(namespace, name, ip string) *corev1.Pod {
	return &corev1.Pod{Metadata: &corev1.ObjectMeta{Namespace: namespace, Name: name}, Status: &corev1.PodStatus{PodIps: []string{ip}}}
}

// TestRollbackRestoresTheTree makes random edits in groups, and takes some groups back.
func TestRollbackRestoresTheTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &edit{gen: 1}
		want := map[string]*Node{}
		for range rapid.IntRange(1, 10).Draw(t, "groups") {
			before := maps.Clone(want)
			e.begin()
			for range rapid.IntRange(0, 20).Draw(t, "edits") {
				name := string(rune('a'+rapid.IntRange(0, 15).Draw(t, "name"))) + "\x00"
				if rapid.Bool().Draw(t, "put") {
					want[name] = &Node{name: name}
					e.put(want[name])
				} else {
					delete(want, name)
					e.delete(name)
				}
			}
			if rapid.Bool().Draw(t, "roll back") {
				e.rollback()
				want = before
			}
			have := map[string]*Node{}
			for n := range e.all() {
				have[n.name] = n
			}
			if !maps.Equal(have, want) || e.size != len(want) {
				t.Fatalf("%d nodes %v, want %v", e.size, have, want)
			}
		}
	})
}

// guardedTable returns a table under a guard, with the given objects.
func guardedTable(t *testing.T, changes ...Change) (*Table, *guardtest.World) {
	t.Helper()
	w := guardtest.New(t)
	table, err := New(Config{Zones: []string{"cluster.local"}, Pods: PodsVerified, Reverse: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Guard: w.Guard})
	if err != nil {
		t.Fatal(err)
	}
	must(t, table.Apply(changes, 1))
	return table, w
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// names returns the sorted names of a snapshot that contain a text, with their sets.
func names(s *Snapshot, part string) string {
	var all []string
	for n := range s.Nodes(0) {
		if name := Text(n.Name()); strings.Contains(name, part) {
			all = append(all, fmt.Sprint(name, " ", n.Sets()))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// TestAServiceThatPanicsKeepsItsNames lets the publishing of one service panic in the middle: its parent is missing,
// so that the last of its names cannot be removed. No name is half changed, and names of other services change.
func TestAServiceThatPanicsKeepsItsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := []Change{{Object: serviceObject("x", "bad", "None")}, {Object: sliceObject("x", "bad", "10.0.0.1", "10.0.0.2")}}
		table, w := guardedTable(t, append(bad, Change{Object: serviceObject("y", "web", "10.0.0.9")})...)
		before, other := names(table.Snapshot(), "bad.x"), names(table.Snapshot(), "web.y")
		parent := Parent(label("bad") + label("x") + svcLabel + table.zones[0].Name)
		broken := *table.Snapshot()
		e := &edit{tree: broken.tree, gen: table.nextGen()}
		node := e.get(parent)
		e.delete(parent)
		broken.tree = e.tree
		table.current.Store(&broken)

		deletions := []Change{{Object: bad[0].Object, Deleted: true}, {Object: bad[1].Object, Deleted: true}}
		must(t, table.Apply(append(deletions, Change{Object: serviceObject("y", "web", "10.0.0.8")}), 2))
		if got := names(table.Snapshot(), "bad.x"); got != before {
			t.Errorf("the names are\n%s\nwant\n%s", got, before)
		}
		if names(table.Snapshot(), "web.y") == other {
			t.Errorf("the other names are %s as before", other)
		}
		w.Want("Service x/bad")

		mended := *table.Snapshot()
		e = &edit{tree: mended.tree, gen: table.nextGen()}
		e.put(node)
		mended.tree = e.tree
		table.current.Store(&mended)
		time.Sleep(2 * retryNames)
		must(t, table.Apply(nil, 3))
		if got := names(table.Snapshot(), "bad.x"); got != "" {
			t.Errorf("the names are %s after the retry", got)
		}
		w.Want()
	})
}

// TestTablesAfterPanicsAreAsWithout lets random work panic, and then applies each object once more. The names are those
// of a table without panics.
func TestTablesAfterPanicsAreAsWithout(t *testing.T) {
	objects := func(version int) []Change {
		ip := fmt.Sprintf("10.0.%d.1", version)
		return []Change{
			{Object: namespaceObject("x"), Deleted: version == 2}, {Object: serviceObject("x", "a", ip), Deleted: version == 3},
			{Object: serviceObject("x", "b", "None")}, {Object: sliceObject("x", "b", ip)},
			{Object: podObject("x", "p", ip), Deleted: version == 3}, {Object: podObject("x", "q", "10.0.1.1")},
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		table, w := guardedTable(t)
		last := 1
		for revision := uint64(2); revision < 8; revision++ {
			broken := rapid.SliceOfN(rapid.Bool(), 12, 12).Draw(rt, "broken")
			calls := 0
			w.Break(func(string, guard.Object) bool { calls++; return calls <= len(broken) && broken[calls-1] })
			last = rapid.IntRange(1, 3).Draw(rt, "version")
			must(t, table.Apply(objects(last), revision))
		}
		w.Mend()
		must(t, table.Apply(objects(last), 9))
		plain, _ := guardedTable(t, objects(last)...)
		for _, zone := range []int{0, 1, AddressZone} {
			have, want := nodesOf(table.Snapshot(), zone), nodesOf(plain.Snapshot(), zone)
			if !maps.Equal(have, want) {
				rt.Fatalf("zone %d: names\n%v\nwant\n%v", zone, have, want)
			}
		}
	})
}

func nodesOf(s *Snapshot, zone int) map[string]string {
	all := map[string]string{}
	for n := range s.Nodes(zone) {
		all[Text(n.Name())] = fmt.Sprint(n.Sets())
	}
	return all
}
