package handover

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/nftables"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/machine"
)

// Table are the hand-overs of this node, in the kernel. It is safe for concurrent use.
type Table struct {
	netns  string
	tables [2]*table // IPv4, IPv6

	mu     sync.Mutex
	conn   *netfilter.Conn
	closed bool
	have   []handOver // ordered by address; ended ones may still be in it
	// installed is set if the kernel has tables, perhaps without elements.
	installed bool
}

var _ machine.HandOvers = (*Table)(nil)

// handOver is the hand-over of an address to its previous node.
type handOver struct {
	addr, via netip.Addr
	until     time.Time
}

// Open opens the hand-overs in a namespace. Hand-overs of an earlier agent stay in force.
func Open(netns string) (*Table, error) {
	conn, err := netfilter.Dial(netns)
	if err != nil {
		return nil, fmt.Errorf("hand-overs: %w", err)
	}
	t := &Table{netns: netns, conn: conn, tables: [2]*table{newTable(false), newTable(true)}}
	if t.have, err = t.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("hand-overs: %w", err), conn.CloseLasting())
	}
	return t, nil
}

// read reads the hand-overs from the kernel, ordered by address.
func (t *Table) read() (all []handOver, err error) {
	for _, family := range t.tables {
		err := t.conn.Elements(family.previous, func(m netfilter.Member) {
			addr, _ := netip.AddrFromSlice(m.Key) // the kernel keeps the lengths of the map's types
			via, _ := netip.AddrFromSlice(m.Value)
			all = append(all, handOver{addr, via, time.Now().Add(m.Expires)})
		})
		switch {
		case err == nil:
			t.installed = true
		case !errors.Is(err, os.ErrNotExist):
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b handOver) int { return a.addr.Compare(b.addr) })
	return all, nil
}

// Set implements machine.HandOvers.
func (t *Table) Set(all []machine.HandOver) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	want := make([]handOver, 0, len(all))
	for _, h := range all {
		want = append(want, handOver{h.Address, h.Via, now.Add(h.Left)})
	}
	slices.SortFunc(want, func(a, b handOver) int { return a.addr.Compare(b.addr) })
	if slices.EqualFunc(want, t.have, sameNode) && t.installed == (len(want) > 0) {
		return t.checkSetting()
	}
	return errors.Join(t.install(now, want), t.checkSetting())
}

func sameNode(a, b handOver) bool { return a.addr == b.addr && a.via == b.via }

// looseSetting makes connection tracking take a segment of an unknown connection for a new one.
const looseSetting = "net.netfilter.nf_conntrack_tcp_loose"

// checkSetting returns an error if the rules cannot recognize a segment of an unknown connection, because
// looseSetting is off.
func (t *Table) checkSetting() error {
	if !t.installed {
		return nil
	}
	return host.Within(t.netns, func() error {
		if value, err := (host.Sysctls{}).Setting(looseSetting); err == nil && value == "0" {
			return fmt.Errorf("hand-overs: %s is 0, so that segments of earlier connections are dropped: set it to 1", looseSetting)
		}
		return nil
	})
}

// install replaces the tables in one transaction. Packets see the old ones or the new ones.
func (t *Table) install(now time.Time, want []handOver) error {
	for _, family := range t.tables {
		var elements []nftables.SetElement
		for _, o := range want {
			if left := o.until.Sub(now); o.addr.Is6() == family.V6 && left >= time.Millisecond {
				elements = append(elements, element(o, left))
			}
		}
		t.conn.AddTable(family.Table) // so that DelTable does not fail
		t.conn.DelTable(family.Table)
		if len(elements) == 0 {
			continue
		}
		if err := family.build(t.conn, elements); err != nil {
			return fmt.Errorf("hand-overs: %w", err)
		}
	}
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("hand-overs: %w", err)
	}
	t.have, t.installed = want, len(want) > 0
	return nil
}

// Check implements machine.HandOvers.
func (t *Table) Check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	now := time.Now()
	t.have = slices.DeleteFunc(t.have, func(o handOver) bool { return now.After(o.until) })
	found, err := t.read()
	if err != nil {
		return fmt.Errorf("hand-overs: %w", err)
	}
	for _, o := range t.have {
		// An element that is about to end may be missing already.
		if !slices.ContainsFunc(found, func(other handOver) bool { return sameNode(o, other) }) && o.until.After(time.Now().Add(time.Second)) {
			return t.install(now, t.have)
		}
	}
	return nil
}

// Close implements machine.HandOvers.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	return t.conn.CloseLasting()
}
