package announce

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// The world of the property test: agents and leaders with clocks of their own, and a network that
// delays messages and cuts connections. Time is counted in steps of real time.
const (
	step         = 10 * time.Millisecond
	messageEvery = 500 * time.Millisecond
	simGrace     = 3 * time.Second
	simHandOver  = 30 * time.Second
)

var subnet = netip.MustParsePrefix("192.0.2.0/24")

// clock is a clock that runs at a rate of its own from a time of its own.
type clock struct {
	rate  float64
	start time.Time
}

func (c clock) at(real time.Duration) time.Time {
	return c.start.Add(time.Duration(c.rate * float64(real)))
}

// rights are the times until which an agent may announce addresses, by the agent's clock.
type rights map[netip.Addr]time.Time

// agent is a model of a node agent. It follows the contract of AnnouncerService.
type agent struct {
	name, instance    string
	clock             clock
	alive             bool
	state             State
	rights            rights
	handOvers         map[netip.Addr]HandOver // in the kernel, which has them without the process
	handOversUntil    map[netip.Addr]time.Time
	conn              *connection // nil: none
	sequence          uint64
	followed          uint64
	sent              map[uint64]time.Time // by message, by its own clock
	nextSend, nextTry time.Time            // by its own clock
	cut               bool                 // from the control plane
	edge              edge
	edgeConnected     bool      // to this process of the agent
	routes            bool      // the edge's addresses are local, also while the agent does not run
	edgeBack          time.Time // when the edge connects to the agent, by the agent's clock
}

// edge is the state of an edge on a node.
type edge string

const (
	serving  edge = "serving"
	draining edge = "draining" // it has connections, and takes no new ones
	down     edge = "down"
)

// edgeTries is longer than an edge takes to connect to a restarted agent, and edgeAwaited is the time for
// which the agent waits for it.
const (
	edgeTries   = 300 * time.Millisecond
	edgeAwaited = 500 * time.Millisecond
)

// announces reports whether the agent has the right to announce an address.
func (a *agent) announces(real time.Duration, addr netip.Addr) bool {
	until, ok := a.rights[addr]
	return a.alive && ok && a.clock.at(real).Before(until)
}

// connection is a stream. Messages of a direction arrive in the order in which they were sent.
type connection struct {
	number           uint64
	leader           *leader
	agent            *agent
	instance         string
	toLeader, toNode []packet
	open             bool
}

type packet struct {
	arrives time.Duration
	message Message
	answer  Answer
}

// leader is a term of a leader.
type leader struct {
	assigner *Assigner
	clock    clock
	leads    bool
}

// world is the whole simulation.
type world struct {
	*rapid.T
	real      time.Duration
	agents    []*agent
	leader    *leader
	wanted    []Wanted
	conns     []*connection
	opened    uint64
	instances int
	slow      bool          // messages take up to 1.5 s
	delays    func() uint64 // pseudo-random numbers, drawn from one seed
}

func newWorld(t *rapid.T) *world {
	w := &world{T: t}
	seed := rapid.Uint64().Draw(t, "seed of the delays")
	w.delays = func() uint64 { seed = seed*6364136223846793005 + 1442695040888963407; return seed >> 33 }
	for n := range rapid.IntRange(2, 4).Draw(t, "nodes") {
		a := &agent{name: fmt.Sprintf("n%d", n), clock: w.drawClock("clock of the node")}
		a.state = State{Ready: true, Stays: rapid.Bool().Draw(t, "forwards alone"), Subnets: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + n)}), subnet.Bits())}}
		w.agents = append(w.agents, a)
		w.start(a)
	}
	all := map[string]bool{}
	for _, a := range w.agents {
		all[a.name] = true
	}
	for n := range 3 {
		w.wanted = append(w.wanted, Wanted{Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(n)}), Nodes: all})
	}
	for n := range w.wanted {
		w.wanted[n].Proxied = rapid.Bool().Draw(t, "an edge serves the address")
	}
	for _, a := range w.agents {
		w.setEdge(a, serving)
	}
	w.newLeader()
	return w
}

// setEdge changes the edge on a node. An agent that runs learns it at once.
func (w *world) setEdge(a *agent, to edge) {
	if a.alive && (a.edgeConnected || to != down) {
		a.edgeConnected, a.state.AwaitsProxy = to != down, false
	}
	a.edge = to
	w.tellEdge(a)
}

// tellEdge passes the state of an edge to its agent. The agent gives up the rights to addresses that the edge no
// longer serves.
func (w *world) tellEdge(a *agent) {
	if !a.alive {
		return
	}
	a.state.Served, a.state.Kept = nil, nil
	a.routes = a.edgeConnected || a.state.AwaitsProxy
	for _, wanted := range w.wanted {
		if wanted.Proxied && a.routes {
			a.state.Kept = append(a.state.Kept, wanted.Address)
		}
	}
	if a.edge == serving && a.edgeConnected {
		a.state.Served = a.state.Kept
	}
	for _, wanted := range w.wanted {
		if wanted.Proxied && !has(a.state.Served, wanted.Address) {
			delete(a.rights, wanted.Address)
			delete(a.handOvers, wanted.Address)
			delete(a.handOversUntil, wanted.Address)
		}
	}
	a.nextSend = a.clock.at(w.real)
}

// tellEdges makes the edges follow a change of the wanted addresses.
func (w *world) tellEdges() {
	for _, a := range w.agents {
		w.tellEdge(a)
	}
}

// runEdge lets an edge connect to a restarted agent. The agent waits for the edge for edgeAwaited.
func (w *world) runEdge(a *agent) {
	now := a.clock.at(w.real)
	switch {
	case !a.alive || a.edgeConnected:
	case a.edge != down && !now.Before(a.edgeBack):
		a.edgeConnected, a.state.AwaitsProxy = true, false
		w.tellEdge(a)
	case a.state.AwaitsProxy && !now.Before(a.edgeBack.Add(edgeAwaited-edgeTries)):
		a.state.AwaitsProxy = false
		w.tellEdge(a)
	}
}

// drawClock draws a clock that is at most 5 % fast or slow.
func (w *world) drawClock(label string) clock {
	return clock{
		rate:  rapid.SampledFrom([]float64{0.95, 0.98, 1, 1.02, 1.05}).Draw(w.T, label),
		start: time.Unix(int64(rapid.IntRange(0, 1000).Draw(w.T, label+", start")), 0),
	}
}

// start starts the process of an agent.
func (w *world) start(a *agent) {
	w.instances++
	a.instance, a.alive, a.rights, a.conn = fmt.Sprint("i", w.instances), true, rights{}, nil
	a.state.Restarting = false
	a.nextTry = a.clock.at(w.real)
	a.edgeConnected, a.edgeBack, a.state.AwaitsProxy = false, a.nextTry.Add(time.Duration(w.delays()%uint64(edgeTries))), a.routes
	w.tellEdge(a)
}

// newLeader ends the term of the leader and begins another one.
func (w *world) newLeader() {
	if w.leader != nil {
		w.leader.leads = false
	}
	w.leader = &leader{assigner: NewAssigner(Options{Grace: simGrace, Restart: simGrace, HandOver: simHandOver}), clock: w.drawClock("clock of the leader"), leads: true}
	w.leader.assigner.Begin(w.leader.clock.at(w.real))
	w.setWanted()
}

func (w *world) setWanted() {
	w.leader.assigner.SetWanted(w.leader.clock.at(w.real), slices.Clone(w.wanted))
}

// delay returns when a packet arrives that is sent now after the last one.
func (w *world) delay(queue []packet) time.Duration {
	longest := uint64(40)
	if w.slow {
		longest = 1500
	}
	arrives := w.real + time.Duration(w.delays()%longest)*time.Millisecond
	if len(queue) > 0 {
		arrives = max(arrives, queue[len(queue)-1].arrives)
	}
	return arrives
}

// run lets some time pass.
func (w *world) run(d time.Duration) {
	for end := w.real + d; w.real < end; w.real += step {
		for _, a := range w.agents {
			w.runEdge(a)
			w.runAgent(a)
		}
		for _, c := range w.conns {
			w.deliver(c)
		}
		w.conns = slices.DeleteFunc(w.conns, func(c *connection) bool { return !c.open && len(c.toNode) == 0 })
		if w.leader.leads && w.real%(5*step) == 0 {
			w.leader.assigner.Tick(w.leader.clock.at(w.real))
			w.answerDue()
		}
	}
}

// runAgent lets an agent connect and send.
func (w *world) runAgent(a *agent) {
	now := a.clock.at(w.real)
	if !a.alive || a.cut {
		return
	}
	if a.conn != nil && (!a.conn.open || !a.conn.leader.leads) && len(a.conn.toNode) == 0 {
		a.conn = nil
	}
	if a.conn == nil && !now.Before(a.nextTry) && w.leader.leads {
		w.opened++
		c := &connection{number: w.opened, leader: w.leader, agent: a, instance: a.instance, open: true}
		c.toNode = []packet{{arrives: w.delay(nil), answer: Answer{Sequence: greeting}}}
		w.conns = append(w.conns, c)
		a.conn, a.sequence, a.followed, a.sent = c, 0, 0, map[uint64]time.Time{}
		a.nextTry = now.Add(200 * time.Millisecond)
	}
	if a.conn != nil && a.followed > 0 && !now.Before(a.nextSend) {
		w.send(a)
	}
}

// send sends the state of an agent.
func (w *world) send(a *agent) {
	now := a.clock.at(w.real)
	a.sequence++
	a.sent[a.sequence] = now
	a.nextSend = now.Add(messageEvery)
	m := Message{Node: a.name, Instance: a.instance, Sequence: a.sequence, Followed: a.followed, State: a.state}
	for addr, until := range a.rights {
		switch {
		case a.state.Restarting:
		case now.Before(until):
			m.Addresses = append(m.Addresses, addr)
		default:
			m.Former, m.FormerSince = append(m.Former, addr), now.Sub(until)
		}
	}
	for addr, h := range a.handOvers {
		if h.Left = a.handOversUntil[addr].Sub(now); h.Left > 0 {
			m.HandOvers = append(m.HandOvers, h)
		}
	}
	a.conn.toLeader = append(a.conn.toLeader, packet{arrives: w.delay(a.conn.toLeader), message: m})
}

// deliver delivers the packets of a connection that have arrived.
func (w *world) deliver(c *connection) {
	if c.agent.cut { // packets wait, and arrive when the cut ends
		return
	}
	for len(c.toLeader) > 0 && c.toLeader[0].arrives <= w.real {
		m := c.toLeader[0].message
		c.toLeader = c.toLeader[1:]
		if !c.open || !c.leader.leads {
			continue
		}
		if err := c.leader.assigner.Receive(c.leader.clock.at(w.real), c.number, m); err != nil {
			if err != errReplaced {
				w.Fatalf("message %+v: %v", m, err)
			}
			c.open = false
		}
		w.answerDue()
	}
	for len(c.toNode) > 0 && c.toNode[0].arrives <= w.real {
		answer := c.toNode[0].answer
		c.toNode = c.toNode[1:]
		// An answer that the leader has sent before its term ended may arrive later.
		if a := c.agent; a.alive && a.conn == c && a.instance == c.instance {
			w.follow(a, answer)
		}
	}
}

// follow makes an agent follow an answer.
func (w *world) follow(a *agent, answer Answer) {
	a.followed = answer.Sequence
	if answer.Message > 0 {
		until := a.sent[answer.Message].Add(answer.Validity)
		w.followHandOvers(a, answer)
		before := a.rights
		a.rights = rights{}
		for _, addr := range answer.Addresses {
			if slices.Contains(answer.Proxied, addr) && !has(a.state.Served, addr) {
				a.nextSend = a.clock.at(w.real) // so that the leader learns it at once
				delete(a.handOvers, addr)
				delete(a.handOversUntil, addr)
				continue
			}
			a.rights[addr] = until
		}
		w.check()
		if !maps.EqualFunc(before, a.rights, func(time.Time, time.Time) bool { return true }) {
			a.nextSend = a.clock.at(w.real) // at once
		}
		return
	}
	a.nextSend = a.clock.at(w.real)
}

// followHandOvers makes an agent's kernel follow the hand-overs of an answer.
func (w *world) followHandOvers(a *agent, answer Answer) {
	a.handOvers, a.handOversUntil = map[netip.Addr]HandOver{}, map[netip.Addr]time.Time{}
	for _, h := range answer.HandOvers {
		if h.Node == a.name || !subnet.Contains(h.Via) || !a.state.Stays {
			w.Fatalf("%s is told to hand over %+v, and may announce %v", a.name, h, answer.Addresses)
		}
		a.handOvers[h.Address] = h
		a.handOversUntil[h.Address] = a.clock.at(w.real).Add(h.Left)
	}
}

// handsOver returns the node to which an agent's kernel sends packets to an address on; empty: none.
func (w *world) handsOver(a *agent, addr netip.Addr) string {
	if until, ok := a.handOversUntil[addr]; !ok || !a.clock.at(w.real).Before(until) {
		return ""
	}
	return a.handOvers[addr].Node
}

// answerDue sends the answers that are due.
func (w *world) answerDue() {
	l := w.leader
	now := l.clock.at(w.real)
	for _, name := range l.assigner.Due(now) {
		for _, c := range w.conns {
			if c.agent.name != name || !c.open || c.leader != l {
				continue
			}
			if answer, ok := l.assigner.Answer(now, name, c.number); ok {
				c.toNode = append(c.toNode, packet{arrives: w.delay(c.toNode), answer: answer})
			}
		}
	}
}

// breakConnection ends the connection of an agent. Packets under way are lost. closed says that the
// agent's machine has closed it.
func (w *world) breakConnection(a *agent, closed bool) {
	if a.conn == nil {
		return
	}
	a.conn.open, a.conn.toLeader, a.conn.toNode = false, nil, nil
	if a.conn.leader == w.leader {
		w.leader.assigner.Disconnect(w.leader.clock.at(w.real), a.name, a.conn.number, closed)
	}
	a.conn = nil
}

// kill kills the process of an agent. The agent's machine closes the connection.
func (w *world) kill(a *agent) {
	w.breakConnection(a, true)
	a.alive = false
}

// die ends a machine. Its connection stays open, and no packet arrives on it any more.
func (w *world) die(a *agent) {
	if a.conn != nil {
		a.conn.toLeader = nil
	}
	a.alive, a.conn = false, nil
}

// owners returns the agents that announce an address.
func (w *world) owners(addr netip.Addr) []string {
	var names []string
	for _, a := range w.agents {
		if a.announces(w.real, addr) {
			names = append(names, a.name)
		}
	}
	return names
}

// check fails if two agents have the right to announce an address, or if an agent has the right without the edge
// that must serve the address. Rights begin only when an agent follows an answer, so it is enough to check then.
func (w *world) check() {
	for _, wanted := range w.wanted {
		if names := w.owners(wanted.Address); len(names) > 1 {
			w.Fatalf("at %s, %s is announced by %v", w.real, wanted.Address, names)
		}
		for _, a := range w.agents {
			if wanted.Proxied && a.announces(w.real, wanted.Address) && a.edge != serving {
				w.Fatalf("at %s, %s is announced by %s, whose edge is %s", w.real, wanted.Address, a.name, a.edge)
			}
		}
	}
}
