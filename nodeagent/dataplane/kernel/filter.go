package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
)

// The names of our table, in the families ip and ip6.
const filterTable = "portolan"

// chunk is how many elements go into one message.
const chunk = 500

// Filter is the packet filter around a load balancer: a fixed set of rules, and
// sets that say what they are about. A change is one transaction.
//
// It is not safe for concurrent use.
type Filter struct {
	netns    string
	conn     *nftables.Conn
	tables   [2]*table // IPv4, IPv6
	pods     []netip.Prefix
	nodes    []netip.Prefix
	ranges   []netip.Prefix
	standIns []netip.Prefix
	have     map[Element]int // how many want it
	// installed: the kernel has it. Before that, changes are only noted.
	installed bool
}

// NewFilter returns a filter that is not in the kernel before Install. Ranges
// are virtual addresses, stand-ins too, but nobody may ask for those.
func NewFilter(netns string, ranges, standIns []netip.Prefix) (*Filter, error) {
	f := &Filter{
		netns: netns, ranges: slices.Concat(ranges, standIns), standIns: standIns, have: map[Element]int{},
		tables: [2]*table{newTable(filterTable, false), newTable(filterTable, true)},
	}
	return f, f.open()
}

func (f *Filter) open() error {
	buffers := func(c *netlink.Conn) error {
		return errors.Join(c.SetReadBuffer(16<<20), c.SetWriteBuffer(64<<20))
	}
	err := Within(f.netns, func() (err error) {
		f.conn, err = nftables.New(nftables.AsLasting(), nftables.WithSockOptions(buffers))
		return err
	})
	if err != nil {
		return fmt.Errorf("packet filter: %w", err)
	}
	return nil
}

// Close frees the socket and leaves the rules.
func (f *Filter) Close() error { return f.conn.CloseLasting() }

// SetSources says who is inside.
func (f *Filter) SetSources(pods, nodes []netip.Prefix) error {
	f.pods, f.nodes = pods, nodes
	if !f.installed {
		return nil
	}
	for _, t := range f.tables {
		f.conn.FlushSet(t.sets[podSet])
		f.conn.FlushSet(t.sets[nodeSet])
		if err := f.addSources(t); err != nil {
			return err
		}
	}
	if f.flush() == nil {
		return nil
	}
	return f.Install()
}

func (f *Filter) addSources(t *table) error {
	return errors.Join(
		f.add(t.sets[podSet], ranges(f.pods, t.V6)),
		f.add(t.sets[nodeSet], ranges(f.nodes, t.V6)))
}

// Change is what one transaction does. An element that several want stays until
// nobody does.
type Change struct {
	Remove, Add []Element
}

// Commit carries out a change. If the kernel refuses it because it is not as
// expected, everything is built anew at once, which no packet notices.
func (f *Filter) Commit(c Change) error {
	var gone, come []Element
	for _, e := range c.Remove {
		switch f.have[e]--; {
		case f.have[e] == 0:
			gone = append(gone, e)
			delete(f.have, e)
		case f.have[e] < 0:
			delete(f.have, e)
		}
	}
	for _, e := range c.Add {
		if f.have[e]++; f.have[e] == 1 {
			come = append(come, e)
		}
	}
	if len(gone)+len(come) == 0 || !f.installed {
		return nil
	}
	err := errors.Join(f.change(gone, f.conn.SetDeleteElements), f.change(come, f.conn.SetAddElements))
	if err != nil {
		return err
	}
	if f.flush() == nil {
		return nil
	}
	return f.Install()
}

// change queues elements, set by set.
func (f *Filter) change(elements []Element, queue func(*nftables.Set, []nftables.SetElement) error) error {
	bySet := map[*nftables.Set][]nftables.SetElement{}
	var order []*nftables.Set
	for _, e := range elements {
		s := f.tableOf(e).sets[e.Set]
		if bySet[s] == nil {
			order = append(order, s)
		}
		bySet[s] = append(bySet[s], e.element())
	}
	for _, s := range order {
		for part := range slices.Chunk(bySet[s], chunk) {
			if err := queue(s, part); err != nil {
				return fmt.Errorf("set %s: %w", s.Name, err)
			}
		}
	}
	return nil
}

func (f *Filter) tableOf(e Element) *table {
	if e.V6 {
		return f.tables[1]
	}
	return f.tables[0]
}

func (e Element) element() nftables.SetElement {
	out := nftables.SetElement{Key: []byte(e.Key)}
	if e.End != "" {
		out.KeyEnd = []byte(e.End)
	}
	switch e.Set {
	case MasqueradeMap:
		out.VerdictData = &expr.Verdict{Kind: expr.VerdictJump, Chain: e.Value}
	case SplitMap:
		out.Val = []byte(e.Value)
	}
	return out
}

func (f *Filter) add(s *nftables.Set, elements []nftables.SetElement) error {
	if len(elements) == 0 {
		return nil
	}
	return f.conn.SetAddElements(s, elements)
}

// flush sends what is queued. After an error the socket is replaced: answers
// may be left on it.
func (f *Filter) flush() error {
	err := f.conn.Flush()
	if err == nil {
		return nil
	}
	f.conn.CloseLasting() //nolint:errcheck // it is replaced
	return errors.Join(fmt.Errorf("packet filter: %w", err), f.open())
}

// Install builds the whole filter in one transaction, in the place of what is
// there.
func (f *Filter) Install() error {
	for _, t := range f.tables {
		f.conn.AddTable(t.Table)
		f.conn.DelTable(t.Table)
		f.conn.AddTable(t.Table)
		if err := f.build(t); err != nil {
			return err
		}
	}
	all := make([]Element, 0, len(f.have))
	for e := range f.have {
		all = append(all, e)
	}
	if err := f.change(all, f.conn.SetAddElements); err != nil {
		return err
	}
	if err := f.flush(); err != nil {
		return err
	}
	f.installed = true
	return nil
}

func (f *Filter) build(t *table) error {
	for _, s := range t.sets {
		if s.Name == string(MasqueradeMap) {
			continue // its elements name chains
		}
		if err := f.conn.AddSet(s, nil); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	all := t.chains()
	made := map[string]*nftables.Chain{}
	for _, c := range all {
		nc := &nftables.Chain{Name: c.name, Table: t.Table}
		if c.hook != nil {
			nc.Type, nc.Hooknum, nc.Priority = c.kind, c.hook, nftables.ChainPriorityRef(nftables.ChainPriority(c.priority))
		}
		made[c.name] = f.conn.AddChain(nc)
	}
	if err := f.conn.AddSet(t.sets[MasqueradeMap], nil); err != nil {
		return err
	}
	for _, c := range all {
		for _, r := range c.rules {
			f.conn.AddRule(&nftables.Rule{Table: t.Table, Chain: made[c.name], Exprs: r})
		}
	}
	return errors.Join(f.addSources(t),
		f.add(t.sets[rangeSet], ranges(f.ranges, t.V6)), f.add(t.sets[standInSet], ranges(f.standIns, t.V6)))
}

// Remove takes the filter out of the kernel.
func (f *Filter) Remove() error {
	for _, t := range f.tables {
		f.conn.AddTable(t.Table) // so that there is one to delete
		f.conn.DelTable(t.Table)
	}
	clear(f.have)
	f.installed = false
	return f.flush()
}

// Drift tells in words how the kernel differs from what was committed.
func (f *Filter) Drift() []string {
	var out []string
	for _, t := range f.tables {
		out = append(out, f.drift(t)...)
	}
	return out
}

func (f *Filter) drift(t *table) []string {
	family := "ip"
	if t.V6 {
		family = "ip6"
	}
	expected := map[Set]int{
		podSet: len(ranges(f.pods, t.V6)), nodeSet: len(ranges(f.nodes, t.V6)),
		rangeSet: len(ranges(f.ranges, t.V6)), standInSet: len(ranges(f.standIns, t.V6)),
	}
	for e := range f.have {
		if e.V6 == t.V6 {
			expected[e.Set]++
		}
	}
	var out []string
	for name, s := range t.sets {
		have, err := f.conn.GetSetElements(s)
		if err != nil {
			return []string{fmt.Sprintf("table %s %s: set %s: %v", family, t.Name, name, err)}
		}
		if n := len(have) - unbounded(have); n != expected[name] {
			out = append(out, fmt.Sprintf("table %s %s: set %s has %d elements, not %d", family, t.Name, name, n, expected[name]))
		}
	}
	rules, err := CountRules(f.netns, t.Table)
	if err != nil {
		return append(out, fmt.Sprintf("table %s %s: rules: %v", family, t.Name, err))
	}
	for _, c := range t.chains() {
		if n := rules[c.name]; n != len(c.rules) {
			out = append(out, fmt.Sprintf("table %s %s: chain %s has %d rules, not %d", family, t.Name, c.name, n, len(c.rules)))
		}
	}
	return out
}

// unbounded counts the marks of the space before the first range, which some
// kernels report.
func unbounded(elements []nftables.SetElement) int {
	n := 0
	for _, e := range elements {
		if e.IntervalEnd && !slices.ContainsFunc(e.Key, func(b byte) bool { return b != 0 }) {
			n++
		}
	}
	return n
}

func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
