package announce

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/statestream"
)

// The limits of a message.
const (
	maxAddresses = 4096
	maxSubnets   = 256
	maxName      = 253 // bytes of the name of a node
	maxInstance  = 64
)

// stream is an open stream of an agent.
type stream struct {
	*statestream.Stream
	number uint64
	node   string // empty before the first message; guarded by the server's mu
}

// accept checks a message of a stream and passes it to the assigner.
func (s *Server) accept(ctx context.Context, st *stream, request *loadbalancerv1.AnnounceRequest) error {
	// Without certificates there is no identity, and each caller may be any node.
	if id, err := identity.Caller(ctx); err == nil && (id.Role != identity.NodeAgent || id.Name != request.GetNode()) {
		return apierr.PermissionDenied(fmt.Sprintf("node: %s may not announce addresses for node %q: use the certificate of nodeagent/%s", id, request.GetNode(), request.GetNode()))
	}
	m, violations := parseMessage(request)
	if len(violations) > 0 {
		return apierr.Invalid("AnnounceRequest", request.GetNode(), violations)
	}
	return s.receive(st, m)
}

// parseMessage converts a message into the form of this package, and returns all violations of the limits.
func parseMessage(r *loadbalancerv1.AnnounceRequest) (Message, apierr.Violations) {
	var v apierr.Violations
	m := Message{
		Node: r.GetNode(), Instance: r.GetInstance(), Sequence: r.GetSequence(), Followed: r.GetFollowedAnswer(), FormerSince: r.GetFormerSince().AsDuration(),
		State: parseStates(r),
	}
	if m.Node == "" || len(m.Node) > maxName {
		v.Add("node", "INVALID", "must have 1 to %d bytes", maxName)
	}
	if m.Instance == "" || len(m.Instance) > maxInstance {
		v.Add("instance", "INVALID", "must have 1 to %d bytes", maxInstance)
	}
	if max(len(r.GetAddresses()), len(r.GetHandOvers()), len(r.GetFormerAddresses()), len(r.GetServed()), len(r.GetKept())) > maxAddresses || len(r.GetSubnets()) > maxSubnets {
		v.Add("addresses", "TOO_MANY", "at most %d addresses, as many former ones, hand-overs, served and kept ones, and %d subnets are possible", maxAddresses, maxSubnets)
		return m, v
	}
	m.Addresses = parseAddrs(&v, "addresses", r.GetAddresses())
	m.Former = parseAddrs(&v, "former_addresses", r.GetFormerAddresses())
	m.State.Served = ordered(parseAddrs(&v, "served", r.GetServed()))
	m.State.Kept = ordered(parseAddrs(&v, "kept", r.GetKept()))
	for i, text := range r.GetSubnets() {
		subnet, err := netip.ParsePrefix(text)
		if err != nil {
			v.Add(fmt.Sprintf("subnets[%d]", i), "INVALID", "%q is no prefix such as 192.0.2.0/24", text)
		}
		m.State.Subnets = append(m.State.Subnets, subnet)
	}
	for i, h := range r.GetHandOvers() {
		field := fmt.Sprintf("hand_overs[%d].", i)
		if h.GetNode() == "" || len(h.GetNode()) > maxName {
			v.Add(field+"node", "INVALID", "must have 1 to %d bytes", maxName)
		}
		m.HandOvers = append(m.HandOvers, HandOver{
			Address: v.ParseAddr(field+"address", h.GetAddress()), Node: h.GetNode(), Via: v.ParseAddr(field+"via", h.GetVia()),
			Left: h.GetLeft().AsDuration(),
		})
	}
	return m, v
}

// parseStates returns the states that a message lists. If it lists none, parseStates reads the
// deprecated fields, which agents of earlier releases set.
func parseStates(r *loadbalancerv1.AnnounceRequest) State {
	if len(r.GetStates()) == 0 {
		return State{Ready: r.GetReady(), Draining: r.GetDraining(), Restarting: r.GetRestarting(), Stays: r.GetForwardsAlone(), AwaitsProxy: r.GetAwaitsProxy()}
	}
	is := func(state loadbalancerv1.AnnounceState) bool { return slices.Contains(r.GetStates(), state) }
	return State{
		Ready:       is(loadbalancerv1.AnnounceState_ANNOUNCE_STATE_READY),
		Draining:    is(loadbalancerv1.AnnounceState_ANNOUNCE_STATE_DRAINING),
		Restarting:  is(loadbalancerv1.AnnounceState_ANNOUNCE_STATE_RESTARTING),
		Stays:       is(loadbalancerv1.AnnounceState_ANNOUNCE_STATE_FORWARDS_ALONE),
		AwaitsProxy: is(loadbalancerv1.AnnounceState_ANNOUNCE_STATE_AWAITS_PROXY),
	}
}

func parseAddrs(v *apierr.Violations, field string, texts []string) (addrs []netip.Addr) {
	for i, text := range texts {
		addrs = append(addrs, v.ParseAddr(fmt.Sprintf("%s[%d]", field, i), text))
	}
	return addrs
}

// ordered orders addresses in place.
func ordered(addrs []netip.Addr) []netip.Addr {
	slices.SortFunc(addrs, netip.Addr.Compare)
	return addrs
}

// message converts the answer into a message of the contract.
func (a Answer) message() *loadbalancerv1.AnnounceResponse {
	m := &loadbalancerv1.AnnounceResponse{Sequence: a.Sequence, AnsweredMessage: a.Message, Validity: durationpb.New(a.Validity)}
	for _, addr := range a.Addresses {
		m.Addresses = append(m.Addresses, addr.String())
	}
	for _, addr := range a.Proxied {
		m.Proxied = append(m.Proxied, addr.String())
	}
	for _, h := range a.HandOvers {
		m.HandOvers = append(m.HandOvers, &loadbalancerv1.HandOver{
			Address: h.Address.String(), Node: h.Node, Via: h.Via.String(), Left: durationpb.New(h.Left),
		})
	}
	return m
}
