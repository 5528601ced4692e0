package dataplanetest

import (
	"time"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/plan"
)

// audiences returns the scenarios in which internal and external clients have different backends.
func audiences() []Scenario {
	return []Scenario{
		{Name: "internal and external clients have backends of their own", V6: Sources6, Backends: 2, Do: []Action{
			Program{{Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External, Masquerade: MasqueradeNone, Weights: each(1)}},
			Ask{Client: in0, Times: 3, Want: Weights{0: 3}, Sees: Hidden},
			Ask{Client: node0, Times: 3, Want: Weights{0: 3}},
			Ask{Client: out0, Times: 3, Want: Weights{1: 3}, Sees: Own},
		}},
		{Name: "affinity of internal and external clients", V6: Sources6, Backends: 4, Do: []Action{
			Program{{Audience: plan.Internal, Affinity: long, Weights: each(0, 1)}, {Audience: plan.External, Affinity: long, Weights: each(2, 3)}},
			AskAmong{Clients: 4, Times: 3, Sticky: true, AtLeast: 1, Not: []int{2, 3}},
			AskAmong{From: Outside, Clients: 4, Times: 3, Sticky: true, AtLeast: 1, Not: []int{0, 1}},
		}},
		{Name: "who is inside follows the ranges of pods", Over: onlyTCP, V6: Sources6, Backends: 2, Do: []Action{
			Program{{Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External, Weights: each(1)}},
			Ask{Client: in0, Times: 2, Want: Weights{0: 2}},
			WithoutPodRanges{},
			Program{{Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External, Weights: each(1)}},
			Ask{Client: in0, Times: 2, Want: Weights{1: 2}},
			Ask{Client: node0, Times: 2, Want: Weights{0: 2}},
		}},
		{Name: "nothing here for clients outside", V6: Sources6, Backends: 1, Do: []Action{
			Program{{Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External, NoBackends: plan.Drop}},
			Ask{Client: in0, Want: each(0)},
			Dropped{Client: out0},
			Program{{Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External, NoBackends: plan.Drop, Weights: each(0)}},
			Ask{Client: out0, Want: each(0)},
		}},
		{Name: "the policy changes in place", Backends: 2, Do: []Action{
			Program{{Weights: each(0, 1)}},
			Ask{Client: out0, Times: 2, Want: each(0, 1)},
			Program{{Audience: plan.Internal, Weights: each(0, 1)}, {Audience: plan.External, Weights: each(1)}},
			Ask{Client: out0, Times: 2, Want: Weights{1: 2}},
			Ask{Client: in0, Times: 2, Want: each(0, 1)},
			Program{{Weights: each(0)}},
			Ask{Client: out0, Times: 2, Want: Weights{0: 2}},
		}},
		{Name: "a change of the policy breaks no connection to a backend that stays", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Drain: long, Weights: each(0)}},
			Open{Conn: "stays", Want: []int{0}},
			Program{{Drain: long, Weights: each(1)}}, // 0 comes back before it has drained, even on a slow machine
			Open{Conn: "goes", Want: []int{1}},
			Program{{Drain: time.Second, Weights: each(0, 1)}},
			Program{{Drain: time.Second, Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External}},
			Cut{Conn: "goes"},
			Continue{Conn: "stays"},
		}},
	}
}

const (
	cluster = corev1.TrafficPolicy_TRAFFIC_POLICY_CLUSTER
	local   = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL
)

// situation is the distribution of a service's backends. Here are the backends that policy Local
// may choose, and all those that policy Cluster may choose.
type situation struct {
	name      string
	endpoints []Endpoint
	all, here []int
}

// situations have backend 0 on this node and backend 1 on another.
var situations = []situation{
	{"local and remote", []Endpoint{{0, true, Ready}, {1, false, Ready}}, []int{0, 1}, []int{0}},
	{"local", []Endpoint{{0, true, Ready}}, []int{0}, []int{0}},
	{"remote", []Endpoint{{1, false, Ready}}, []int{1}, nil},
	{"none", []Endpoint{{0, true, Down}, {1, false, Down}}, nil, nil},
	{"local leaving", []Endpoint{{0, true, Leaving}}, []int{0}, []int{0}},
	{"local leaving, remote", []Endpoint{{0, true, Leaving}, {1, false, Ready}}, []int{1}, []int{0}},
	{"remote leaving", []Endpoint{{0, true, Down}, {1, false, Leaving}}, []int{1}, nil},
}

// policies returns the matrix of traffic policies, backends and clients, with the plans of the node
// agent.
func policies() []Scenario {
	var out []Scenario
	for _, s := range situations {
		sc := Scenario{Name: "policies, backends " + s.name, Over: onlyTCP, Backends: 2}
		for _, internal := range []corev1.TrafficPolicy{cluster, local} {
			for _, external := range []corev1.TrafficPolicy{cluster, local} {
				sc.Do = append(sc.Do, Deploy{Internal: internal, External: external, Endpoints: s.endpoints})
				sc.Do = append(sc.Do, s.expect(internal, external)...)
			}
		}
		out = append(out, sc)
	}
	return append(out, Scenario{Name: "node ports are served at chosen addresses", Over: onlyTCP, V6: Sources6, Backends: 1, Do: []Action{
		Deploy{Internal: cluster, External: cluster, Endpoints: situations[1].endpoints, NodeAddrs: []int{0}},
		AtNode{Client: out0, Addr: 0, Want: []int{0}},
		AtNode{Client: node0, Addr: 0, Want: []int{0}},
		AtNode{Client: out0, Addr: 1},
		Deploy{Internal: cluster, External: cluster, Endpoints: situations[1].endpoints, NodeAddrs: []int{0, 1}},
		AtNode{Client: out0, Addr: 1, Want: []int{0}},
		Deploy{Internal: cluster, External: local, Endpoints: situations[1].endpoints, NodeAddrs: []int{1}},
		AtNode{Client: out0, Addr: 0},
		AtNode{Client: out0, Addr: 1, Want: []int{0}},
		AtNode{Client: in0, Addr: 1, Want: []int{0}},
	}})
}

// sight returns the source address that backends see of a client. If all is true, the frontend
// hides the addresses of all clients.
func sight(c Client, all bool) SourceSeen {
	switch {
	case c.From == Node: // the kernel chooses its address
		return Anything
	case all || c.From == Outside:
		return Hidden
	}
	return Own
}

// expect returns the actions that check the expectations. Internal traffic policy Local applies to
// the cluster IP. External traffic policy Local applies to the other frontends, and only to
// external clients: internal clients are served by all backends, and pods with their own addresses.
// If there are no backends on this node but on others, external clients get no answer, so that a
// load balancer tries another node.
func (s situation) expect(internal, external corev1.TrafficPolicy) []Action {
	var out []Action
	add := func(c Client, frontend string, from []int, none Action, sees SourceSeen) {
		if len(from) == 0 {
			out = append(out, none)
			return
		}
		want := Weights{}
		for _, n := range from {
			want[n] = 1
		}
		out = append(out, Ask{Client: c, Frontend: frontend, Times: len(from), Want: want, Sees: sees})
	}
	for _, c := range []Client{node0, in0, out0} {
		inner := s.all
		if internal == local {
			inner = s.here
		}
		add(c, clusterIP, inner, Refused{c, clusterIP}, sight(c, false))
		for _, frontend := range []string{externalIP, loadBalancerIP, nodePort} {
			switch {
			case external == cluster || c.From != Outside:
				add(c, frontend, s.all, Refused{c, frontend}, sight(c, external == cluster))
			case len(s.all) > 0:
				add(c, frontend, s.here, Dropped{c, frontend}, Own)
			default:
				add(c, frontend, nil, Refused{c, frontend}, Own)
			}
		}
	}
	return out
}
