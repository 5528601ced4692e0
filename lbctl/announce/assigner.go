package announce

import (
	"net/netip"
	"slices"
	"time"
)

// The defaults of Options.
const (
	DefaultValidity = 2 * time.Second
	DefaultGrace    = 30 * time.Second
	DefaultRestart  = 10 * time.Second
	DefaultHandOver = time.Hour
)

// Options are the settings of an Assigner.
type Options struct {
	// Validity is the time for which a node may announce its addresses after a message that was
	// answered. 0 means DefaultValidity.
	Validity time.Duration
	// Grace is the time for which the addresses of a node stay with it although its agent is not
	// ready. 0 means DefaultGrace.
	Grace time.Duration
	// Restart is the time for which the addresses of a node stay with it although its agent does not
	// run, if the node forwards without it. 0 means DefaultRestart.
	Restart time.Duration
	// HandOver is the longest time for which the node that gets an address sends packets of connections
	// that it does not know to the previous node. 0 means DefaultHandOver. A negative value turns
	// hand-overs off.
	HandOver time.Duration
	// AnySubnet lets a node announce addresses that are in no subnet of its interfaces.
	AnySubnet bool
}

func (o Options) withDefaults() Options {
	if o.Validity == 0 {
		o.Validity = DefaultValidity
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	if o.Restart == 0 {
		o.Restart = DefaultRestart
	}
	if o.HandOver == 0 {
		o.HandOver = DefaultHandOver
	}
	return o
}

// guard is the time from an answer until every right that it gave has ended. It allows for clocks
// with rates that differ by up to 12 %. See the package's comment.
func (o Options) guard() time.Duration { return o.Validity + o.Validity/8 }

// Assigner decides which node announces each address. The caller passes in the time, which must be
// monotonic. If the clock stands still, for example because the machine is suspended, addresses only
// move later. An Assigner is not safe for concurrent use.
type Assigner struct {
	opts      Options
	begun     time.Time // when this process began to lead
	ticked    time.Time // the last time of a call of Tick
	nodes     map[string]*node
	addresses map[netip.Addr]*address
	// generation counts the changes after which another node may be eligible for an address.
	generation uint64
	// moved reports whether the answers of nodes may have changed since the last call of Due.
	moved bool

	changes     uint64        // of owners
	unannounced time.Duration // sum over all addresses
}

// NewAssigner returns an assigner without nodes and addresses. Begin must be called before other
// methods.
func NewAssigner(o Options) *Assigner {
	return &Assigner{opts: o.withDefaults(), nodes: map[string]*node{}, addresses: map[netip.Addr]*address{}}
}

// Begin starts the term of a new leader. The assigner forgets all nodes and owners.
func (a *Assigner) Begin(now time.Time) {
	a.begun, a.ticked = now, now
	a.nodes = map[string]*node{}
	for addr, old := range a.addresses {
		if old.wanted == nil {
			delete(a.addresses, addr)
			continue
		}
		a.addresses[addr] = newAddress(addr, old.wanted)
	}
}

// settled reports whether the rights that earlier leaders have given have ended.
func (a *Assigner) settled(now time.Time) bool { return !now.Before(a.begun.Add(a.opts.guard())) }

// SetWanted replaces the addresses to announce.
func (a *Assigner) SetWanted(now time.Time, all []Wanted) {
	wanted := make(map[netip.Addr]*Wanted, len(all))
	for i := range all {
		wanted[all[i].Address] = &all[i]
	}
	for addr, w := range wanted {
		if known := a.addresses[addr]; known != nil {
			known.wanted = w
		} else {
			a.addresses[addr] = newAddress(addr, w)
		}
	}
	for addr, known := range a.addresses {
		if wanted[addr] == nil {
			known.wanted = nil // it stays until the rights that were given have ended
		}
	}
	a.generation++
	a.assign(now)
}

// Receive takes a message that a node has sent on a stream. A stream that was opened later has a
// higher number. It returns an error of package apierr if the message is not possible after the
// earlier ones, or if the node has opened a later stream.
func (a *Assigner) Receive(now time.Time, stream uint64, m Message) error {
	n := a.nodes[m.Node]
	if n == nil {
		n = &node{name: m.Node, owned: map[netip.Addr]*address{}}
		a.nodes[m.Node] = n
	}
	before := n.eligibility(now, a.opts.guard())
	if err := n.receive(now, stream, m, a.opts.Restart); err != nil {
		return err
	}
	a.release(n)
	if !a.settled(now) {
		a.acceptClaims(now, n)
		a.acceptFormer(now, n, m)
	}
	if n.eligibility(now, a.opts.guard()) != before {
		a.generation++
		a.assign(now)
	}
	a.noteAnnounced(now, n)
	return nil
}

// Disconnect records that a stream of a node has ended. The node keeps its rights until they end. died is
// set if the node's kernel has closed the connection, as it does when the agent's process dies.
func (a *Assigner) Disconnect(now time.Time, name string, stream uint64, died bool) {
	n := a.nodes[name]
	if n == nil || n.stream != stream {
		return
	}
	n.connected = false
	if died {
		n.noteDeath(now, a.opts)
		for _, owned := range n.owned {
			owned.since = time.Time{}
		}
	}
	a.generation++
	a.assign(now)
}

// Tick passes the current time, so that silent nodes lose their addresses. It must be called several times
// per guard.
func (a *Assigner) Tick(now time.Time) {
	for name, n := range a.nodes {
		if live := n.live(now, a.opts.guard()); live != n.wasLive {
			n.wasLive = live
			a.generation++
		}
		if !n.connected && !n.wasLive && len(n.owned) == 0 && now.After(n.graceEnd) {
			delete(a.nodes, name)
		}
	}
	for addr, known := range a.addresses {
		known.expire(now)
		if known.wanted == nil && len(known.holds) == 0 && known.owner == nil {
			delete(a.addresses, addr)
		}
		if known.wanted != nil && known.since.IsZero() {
			a.unannounced += now.Sub(a.ticked)
		}
	}
	a.ticked, a.moved = now, true
	a.assign(now)
}

// Due returns the names of the nodes that need an answer. A node needs one if it has sent a message since
// the last answer, or if its addresses have changed.
func (a *Assigner) Due(now time.Time) []string {
	var due []string
	for name, n := range a.nodes {
		if n.connected && (n.unanswered || a.moved && !slices.Equal(a.grants(now, n), n.granted)) {
			due = append(due, name)
		}
	}
	a.moved = false
	slices.Sort(due)
	return due
}

// Answer returns an answer to a node for a stream. It returns false if the node has another stream.
// An answer that is sent late or is lost does no harm, because its rights count from the node's message.
func (a *Assigner) Answer(now time.Time, name string, stream uint64) (Answer, bool) {
	n := a.nodes[name]
	if n == nil || n.stream != stream || !n.connected {
		return Answer{}, false
	}
	n.unanswered = false
	n.answer++
	n.granted = a.grants(now, n)
	var proxied []netip.Addr
	for _, addr := range n.granted {
		known := n.owned[addr]
		if known.wanted != nil && known.wanted.Proxied {
			proxied = append(proxied, addr)
		}
		known.holds[holder{name, n.instance}] = hold{until: now.Add(a.opts.guard()), stream: stream, answer: n.answer}
		n.held[addr] = known
	}
	return Answer{Sequence: n.answer, Message: n.message, Validity: a.opts.Validity, Addresses: n.granted, Proxied: proxied, HandOvers: a.handOvers(now, n)}, true
}

// stream returns the number of a node's last stream.
func (a *Assigner) stream(name string) uint64 { return a.nodes[name].stream }

// grants returns the addresses that a node may announce, ordered. It leaves out an address that an edge must
// serve until the edge has connected to a restarted agent.
func (a *Assigner) grants(now time.Time, n *node) []netip.Addr {
	if n.state.Restarting {
		return nil
	}
	var granted []netip.Addr
	for addr, owned := range n.owned {
		if !owned.heldByOther(now, n.name) && (owned.formerUntil.IsZero() || a.settled(now)) && owned.servedBy(n) {
			granted = append(granted, addr)
		}
	}
	slices.SortFunc(granted, netip.Addr.Compare)
	return granted
}

// release ends the rights to addresses that a node no longer lists. The rights of an earlier process of the
// node's agent last until their time is over, because that process may still run.
func (a *Assigner) release(n *node) {
	by := holder{n.name, n.instance}
	for addr, known := range n.held {
		h, ok := known.holds[by]
		switch {
		case !ok:
			delete(n.held, addr)
		case n.claims[addr] && h.stream < n.stream:
			// The agent no longer follows answers of earlier streams. So the right ends as soon as the
			// agent stops listing the address on this stream.
			known.holds[by] = hold{until: h.until, stream: n.stream, answer: greeting}
		case !n.claims[addr] && (h.stream < n.stream || n.followed >= h.answer):
			delete(known.holds, by)
			delete(n.held, addr)
			a.moved = true
		}
	}
}

// acceptClaims lets a node keep the addresses that an earlier leader has given it.
func (a *Assigner) acceptClaims(now time.Time, n *node) {
	for addr := range n.claims {
		known := a.addresses[addr]
		if known == nil || known.wanted == nil || !a.keeps(now, known, n) || known.owner != nil && (known.formerUntil.IsZero() || known.owner == n) {
			continue
		}
		a.setOwner(now, known, n)
		a.acceptHandOver(now, known, n)
	}
}

// acceptFormer makes a node the owner of the addresses that it had last under an earlier leader, unless
// another node has a right to them, or had a right that ended later. The node gets no right before the term
// has settled.
func (a *Assigner) acceptFormer(now time.Time, n *node, m Message) {
	until := now.Add(-max(0, m.FormerSince))
	for _, addr := range m.Former {
		known := a.addresses[addr]
		if known == nil || known.wanted == nil || !a.keeps(now, known, n) || known.owner != nil && (known.formerUntil.IsZero() || !known.formerUntil.Before(until)) {
			continue
		}
		a.setOwner(now, known, n)
		known.formerUntil = until
		a.acceptHandOver(now, known, n)
	}
}

// assign takes each address from an owner that may not keep it, and gives each address without an owner to
// an eligible node.
func (a *Assigner) assign(now time.Time) {
	for _, known := range a.addresses {
		if known.owner != nil && !a.keeps(now, known, known.owner) {
			a.setOwner(now, known, nil)
			known.triedAt = 0
		}
		if known.owner == nil && known.wanted != nil && known.triedAt != a.generation && a.settled(now) {
			known.triedAt = a.generation
			a.setOwner(now, known, a.choose(now, known))
		}
	}
}

func (a *Assigner) setOwner(now time.Time, known *address, n *node) {
	if known.owner != nil {
		delete(known.owner.owned, known.addr)
	}
	known.owner, known.since, known.formerUntil, a.moved = n, time.Time{}, time.Time{}, true
	if n == nil {
		return
	}
	n.owned[known.addr] = known
	known.begin(now, n, a.opts.HandOver)
	if known.lastOwner != n.name {
		known.lastOwner = n.name
		a.changes++
	}
}

// noteAnnounced records when a node began to announce each of its addresses.
func (a *Assigner) noteAnnounced(now time.Time, n *node) {
	for addr, owned := range n.owned {
		if !n.claims[addr] {
			owned.since = time.Time{}
			continue
		}
		owned.announcer = n.name
		if owned.since.IsZero() {
			owned.since = now
		}
	}
}

// OwnerChanges returns the number of times at which an address got a new owner. The first owner of an address
// counts.
func (a *Assigner) OwnerChanges() uint64 { return a.changes }

// Unannounced returns the time in which addresses had no announcer, summed over the addresses.
func (a *Assigner) Unannounced() time.Duration { return a.unannounced }
