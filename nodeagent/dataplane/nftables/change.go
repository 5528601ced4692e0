package nftables

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"portolan.dev/nodeagent/dataplane/kernel"
)

// step is what becomes of a server: from old to new, either of which may be nil.
type step struct {
	table    *table
	key      key
	old, new *server
	ops      []int // that asked for it
}

// change is one transaction.
type change struct {
	conn     *kernel.Nftables
	order    []*nftables.Set
	del, add map[*nftables.Set][]nftables.SetElement
	used     map[chainKey]int // of chains that are touched: how many servers used them
	size     int
}

type chainKey struct {
	table *table
	class class
}

func newChange(conn *kernel.Nftables) *change {
	return &change{
		conn: conn, del: map[*nftables.Set][]nftables.SetElement{}, add: map[*nftables.Set][]nftables.SetElement{},
		used: map[chainKey]int{},
	}
}

func (c *change) note(in map[*nftables.Set][]nftables.SetElement, s *nftables.Set, e nftables.SetElement) {
	if !slices.Contains(c.order, s) {
		c.order = append(c.order, s)
	}
	in[s] = append(in[s], e)
	c.size++
}

// use counts servers of a class.
func (c *change) use(t *table, cl class, n int) {
	k := chainKey{t, cl}
	if _, ok := c.used[k]; !ok {
		c.used[k] = t.chains[cl]
	}
	t.chains[cl] += n
}

// take adds a step. It chooses the lane of a server that has come into another
// class.
func (c *change) take(s *step) {
	t := s.table
	if s.new != nil {
		switch {
		case s.old != nil && s.old.class.shape() == s.new.class.shape():
			s.new.class = s.old.class
		case s.new.counts():
			s.new.class = t.quietest(s.new.class)
		}
	}
	if s.old != nil {
		c.use(t, s.old.class, -1)
	}
	if s.new != nil {
		c.use(t, s.new.class, 1)
	}
	c.differ(s)
}

// quietest is the lane of a class that the fewest servers share.
func (t *table) quietest(c class) class {
	best := c
	for c.lane = range lanes {
		if n := t.chains[c]; n < t.chains[best] {
			best = c
		}
		if t.chains[best] == 0 {
			break
		}
	}
	return best
}

// differ notes the elements that the step adds and removes.
func (c *change) differ(s *step) {
	t, sets := s.table, s.table.setsOf(s.key.outside)
	at := t.frontendKey(s.key.Frontend)
	was, is := t.elements(s.old, at), t.elements(s.new, at)
	for i, set := range sets.all() {
		for key, e := range was[i] {
			if now, ok := is[i][key]; !ok || now.value != e.value {
				c.note(c.del, set, nftables.SetElement{Key: []byte(key)})
			}
		}
		for key, e := range is[i] {
			if before, ok := was[i][key]; !ok || before.value != e.value {
				c.note(c.add, set, e.element(key))
			}
		}
	}
}

// value is that of an element: a backend, or a chain.
type value struct {
	value   string
	verdict bool
}

func (v value) element(key string) nftables.SetElement {
	e := nftables.SetElement{Key: []byte(key)}
	switch {
	case v.verdict:
		e.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: v.value}
	case v.value != "":
		e.Val = []byte(v.value)
	}
	return e
}

// elements are those of a server, in the order of the sets.
func (t *table) elements(s *server, at []byte) (out [4]map[string]value) {
	if s == nil {
		return out
	}
	frontend := string(at)
	out[0] = map[string]value{frontend: {s.class.chain(), true}}
	out[1] = make(map[string]value, len(s.slots))
	for i, addr := range s.slots {
		out[1][frontend+string(native(uint32(i)))] = value{value: string(t.backendKey(addr))}
	}
	out[2], out[3] = map[string]value{}, map[string]value{}
	for _, b := range s.backends {
		k := frontend + string(t.backendKey(b.addr))
		switch {
		case b.weight == 0:
			out[2][k] = value{}
		case s.sticky():
			out[3][k] = value{}
		}
	}
	return out
}

// commit sends the transaction. If it fails nothing has happened.
func (c *change) commit() error {
	err := c.queue()
	if err == nil {
		err = c.conn.Flush()
	}
	if err != nil {
		for k, n := range c.used {
			k.table.chains[k.class] = n
		}
	}
	for k := range c.used {
		if k.table.chains[k.class] == 0 {
			delete(k.table.chains, k.class)
		}
	}
	return err
}

// queue orders messages: chains before what leads to them, what goes before what
// comes in its place.
func (c *change) queue() error {
	var gone []chainKey
	touched := slices.SortedFunc(maps.Keys(c.used), func(a, b chainKey) int { return strings.Compare(a.class.chain(), b.class.chain()) })
	for _, k := range touched {
		before, now := c.used[k], k.table.chains[k.class]
		switch {
		case before == 0 && now > 0:
			c.addChain(k.table, k.class)
		case before > 0 && now == 0:
			gone = append(gone, k)
		}
	}
	var errs []error
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
	for _, k := range gone {
		c.conn.DelChain(&nftables.Chain{Name: k.class.chain(), Table: k.table.Table})
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("elements: %w", err)
	}
	return nil
}

func (c *change) addChain(t *table, cl class) {
	chain := c.conn.AddChain(&nftables.Chain{Name: cl.chain(), Table: t.Table})
	for _, exprs := range t.rules(cl) {
		c.conn.AddRule(&nftables.Rule{Table: t.Table, Chain: chain, Exprs: exprs})
	}
}
