package nftables

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"portolan.dev/nodeagent/dataplane/netfilter"
)

// serverChange is the change of one server from old to new. Either may be nil.
type serverChange struct {
	table    *table
	key      key
	old, new *server
	ops      []int // indexes of its operations
}

// transaction is one transaction.
type transaction struct {
	conn          *netfilter.Conn
	order         []*nftables.Set
	del, add      map[*nftables.Set][]nftables.SetElement
	formerUse     map[chainKey]chainUse // former state of the chains that the change touches
	removedChains []chainKey            // the touched chains that are unused and exceed maxIdleChains
}

type chainKey struct {
	table *table
	class class
}

// maxIdleChains is the maximum number of unused chains in a table. A chain is not deleted as soon
// as it is unused, because the kernel walks through a whole map to make a rule that looks into it.
// A server that gains and loses a backend should not cause that each time.
const maxIdleChains = 256

// chainUse is the use of a class's chain.
type chainUse struct {
	number  uint32 // number of the chain; 0: there is no such chain
	servers int    // number of servers that use it
}

func newChange(conn *netfilter.Conn) *transaction {
	return &transaction{
		conn: conn, del: map[*nftables.Set][]nftables.SetElement{}, add: map[*nftables.Set][]nftables.SetElement{},
		formerUse: map[chainKey]chainUse{},
	}
}

func (c *transaction) note(in map[*nftables.Set][]nftables.SetElement, s *nftables.Set, key, value []byte) {
	if len(c.add[s])+len(c.del[s]) == 0 {
		c.order = append(c.order, s)
	}
	in[s] = append(in[s], nftables.SetElement{Key: key, Val: value})
}

// use adds n to the number of servers of a class, and returns the number of the class's chain.
func (c *transaction) use(t *table, cl class, n int) uint32 {
	k := chainKey{t, cl}
	u, ok := t.chains[cl]
	if _, touched := c.formerUse[k]; !touched {
		c.formerUse[k] = u
	}
	if !ok {
		u.number = t.freeNumber()
	}
	u.servers += n
	t.chains[cl] = u
	return u.number
}

// freeNumber returns a number that no class has.
func (t *table) freeNumber() uint32 {
	used := make(map[uint32]bool, len(t.chains))
	for _, u := range t.chains {
		used[u.number] = true
	}
	for {
		t.last = t.last%maxNumber + 1
		if !used[t.last] {
			return t.last
		}
	}
}

// idle returns the number of unused chains.
func (t *table) idle() int {
	n := 0
	for _, u := range t.chains {
		if u.servers == 0 {
			n++
		}
	}
	return n
}

// addChange adds the change of a server. If the server has moved to another class, addChange
// chooses its lane.
func (c *transaction) addChange(s *serverChange) {
	t := s.table
	if s.new != nil {
		switch {
		case s.old != nil && s.old.class.withoutLane() == s.new.class.withoutLane():
			s.new.class = s.old.class
		case s.new.hasCounter():
			s.new.class = t.leastUsedLane(s.new.class)
		}
	}
	c.noteElements(s)
}

// noteElements notes the elements that a change adds and removes.
func (c *transaction) noteElements(s *serverChange) {
	c.noteBackends(s)
	if s.old != nil && s.new != nil && s.old.class == s.new.class {
		return
	}
	t := s.table
	at, set := t.frontendKey(s.key.Frontend), t.setsOf(s.key.outside).servers
	if s.old != nil {
		c.use(t, s.old.class, -1)
		c.note(c.del, set, at, nil)
	}
	if s.new != nil {
		c.note(c.add, set, at, number(c.use(t, s.new.class, 1)))
	}
}

// leastUsedLane returns the lane of a class that the fewest servers share.
func (t *table) leastUsedLane(c class) class {
	best := c.withoutLane()
	for c.lane = range lanes {
		if n := t.chains[c].servers; n < t.chains[best].servers {
			best = c
		}
		if t.chains[best].servers == 0 {
			break
		}
	}
	return best
}

// noteBackends notes the elements for backends that a change adds and removes.
func (c *transaction) noteBackends(s *serverChange) {
	none := &server{}
	old, now := cmp.Or(s.old, none), cmp.Or(s.new, none)
	t, sets := s.table, s.table.setsOf(s.key.outside)
	at := t.frontendKey(s.key.Frontend)
	at = at[:len(at):len(at)] // so that append copies it
	for i := range max(len(old.slots), len(now.slots)) {
		was, is := i < len(old.slots), i < len(now.slots)
		if was && is && old.slots[i] == now.slots[i] && old.sticky() == now.sticky() && old.memberOf(old.slots[i]) == now.memberOf(now.slots[i]) {
			continue
		}
		key := append(at, number(uint32(i))...)
		if was {
			c.note(c.del, old.slotSet(sets), key, nil)
		}
		switch {
		case is && now.sticky():
			c.note(c.add, sets.picks, key, number(now.memberOf(now.slots[i])))
		case is:
			c.note(c.add, sets.slots, key, t.backendKey(now.slots[i]))
		}
	}
	i, k := 0, 0
	for i < len(old.backends) || k < len(now.backends) {
		var was, is backend
		switch {
		case k == len(now.backends) || i < len(old.backends) && old.backends[i].addr.Compare(now.backends[k].addr) < 0:
			was = old.backends[i]
			i++
		case i == len(old.backends) || now.backends[k].addr.Compare(old.backends[i].addr) < 0:
			is = now.backends[k]
			k++
		default:
			was, is = old.backends[i], now.backends[k]
			i, k = i+1, k+1
		}
		c.noteBackend(t, sets, at, was, is)
	}
}

// slotSet returns the map that has the server's slots as keys.
func (s *server) slotSet(sets *sets) *nftables.Set {
	if s.sticky() {
		return sets.picks
	}
	return sets.slots
}

// noteBackend notes the elements other than slots for a change of one backend of the frontend with a
// key. A backend without an address does not exist.
func (c *transaction) noteBackend(t *table, sets *sets, at []byte, was, is backend) {
	switch {
	case was.idle() && !is.idle():
		c.note(c.del, sets.idle, append(at, t.backendKey(was.addr)...), nil)
	case is.idle() && !was.idle():
		c.note(c.add, sets.idle, append(at, t.backendKey(is.addr)...), nil)
	}
	if was.member == is.member {
		return
	}
	if was.member != 0 {
		c.note(c.del, sets.slots, append(at, number(was.member)...), nil)
	}
	if is.member != 0 {
		c.note(c.add, sets.slots, append(at, number(is.member)...), t.backendKey(is.addr))
	}
}

// idle reports whether a backend exists and takes no new connections.
func (b backend) idle() bool { return b.addr.IsValid() && b.weight == 0 }

// commit sends the transaction. If it fails, nothing has changed.
func (c *transaction) commit() error {
	err := c.queue()
	if err == nil {
		err = c.conn.Flush()
	}
	if err == nil {
		for _, k := range c.removedChains {
			delete(k.table.chains, k.class)
		}
		return nil
	}
	for k, before := range c.formerUse {
		if before.number == 0 {
			delete(k.table.chains, k.class)
		} else {
			k.table.chains[k.class] = before
		}
	}
	return err
}

// queue queues the messages in order: chains before the elements that refer to them, removals
// before the additions that replace them.
func (c *transaction) queue() error {
	touched := slices.SortedFunc(maps.Keys(c.formerUse), func(a, b chainKey) int { return strings.Compare(a.class.chain(), b.class.chain()) })
	var errs []error
	for _, k := range touched {
		before, now := c.formerUse[k], k.table.chains[k.class]
		switch {
		case before.number == 0:
			errs = append(errs, c.addChain(k.table, k.class, now.number))
		case before.servers > 0 && now.servers == 0 && k.table.idle() > maxIdleChains:
			c.removedChains = append(c.removedChains, k)
		}
	}
	for _, s := range c.order {
		for part := range slices.Chunk(c.del[s], chunk) {
			errs = append(errs, c.conn.SetDeleteElements(s, part))
		}
	}
	for _, s := range c.order {
		for part := range slices.Chunk(c.add[s], chunk) {
			errs = append(errs, c.conn.SetAddElements(s, part))
		}
	}
	for _, k := range c.removedChains {
		errs = append(errs, c.conn.SetDeleteElements(k.table.setsOf(k.class.outside).classes, []nftables.SetElement{{Key: number(c.formerUse[k].number)}}))
		c.conn.DelChain(&nftables.Chain{Name: k.class.chain(), Table: k.table.Table})
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("elements: %w", err)
	}
	return nil
}

func (c *transaction) addChain(t *table, cl class, n uint32) error {
	chain := c.conn.AddChain(&nftables.Chain{Name: cl.chain(), Table: t.Table})
	for _, exprs := range t.rules(cl) {
		c.conn.AddRule(&nftables.Rule{Table: t.Table, Chain: chain, Exprs: exprs})
	}
	return c.conn.SetAddElements(t.setsOf(cl.outside).classes, []nftables.SetElement{{
		Key: number(n), VerdictData: &expr.Verdict{Kind: expr.VerdictGoto, Chain: chain.Name},
	}})
}
