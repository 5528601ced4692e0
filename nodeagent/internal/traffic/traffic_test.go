package traffic_test

import (
	"errors"
	"maps"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/internal/traffic"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// counters is a data plane with given counters.
type counters struct {
	list  []kernelmode.Counted
	err   error
	asked int
}

func (c *counters) Traffic() ([]kernelmode.Counted, error) {
	c.asked++
	return c.list, c.err
}

// counted returns the traffic of one address of a service.
func counted(service string, address byte, connections uint64) kernelmode.Counted {
	return kernelmode.Counted{
		Server:  plan.Frontend{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 96, 0, address}), 80), Protocol: plan.TCP},
		Service: object.Name{Namespace: "default", Name: service}, PortName: "http",
		Traffic: kernelmode.Traffic{Connections: connections, PacketsIn: 10 * connections, BytesOut: 100 * connections},
	}
}

// series returns the values of all metrics of traffic, by name and labels.
func series(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()[len("portolan_nodeagent_service_"):]
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}

// TestTrafficMetrics checks the sums over the addresses of a port, of the busiest ports only. They
// never decrease while the port exists.
func TestTrafficMetrics(t *testing.T) {
	plane, reg := &counters{}, prometheus.NewRegistry()
	traffic.Register(reg, plane, 2, kittest.Logger(t))
	if plane.asked != 0 {
		t.Error("the data plane is asked before anybody wants to know")
	}
	expect := func(what string, omitted float64, connections map[string]float64) {
		t.Helper()
		want := map[string]float64{"ports_without_traffic_metrics": omitted}
		for service, n := range connections {
			// The values of the labels are in the order of their names: namespace, port, protocol,
			// service.
			labels := " http TCP " + service
			want["connections_total default"+labels] = n
			want["packets_total in default"+labels], want["packets_total out default"+labels] = 10*n, 0
			want["bytes_total in default"+labels], want["bytes_total out default"+labels] = 0, 100*n
		}
		if got := series(t, reg); !maps.Equal(got, want) {
			t.Errorf("%s:\n%v, want\n%v", what, got, want)
		}
	}
	expect("nothing there", 0, nil)
	plane.list = []kernelmode.Counted{counted("a", 1, 5), counted("a", 2, 5), counted("b", 3, 7), counted("c", 4, 1)}
	expect("two of three", 1, map[string]float64{"a": 10, "b": 7})
	plane.list = []kernelmode.Counted{counted("a", 1, 6), counted("b", 3, 7), counted("c", 4, 9)}
	expect("one address less", 1, map[string]float64{"a": 11, "c": 9})
	plane.list = []kernelmode.Counted{counted("a", 1, 2), counted("b", 3, 7), counted("c", 4, 9)}
	expect("a server made anew", 1, map[string]float64{"a": 13, "c": 9})
	plane.err = errors.New("the kernel does not answer")
	expect("unread", 1, map[string]float64{"a": 13, "c": 9})
	plane.err = nil
	plane.list = []kernelmode.Counted{counted("b", 3, 8)}
	expect("two services less", 0, map[string]float64{"b": 8})
}

// TestNoTrafficMetrics checks that there are no series if none are configured, or if the data plane
// counts nothing.
func TestNoTrafficMetrics(t *testing.T) {
	plane, reg := &counters{list: []kernelmode.Counted{counted("a", 1, 5)}}, prometheus.NewRegistry()
	traffic.Register(reg, plane, 0, kittest.Logger(t))
	if got := series(t, reg); len(got) > 0 || plane.asked > 0 {
		t.Errorf("%v, asked %d times", got, plane.asked)
	}
	traffic.Register(reg, struct{}{}, 10, kittest.Logger(t))
	if got := series(t, reg); !maps.Equal(got, map[string]float64{"ports_without_traffic_metrics": 0}) {
		t.Error(got)
	}
}
