package zone_test

import (
	"fmt"
	"testing"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/zone"
)

// servicesAndSlices returns services with cluster IPs, each with a slice of three endpoints.
func servicesAndSlices(n int) (changes []zone.Change) {
	for i := range n {
		name := fmt.Sprintf("ns%d/s%d", i%50, i)
		ip := func(third int) string { return fmt.Sprintf("10.%d.%d.%d", third, i/200, i%200) }
		changes = append(changes,
			zone.Change{Object: dnstest.Service(name, ip(0), "80:http", "53:dns/udp")},
			zone.Change{Object: dnstest.Slice(name+"/1", "80:http/tcp", ip(1), ip(2), ip(3))})
	}
	return changes
}

// BenchmarkApply measures the first snapshot, and a change of one slice in a batch of its own.
func BenchmarkApply(b *testing.B) {
	objects := servicesAndSlices(10_000)
	b.Run("snapshot", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			table := newTable(b, config(zone.PodsDisabled, false))
			if err := table.Apply(objects, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("change", func(b *testing.B) {
		table := newTable(b, config(zone.PodsDisabled, false))
		if err := table.Apply(objects, 1); err != nil {
			b.Fatal(err)
		}
		versions := [2]zone.Change{objects[1], {Object: dnstest.Slice("ns0/s0/1", "80:http/tcp", "10.9.0.1", "10.9.0.2")}}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := table.Apply(versions[i%2:i%2+1], uint64(i)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
