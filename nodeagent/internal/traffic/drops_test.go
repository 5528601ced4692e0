package traffic_test

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/dataplane/packetfilter"
	"portolan.dev/nodeagent/internal/traffic"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// droppers is a data plane with a given list of dropped packets.
type droppers struct{ list []kernelmode.Drop }

func (d *droppers) Drops() ([]kernelmode.Drop, error) { return d.list, nil }

func dropped(service string, set packetfilter.Set, reason string, packets uint64) kernelmode.Drop {
	return kernelmode.Drop{
		Frontend: plan.Frontend{Addr: netip.MustParseAddrPort("203.0.113.1:80"), Protocol: plan.TCP}, Set: string(set), Reason: reason, Packets: packets,
		Service: object.Name{Namespace: "default", Name: service}, PortName: "http",
	}
}

// TestDropMetrics checks that the sums by port and reason continue when the kernel's counters
// restart, and that only the ports with the most packets have series.
func TestDropMetrics(t *testing.T) {
	d, reg := &droppers{}, prometheus.NewRegistry()
	traffic.Register(reg, d, 2, kittest.Logger(t))
	const name = "dropped_packets_total "
	for i, step := range []struct {
		list []kernelmode.Drop
		want map[string]float64
	}{
		{nil, map[string]float64{}},
		{[]kernelmode.Drop{dropped("a", packetfilter.DeniedSet, "source_range", 3), dropped("a", packetfilter.LimitNode, "source_range", 2)},
			map[string]float64{name + "default http TCP source_range a": 5}},
		{[]kernelmode.Drop{dropped("a", packetfilter.DeniedSet, "source_range", 1), dropped("a", packetfilter.LimitNode, "source_range", 2)},
			map[string]float64{name + "default http TCP source_range a": 6}},
		{[]kernelmode.Drop{
			dropped("a", packetfilter.DeniedSet, "source_range", 1), dropped("b", packetfilter.DropOutside, "no_backend", 9), dropped("c", packetfilter.DropOutside, "no_backend", 99),
		}, map[string]float64{name + "default http TCP no_backend c": 99, name + "default http TCP no_backend b": 9}},
	} {
		d.list = step.list
		step.want["ports_without_traffic_metrics"] = 0
		if got := series(t, reg); !maps.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
}
