package announce

import (
	"net/netip"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// greeting is the sequence of the answer that opens a stream.
const greeting = 1

// State is the part of a node's state on which its eligibility depends.
type State struct {
	Ready, Draining, Restarting bool
	// Stays is set if the node forwards while its agent does not run.
	Stays   bool
	Subnets []netip.Prefix // of the interfaces on which it announces
	// Served are the addresses at which an edge on the node takes connections. Kept are the addresses at
	// which the edge may have connections. Both are ordered.
	Served, Kept []netip.Addr
	// AwaitsProxy is set if the agent was restarted and the edge has not connected to it yet.
	AwaitsProxy bool
}

// Message is a message of a node.
type Message struct {
	Node, Instance     string
	Sequence, Followed uint64 // of this message, and of the answer that the agent has followed last
	Addresses          []netip.Addr
	Former             []netip.Addr  // addresses of the last answer, if their rights have ended
	FormerSince        time.Duration // time since the end of these rights
	HandOvers          []HandOver    // of Addresses and Former, from the last answer
	State              State
}

// Answer is an answer to a node.
type Answer struct {
	Sequence, Message uint64 // of this answer, and of the message that it answers
	Validity          time.Duration
	Addresses         []netip.Addr
	Proxied           []netip.Addr // the part of Addresses that an edge on the node serves
	HandOvers         []HandOver   // of addresses that the node owns, also before it may announce them
}

// node is the state of a node. It exists once the node's agent has sent a message in the leader's term.
type node struct {
	name       string
	instance   string // the process of its agent
	stream     uint64 // number of its last stream
	connected  bool   // whether the stream is open
	received   time.Time
	message    uint64 // sequence of the last message on the stream
	followed   uint64 // sequence of the last answer that the agent has followed
	answer     uint64 // sequence of the last answer on the stream
	unanswered bool   // whether the last message has no answer yet

	state      State
	stateCount uint64 // number of changes of state
	unreadyAt  time.Time
	graceEnd   time.Time // of a restart of the agent; zero: it runs
	wasLive    bool      // the result of live at the last tick

	claims    map[netip.Addr]bool // addresses that the last message lists
	handOvers []HandOver          // in the last message
	granted   []netip.Addr        // addresses in the last answer, ordered
	owned     map[netip.Addr]*address
	held      map[netip.Addr]*address // addresses with a hold of the instance, and some without
}

// receive takes over the state in a message. If it returns an error, it has changed nothing.
func (n *node) receive(now time.Time, stream uint64, m Message, restart time.Duration) error {
	if err := n.checkOrder(stream, m); err != nil {
		return err
	}
	if stream > n.stream {
		n.stream, n.answer, n.granted = stream, greeting, nil
	}
	if m.Instance != n.instance {
		n.held = map[netip.Addr]*address{}
	}
	if n.received.IsZero() || n.state.Ready && !m.State.Ready {
		n.unreadyAt = now
	}
	switch {
	case !m.State.Restarting:
		n.graceEnd = time.Time{}
	case n.graceEnd.IsZero():
		n.graceEnd = now.Add(restart)
	}
	n.connected, n.wasLive, n.unanswered = true, true, true
	n.instance, n.received, n.message, n.followed = m.Instance, now, m.Sequence, m.Followed
	if !n.state.equal(m.State) {
		n.state = m.State
		n.stateCount++
	}
	n.handOvers = m.HandOvers
	n.claims = make(map[netip.Addr]bool, len(m.Addresses))
	for _, addr := range m.Addresses {
		n.claims[addr] = true
	}
	return nil
}

// noteDeath records that the agent's process has died, after its connection was closed. A node that forwards
// without its agent keeps its addresses for the time of a restart. A node that was silent before has lost
// them already.
func (n *node) noteDeath(now time.Time, o Options) {
	if n.graceEnd.IsZero() && n.state.Stays && n.live(now, o.guard()) {
		n.graceEnd = now.Add(o.Restart)
	}
}

// restarts reports whether the agent of the node is expected back.
func (n *node) restarts(now time.Time) bool { return now.Before(n.graceEnd) }

// checkOrder returns an error unless a message can come after the earlier ones.
func (n *node) checkOrder(stream uint64, m Message) error {
	first, last, answer := n.message, n.followed, n.answer
	if stream > n.stream {
		first, last, answer = 0, greeting, greeting
	}
	switch {
	case stream < n.stream:
		return errReplaced
	case m.Sequence <= first:
		return status.Errorf(codes.InvalidArgument, "sequence: message %d comes after message %d", m.Sequence, first)
	case m.Followed < last || m.Followed > answer:
		return status.Errorf(codes.InvalidArgument, "followed_answer: %d is not one of the answers from %d to %d", m.Followed, last, answer)
	}
	return nil
}

func (s State) equal(other State) bool {
	return s.Ready == other.Ready && s.Draining == other.Draining && s.Restarting == other.Restarting && s.Stays == other.Stays && slices.Equal(s.Subnets, other.Subnets) &&
		s.AwaitsProxy == other.AwaitsProxy && slices.Equal(s.Served, other.Served) && slices.Equal(s.Kept, other.Kept)
}

// eligibility has the facts about a node on which its eligibility for addresses depends. If they have changed,
// the node may be eligible for other addresses.
type eligibility struct {
	stream, states  uint64
	connected, live bool
}

func (n *node) eligibility(now time.Time, guard time.Duration) eligibility {
	return eligibility{n.stream, n.stateCount, n.connected, n.live(now, guard)}
}

// live reports whether the node's last message is recent.
func (n *node) live(now time.Time, guard time.Duration) bool { return now.Sub(n.received) < guard }

// errReplaced ends the stream of a node that has opened another stream.
var errReplaced = status.Error(codes.Aborted, "the node has opened another stream")
