package announce

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/wake"
)

// The limits of a message and of a stream.
const (
	maxAddresses = 4096
	maxSubnets   = 256
	maxName      = 253 // bytes of the name of a node
	maxInstance  = 64
	// An agent sends two messages a second, and one after each change.
	messagesPerSecond = 50
	messagesAtOnce    = 100
)

// stream is an open stream of an agent.
type stream struct {
	number uint64
	wake   wake.Signal // sent when an answer is due
	ended  chan error  // receives the reason why the server ends the stream
	limit  *rate.Limiter

	node string    // empty before the first message; guarded by the server's mu
	last time.Time // when a message came last, or the stream was opened; guarded likewise
}

func newStream(number uint64) *stream {
	return &stream{
		number: number, wake: wake.New(), ended: make(chan error, 1),
		limit: rate.NewLimiter(messagesPerSecond, messagesAtOnce), last: time.Now(),
	}
}

func (st *stream) wakeUp() {
	st.wake.Send()
}

// end ends the stream. Only the first reason counts.
func (st *stream) end(reason error) {
	select {
	case st.ended <- reason:
	default:
	}
}

var (
	errSilent  = status.Errorf(codes.Unavailable, "no message came for %s", silentFor)
	errTooMany = apierr.Exhausted("AnnounceMessages", fmt.Sprintf("more than %d messages a second", messagesPerSecond))
)

// receiveAll passes the messages of a stream to the assigner until the stream ends.
func (s *Server) receiveAll(st *stream, conn grpc.BidiStreamingServer[loadbalancerv1.AnnounceRequest, loadbalancerv1.AnnounceResponse]) error {
	for {
		request, err := conn.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !st.limit.Allow() {
			return errTooMany
		}
		// Without certificates there is no identity, and each caller may be any node.
		if id, err := identity.Caller(conn.Context()); err == nil && (id.Role != identity.NodeAgent || id.Name != request.GetNode()) {
			return apierr.PermissionDenied(fmt.Sprintf("node: %s may not announce addresses for node %q: use the certificate of nodeagent/%s", id, request.GetNode(), request.GetNode()))
		}
		m, violations := parseMessage(request)
		if len(violations) > 0 {
			return apierr.Invalid("AnnounceRequest", request.GetNode(), violations)
		}
		if err := s.receive(st, m); err != nil {
			return err
		}
	}
}

// parseMessage returns a message in the form of this package, and all its violations of the limits.
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
			Address: parseAddr(&v, field+"address", h.GetAddress()), Node: h.GetNode(), Via: parseAddr(&v, field+"via", h.GetVia()),
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
		addrs = append(addrs, parseAddr(v, fmt.Sprintf("%s[%d]", field, i), text))
	}
	return addrs
}

// ordered orders addresses in place.
func ordered(addrs []netip.Addr) []netip.Addr {
	slices.SortFunc(addrs, netip.Addr.Compare)
	return addrs
}

func parseAddr(v *apierr.Violations, field, text string) netip.Addr {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" || addr.Is4In6() {
		v.Add(field, "INVALID", "%q is no IP address", text)
	}
	return addr
}

// message returns the answer as a message of the contract.
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
