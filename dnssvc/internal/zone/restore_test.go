package zone_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/miekg/dns"
	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/zone"
	"portolan.dev/services/object"
)

// TestRestoredTableHasTheSameNames checks that the objects of Objects make the same names in
// another table, and that objects absent from the first batch of changes are removed by it.
func TestRestoredTableHasTheSameNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := config(rapid.SampledFrom([]zone.PodMode{zone.PodsDisabled, zone.PodsVerified}).Draw(t, "pods"), rapid.Bool().Draw(t, "empty exists"))
		draw := func(label string) []zone.Change {
			byKey := map[object.Key]zone.Change{}
			for range rapid.IntRange(0, 12).Draw(t, label) {
				o := drawObject(t)
				byKey[object.KeyOf(o)] = zone.Change{Object: o}
			}
			return slices.Collect(maps.Values(byKey))
		}
		was, restored, fresh := newTable(t, cfg), newTable(t, cfg), newTable(t, cfg)
		apply(t, was, draw("before"), 7)
		objects, revision := was.Objects()
		if err := restored.Restore(slices.Collect(objects), revision); err != nil {
			t.Fatal(err)
		}
		if s := restored.Snapshot(); s.Synced || s.Revision != 7 || s.Serial != 7 {
			t.Fatalf("synced %v, revision %d, serial %d", s.Synced, s.Revision, s.Serial)
		}
		if got, want := describe(restored.Snapshot()), describe(was.Snapshot()); !maps.Equal(got, want) {
			t.Fatalf("restored %v\nwas %v", got, want)
		}
		now := draw("now")
		apply(t, restored, now, 9)
		apply(t, fresh, now, 9)
		if got, want := describe(restored.Snapshot()), describe(fresh.Snapshot()); !maps.Equal(got, want) {
			t.Fatalf("after the first changes %v\nfrom nothing %v", got, want)
		}
		if s := restored.Snapshot(); !s.Synced || s.Size() != fresh.Snapshot().Size() {
			t.Fatalf("synced %v, %d names", s.Synced, s.Size())
		}
		checkExistence(t, restored.Snapshot())
	})
}

// TestRestoredKeepsDetails checks that hostnames, weights, ports and endpoints that are only
// published survive Restore.
func TestRestoredKeepsDetails(t *testing.T) {
	cfg := config(zone.PodsDisabled, false)
	was := dnstest.Table(t, cfg,
		dnstest.Service("a/x", "None"), dnstest.Service("a/e", "=db.example."), dnstest.Service("a/y", "10.0.0.9", "53:dns/udp", "132:s/sctp"),
		dnstest.Slice("a/x/s", "80:http/tcp", "53:dns/udp", "10.0.0.1=h*7", "~10.0.0.2*3", "10.0.0.3*1", "!10.0.0.4"))
	objects, revision := was.Objects()
	again, err := zone.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Restore(slices.Collect(objects), revision); err != nil {
		t.Fatal(err)
	}
	if got, want := describe(again.Snapshot()), describe(was.Snapshot()); !maps.Equal(got, want) {
		t.Errorf("restored %v\nwas %v", got, want)
	}
	name, err := zone.ParseName("x.a.svc.cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := again.Explain(name, dns.TypeA), was.Explain(name, dns.TypeA); !slices.Equal(got[:1], want[:1]) {
		t.Errorf("explained as %q, was %q", got, want)
	}
}

// TestRestoreThatFailsLeavesNothing checks that a failed Restore leaves the table as New made it.
func TestRestoreThatFailsLeavesNothing(t *testing.T) {
	cfg := config(zone.PodsDisabled, false)
	table, err := zone.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	objects := []object.Object{dnstest.Namespace("a"), dnstest.Namespace("b"), dnstest.Service("a/web", "10.0.0.1", "80")}
	if err := table.Restore(append(objects[:3:3], &corev1.Node{}), 5); err == nil {
		t.Error("a Node was restored")
	}
	if err := table.Restore(objects[1:], 6); err != nil {
		t.Fatal(err)
	}
	dnstest.Apply(t, table, 7, objects...)
	if got, want := describe(table.Snapshot()), describe(dnstest.Table(t, cfg, objects...).Snapshot()); !maps.Equal(got, want) {
		t.Errorf("after the first changes %v\nfrom nothing %v", got, want)
	}
}

// TestRestoredViewIsBelievedOrForgotten checks that a restored view is incomplete until Believe,
// and that Believe and Forget leave the registry's view alone.
func TestRestoredViewIsBelievedOrForgotten(t *testing.T) {
	web := []object.Object{dnstest.Service("a/web", "10.0.0.1", "80")}
	restored := func() *zone.Table {
		table, err := zone.New(config(zone.PodsDisabled, false))
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Restore(web, 5); err != nil {
			t.Fatal(err)
		}
		return table
	}
	table := restored()
	names := table.Snapshot().Size()
	if err := table.Restore(web, 6); err == nil {
		t.Error("restored twice")
	}
	table.TrustRestored()
	if s := table.Snapshot(); !s.Synced || s.Size() != names {
		t.Errorf("believed: synced %v, %d names of %d", s.Synced, s.Size(), names)
	}
	table.DropRestored()
	if s := table.Snapshot(); s.Synced || s.Size() >= names || s.Revision != 0 {
		t.Errorf("forgotten: synced %v, %d names, revision %d", s.Synced, s.Size(), s.Revision)
	}
	table = restored()
	dnstest.Apply(t, table, 8, web...)
	table.DropRestored()
	if s := table.Snapshot(); !s.Synced || s.Size() != names || s.Revision != 8 {
		t.Errorf("the registry's view was forgotten: synced %v, %d names, revision %d", s.Synced, s.Size(), s.Revision)
	}
	fresh, err := zone.New(config(zone.PodsDisabled, false))
	if err != nil {
		t.Fatal(err)
	}
	fresh.TrustRestored()
	if fresh.Snapshot().Synced {
		t.Error("an empty table was believed")
	}
}
