package packetfilter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/netfilter"
)

// filterTable is the name of the plane's table, in the families ip and ip6.
const filterTable = "portolan"

// chunk is the number of elements in one message.
const chunk = 500

// Filter is the packet filter around a balancer: a fixed set of rules, and sets that hold their
// parameters. A change is one transaction.
//
// A Filter is not safe for concurrent use.
type Filter struct {
	netns    string
	conn     *netfilter.Conn
	tables   [2]*table // IPv4, IPv6
	pods     []netip.Prefix
	nodes    []netip.Prefix
	ranges   []netip.Prefix
	standIns []netip.Prefix
	have     map[Element]int // number of users of each element
	// installed is set if the kernel has the filter. Before that, changes are only recorded.
	installed bool
	// bridged is the setting for which the rules were made.
	bridged host.Bridged
	// structure is the structure of the rules as read back from the kernel.
	structure []string
	watch     *host.Watch
	port      atomic.Uint32 // of the socket that makes our changes
}

// New returns a filter that is not in the kernel before Install. Ranges are the virtual
// addresses. Stand-ins are virtual addresses too, but clients may not use them directly.
func New(netns string, ranges, standIns []netip.Prefix) (*Filter, error) {
	f := &Filter{
		netns: netns, ranges: slices.Concat(ranges, standIns), standIns: standIns, have: map[Element]int{},
		tables: [2]*table{newTable(filterTable, false), newTable(filterTable, true)},
	}
	var err error
	if f.watch, err = host.NewWatch(netns, unix.NETLINK_NETFILTER, 1<<(unix.NFNLGRP_NFTABLES-1), f.changedByOthers); err != nil {
		return nil, err
	}
	if f.conn, err = netfilter.Dial(netns); err != nil {
		f.watch.Close()
		return nil, err
	}
	f.port.Store(f.conn.PortID())
	return f, nil
}

// changedByOthers reports whether a message is about a change of our tables by another program. The
// first attribute of every kind of object is the name of its table.
func (f *Filter) changedByOthers(m *netlink.Message) bool {
	const newGeneration = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWGEN
	return m.Header.PID != f.port.Load() && m.Header.Type != newGeneration && len(m.Data) > 4 &&
		netfilter.Text(netfilter.Attribute(m.Data[4:], unix.NFTA_TABLE_NAME)) == filterTable
}

// Close closes the sockets and leaves the rules in the kernel.
func (f *Filter) Close() error {
	f.watch.Close()
	return f.conn.CloseLasting()
}

// Changed returns a channel that receives a token when another program has changed our tables.
func (f *Filter) Changed() <-chan struct{} { return f.watch.Changed() }

// SetSources sets the sources of internal traffic.
func (f *Filter) SetSources(pods, nodes []netip.Prefix) error {
	rules := [2]bool{PodsKnown(f.pods, false), PodsKnown(f.pods, true)}
	f.pods, f.nodes = pods, nodes
	switch {
	case !f.installed:
		return nil
	case rules != [2]bool{PodsKnown(pods, false), PodsKnown(pods, true)}:
		return f.Install()
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
		f.add(t.sets[podSet], netfilter.IntervalElements(f.pods, t.V6)),
		f.add(t.sets[nodeSet], netfilter.IntervalElements(f.nodes, t.V6)))
}

// Commit carries out a change. If the kernel refuses it because its state differs from the expected
// one, Commit builds everything anew in one transaction, without an effect on packets. If the
// kernel refuses some of the elements, the error is a *RefusedError.
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
	err := f.send(gone, come)
	if err == nil {
		return nil
	}
	again := f.Install()
	if again == nil || len(come) == 0 || errors.Is(again, os.ErrDeadlineExceeded) {
		return again
	}
	return f.addAccepted(come)
}

func (f *Filter) send(gone, come []Element) error {
	err := errors.Join(f.change(gone, f.conn.SetDeleteElements), f.change(come, f.conn.SetAddElements))
	if err != nil {
		return err
	}
	return f.flush()
}

// addAccepted builds the filter without the elements that were just added, because the kernel refuses some of
// them. It then adds the elements that the kernel accepts.
func (f *Filter) addAccepted(come []Element) error {
	counts := make([]int, len(come))
	for i, e := range come {
		counts[i] = f.have[e]
		delete(f.have, e)
	}
	if err := f.Install(); err != nil { // the elements are not the cause
		for i, e := range come {
			f.have[e] = counts[i]
		}
		return err
	}
	refused := &RefusedError{Elements: map[Element]error{}}
	f.insert(come, counts, refused)
	if len(refused.Elements) == 0 {
		return nil
	}
	return refused
}

// insert adds the elements that the kernel accepts, by halves.
func (f *Filter) insert(come []Element, counts []int, refused *RefusedError) {
	err := f.send(nil, come)
	switch half := len(come) / 2; {
	case err == nil:
		for i, e := range come {
			f.have[e] = counts[i]
		}
	case half == 0 || errors.Is(err, os.ErrDeadlineExceeded):
		for _, e := range come {
			refused.Elements[e] = err
		}
	default:
		f.insert(come[:half], counts[:half], refused)
		f.insert(come[half:], counts[half:], refused)
	}
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
	switch {
	case e.Set.masquerades():
		out.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: e.Value}
	case e.Set == SplitMap:
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

// flush sends the queued messages.
func (f *Filter) flush() error {
	err := f.conn.Flush()
	if err != nil { // the socket was replaced
		f.port.Store(f.conn.PortID())
	}
	return err
}

// Install builds the whole filter in one transaction and replaces the existing one.
func (f *Filter) Install() error {
	err := f.install()
	if err != nil && f.tables[0].sets[DeniedSet].Counter { // kernels before 5.7 cannot count elements
		for _, t := range f.tables {
			for name := range dropping {
				t.sets[name].Counter = false
			}
		}
		if f.install() == nil {
			return nil
		}
		for _, t := range f.tables { // counters were not the cause
			for name := range dropping {
				t.sets[name].Counter = true
			}
		}
	}
	return err
}

func (f *Filter) install() error {
	f.bridged = host.ReadBridged(f.netns)
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
	err := f.send(nil, all)
	if err == nil {
		f.installed = true
		f.structure, err = readStructure(f.netns)
	}
	return err
}

func (f *Filter) build(t *table) error {
	for _, s := range t.sets {
		if Set(s.Name).masquerades() {
			continue // its elements name chains
		}
		if err := f.conn.AddSet(s, nil); err != nil {
			return fmt.Errorf("set %s: %w", s.Name, err)
		}
	}
	all := t.chains(PodsKnown(f.pods, t.V6), f.bridged.Of(t.V6))
	made := map[string]*nftables.Chain{}
	for _, c := range all {
		nc := &nftables.Chain{Name: c.name, Table: t.Table}
		if c.hook != nil {
			nc.Type, nc.Hooknum, nc.Priority = c.kind, c.hook, nftables.ChainPriorityRef(nftables.ChainPriority(c.priority))
		}
		made[c.name] = f.conn.AddChain(nc)
	}
	for _, name := range masqueradeMaps {
		if err := f.conn.AddSet(t.sets[name], nil); err != nil {
			return err
		}
	}
	for _, c := range all {
		for _, r := range c.rules {
			f.conn.AddRule(&nftables.Rule{Table: t.Table, Chain: made[c.name], Exprs: r})
		}
	}
	return errors.Join(f.addSources(t),
		f.add(t.sets[rangeSet], netfilter.IntervalElements(f.ranges, t.V6)), f.add(t.sets[standInSet], netfilter.IntervalElements(f.standIns, t.V6)))
}

// Remove removes the filter from the kernel.
func (f *Filter) Remove() error {
	for _, t := range f.tables {
		f.conn.AddTable(t.Table) // so that DelTable finds one
		f.conn.DelTable(t.Table)
	}
	clear(f.have)
	f.installed = false
	return f.flush()
}

// RemoveTables removes the tables of a filter from a namespace, if there are any.
func RemoveTables(netns string) error {
	has, err := netfilter.HasTable(netns, filterTable)
	if err != nil || !has {
		return err
	}
	f, err := New(netns, nil, nil)
	if err != nil {
		return err
	}
	return errors.Join(f.Remove(), f.Close())
}

// Installed reports whether the kernel has the filter.
func (f *Filter) Installed() bool { return f.installed }

// Read reads our tables from the kernel. The returned function compares them with the state
// that is committed at the time of its call.
func (f *Filter) Read() (drift func() []string, err error) {
	tables, err := ReadTables(f.netns)
	if err != nil {
		return nil, err
	}
	return func() []string { return f.Drift(tables) }, nil
}

// Drift describes the differences between tables that were read from the kernel and the committed
// state.
func (f *Filter) Drift(have *Tables) []string {
	want := &Tables{structure: f.structure, bridged: f.bridged, elements: make(map[Element]struct{}, len(f.have))}
	for e := range f.have {
		want.elements[e] = struct{}{}
	}
	for _, t := range f.tables {
		for set, prefixes := range map[Set][]netip.Prefix{podSet: f.pods, nodeSet: f.nodes, rangeSet: f.ranges, standInSet: f.standIns} {
			for _, e := range netfilter.IntervalElements(prefixes, t.V6) {
				it := Element{V6: t.V6, Set: set, Key: string(e.Key)}
				if e.IntervalEnd {
					it.Value = intervalEnd
				}
				want.elements[it] = struct{}{}
			}
		}
	}
	return have.differences(want)
}

func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
