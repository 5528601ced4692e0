package plan

import (
	"slices"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/spec"
)

// Choice is a candidate with the decision about it.
type Choice struct {
	Candidate
	Used   bool
	Reason string
}

// The reasons of choices, as shown to operators.
const (
	reasonReady       = "ready"
	reasonNotReady    = "not ready"
	reasonTerminating = "terminating"
	reasonFallback    = "terminating but serving: nothing else is ready"
	reasonOtherNode   = "on another node (policy Local)"
	reasonOtherZone   = "ready, but meant for other zones (topology hints)"
	reasonNotNear     = "ready, but meant for other nodes (topology hints)"
	reasonWeightZero  = "ready with weight 0: no new connections"
)

// selection is the result of a choice: the backends, and the decision about every candidate.
type selection struct {
	choices []Choice
	reals   []RealServer
}

// clusterPool chooses under traffic policy Cluster: all ready endpoints, or those that topology
// hints select if the hints are usable. If no endpoint is ready, it chooses endpoints that are
// terminating but still serving.
func clusterPool(all []Candidate, hinted bool, facts *Facts) selection {
	near := func(*Candidate) (bool, string) { return true, "" }
	if hinted {
		near = topologyFilter(all, facts)
	}
	return choosePool(all, near)
}

// localPool chooses under traffic policy Local: as clusterPool, but only among the endpoints of
// this node and without topology hints.
func localPool(all []Candidate, facts *Facts) selection {
	return choosePool(all, func(c *Candidate) (bool, string) { return c.Node == facts.Node, reasonOtherNode })
}

// choosePool uses the eligible endpoints that are ready. If there are none, it uses the eligible
// ones that are terminating but still serving.
func choosePool(all []Candidate, eligible func(*Candidate) (bool, string)) selection {
	p := selection{choices: make([]Choice, len(all))}
	anyReady := slices.ContainsFunc(all, func(c Candidate) bool {
		ok, _ := eligible(&c)
		return ok && c.Ready
	})
	for i := range all {
		c := &all[i]
		used, reason := explainChoice(c, eligible, anyReady)
		p.choices[i] = Choice{Candidate: *c, Used: used, Reason: reason}
		if used {
			if p.reals == nil { // the upper bound, allocated once because large services have many backends
				p.reals = make([]RealServer, 0, len(all)-i)
			}
			p.reals = append(p.reals, RealServer{Addr: c.Addr, Weight: c.Weight})
		}
	}
	return p
}

func explainChoice(c *Candidate, eligible func(*Candidate) (bool, string), anyReady bool) (used bool, reason string) {
	if ok, why := eligible(c); !ok {
		if !c.Ready && why != reasonOtherNode {
			return false, notReady(c)
		}
		return false, why
	}
	switch {
	case c.Ready && c.Weight == 0:
		return true, reasonWeightZero
	case c.Ready:
		return true, reasonReady
	case c.servingTerminating() && !anyReady:
		return true, reasonFallback
	}
	return false, notReady(c)
}

func notReady(c *Candidate) string {
	if c.Terminating {
		return reasonTerminating
	}
	return reasonNotReady
}

// hintsWanted reports whether the service asks for topology-aware routing.
func hintsWanted(svc *corev1.Service) bool {
	return spec.TopologyAuto(svc) ||
		svc.GetSpec().GetTrafficDistribution() != corev1.TrafficDistribution_TRAFFIC_DISTRIBUTION_UNSPECIFIED
}

// topologyFilter returns the predicate that the topology hints stand for. Hints are used only if
// every ready endpoint has one and at least one of them names this node or zone. Otherwise hints
// that are only partly written could leave a node or zone without backends.
func topologyFilter(all []Candidate, facts *Facts) func(*Candidate) (bool, string) {
	byNode := func(c *Candidate) []string { return c.forNodes }
	byZone := func(c *Candidate) []string { return c.forZones }
	switch {
	case hintsUsable(all, byNode, facts.Node):
		return func(c *Candidate) (bool, string) {
			return !c.Ready || slices.Contains(c.forNodes, facts.Node), reasonNotNear
		}
	case hintsUsable(all, byZone, facts.Zone):
		return func(c *Candidate) (bool, string) {
			return !c.Ready || slices.Contains(c.forZones, facts.Zone), reasonOtherZone
		}
	}
	return func(*Candidate) (bool, string) { return true, "" }
}

func hintsUsable(all []Candidate, hints func(*Candidate) []string, place string) bool {
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
