package plan

import (
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/endpoints"
	"portolan.dev/services/spec"
)

// The reasons of policies, as shown to operators.
const (
	reasonOtherNode = "on another node (policy Local)"
	reasonOtherZone = "ready, but meant for other zones (topology hints)"
	reasonNotNear   = "ready, but meant for other nodes (topology hints)"
)

// selection is the result of a choice: the backends, and the decision about every candidate.
type selection struct {
	choices []endpoints.Choice
	reals   []RealServer
}

// clusterPool chooses under traffic policy Cluster: all ready endpoints, or those that topology
// hints select if the hints are usable. If no endpoint is ready, it chooses endpoints that are
// terminating but still serving.
func clusterPool(all []endpoints.Candidate, hinted bool, facts *Facts) selection {
	near := endpoints.Filter(endpoints.All)
	if hinted {
		near = topologyFilter(all, facts)
	}
	return choosePool(all, near)
}

// localPool chooses under traffic policy Local: as clusterPool, but only among the endpoints of
// this node and without topology hints.
func localPool(all []endpoints.Candidate, facts *Facts) selection {
	return choosePool(all, func(c *endpoints.Candidate) (bool, string, bool) { return c.Node == facts.Node, reasonOtherNode, true })
}

// choosePool makes real servers of the candidates that are used.
func choosePool(all []endpoints.Candidate, admits endpoints.Filter) selection {
	p := selection{choices: endpoints.Choose(all, admits)}
	for i := range p.choices {
		if c := &p.choices[i]; c.Used {
			if p.reals == nil { // the upper bound, allocated once because large services have many backends
				p.reals = make([]RealServer, 0, len(all)-i)
			}
			p.reals = append(p.reals, RealServer{Addr: c.Addr, Weight: c.Weight})
		}
	}
	return p
}

// hintsWanted reports whether the service asks for topology-aware routing.
func hintsWanted(svc *corev1.Service) bool {
	return spec.TopologyAuto(svc) ||
		svc.GetSpec().GetTrafficDistribution() != corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_UNSPECIFIED
}

// topologyFilter returns the predicate that the topology hints stand for. Hints are used only if
// every ready endpoint has one and at least one of them names this node or zone. Otherwise hints
// that are only partly written could leave a node or zone without backends.
func topologyFilter(all []endpoints.Candidate, facts *Facts) endpoints.Filter {
	byNode := func(c *endpoints.Candidate) []string { return c.ForNodes }
	byZone := func(c *endpoints.Candidate) []string { return c.ForZones }
	switch {
	case hintsUsable(all, byNode, facts.Node):
		return func(c *endpoints.Candidate) (bool, string, bool) {
			return !c.Ready || slices.Contains(c.ForNodes, facts.Node), reasonNotNear, false
		}
	case hintsUsable(all, byZone, facts.Zone):
		return func(c *endpoints.Candidate) (bool, string, bool) {
			return !c.Ready || slices.Contains(c.ForZones, facts.Zone), reasonOtherZone, false
		}
	}
	return endpoints.All
}

func hintsUsable(all []endpoints.Candidate, hints func(*endpoints.Candidate) []string, place string) bool {
	found := false
	for i := range all {
		if c := &all[i]; c.Ready {
			if len(hints(c)) == 0 {
				return false
			}
			found = found || slices.Contains(hints(c), place)
		}
	}
	return found && place != ""
}
