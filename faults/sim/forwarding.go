package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"

	"portolan.dev/faults/sim/machine"
	"portolan.dev/faults/sim/registry"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

type (
	kernelID     = kernel.ID
	metricFamily = dto.MetricFamily
)

// forwarding checks what the kernel of a node has.
type forwarding struct {
	registry   *registry.Registry
	courses    *courses
	violations []error
}

func newForwarding(r *registry.Registry, name string, addresses []netip.Addr) *forwarding {
	facts := plan.Facts{Node: name, NodePorts: addresses, Scheduler: plan.RoundRobin, Drain: drainTimeout}
	return &forwarding{registry: r, courses: newCourses(facts)}
}

// changed looks at a server that has changed.
func (f *forwarding) changed(*machine.Server) {}

// keyOf returns the key of a server.
func keyOf(id kernel.ID) serverKey { return serverKey{at: id.For, standIn: id.For != id.Frontend} }

// difference returns how the kernel at rest differs from the plan of the log's head.
func (f *forwarding) difference(servers []machine.Server) string {
	f.courses.extend(f.registry.History())
	have := map[serverKey]machine.Server{}
	for _, s := range servers {
		have[keyOf(s.ID)] = s
		f.courses.versions(keyOf(s.ID))
	}
	var lines []string
	for key, versions := range f.courses.of {
		got, want := "none", "none"
		if last := versions[len(versions)-1]; last.there {
			want = describeWeights(last.weights)
		}
		if s, ok := have[key]; ok {
			got = describeWeights(weightsOf(&s, true))
		}
		if got != want {
			lines = append(lines, fmt.Sprintf("%s: have %s, want %s\n", key, got, want))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// weightsOf returns the weights of a server's backends. Those that have been drained are left out, unless all are wanted.
func weightsOf(s *machine.Server, all bool) map[netip.AddrPort]uint32 {
	weights := map[netip.AddrPort]uint32{}
	for at, b := range s.Backends {
		if all || b.Weight > 0 {
			weights[at] = b.Weight
		}
	}
	return weights
}

func describeWeights(weights map[netip.AddrPort]uint32) string {
	var all []string
	for at, weight := range weights {
		all = append(all, fmt.Sprintf("%s:%d", at, weight))
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

// String names the server.
func (k serverKey) String() string {
	if k.standIn {
		return k.at.String() + " for clients outside"
	}
	return k.at.String()
}
