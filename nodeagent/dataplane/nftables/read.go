package nftables

import (
	"bytes"
	"errors"
	"maps"
	"net/netip"
	"os"
	"slices"

	"github.com/google/nftables"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/plan"
)

// Read implements kernel.Balancer. It also repairs contradictions, and removes servers that are not
// in ids.
func (b *balancer) Read(ids []kernel.ID) (map[plan.Frontend]kernel.Server, error) {
	asked := make(map[key]bool, len(ids))
	for _, id := range ids {
		asked[keyOf(id)] = true
	}
	sound := true
	for _, t := range b.tables {
		r, err := b.readTable(t)
		if err != nil {
			return nil, err
		}
		for k, s := range r.servers {
			if !asked[k] {
				delete(r.servers, k)
				r.sound = false
			} else if mine := t.servers[k]; mine != nil && mine.equal(s) {
				r.servers[k] = mine // with the original weights
			}
		}
		t.servers = r.servers
		t.recount(r.numbers)
		sound = sound && r.sound
	}
	if !sound {
		if err := b.install(); err != nil {
			return nil, err
		}
	}
	b.mirrorValid = true
	out := make(map[plan.Frontend]kernel.Server, len(ids))
	for _, id := range ids {
		if s := b.tableOf(id.For).servers[keyOf(id)]; s != nil {
			out[id.Frontend] = s.toKernel()
		}
	}
	return out, nil
}

// Own implements kernel.Balancer. The tables have the balancer's name, so all servers in them are its own.
func (b *balancer) Own() ([]kernel.ID, error) {
	var ids []kernel.ID
	for _, t := range b.tables {
		r, err := b.readTable(t)
		if err != nil {
			return nil, err
		}
		for k := range r.servers {
			id := kernel.ID{For: k.Frontend}
			if !k.outside {
				id.Frontend = k.Frontend
			}
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// recount counts the servers of each chain. The numbers of the chains have been read from the
// kernel.
func (t *table) recount(numbers map[class]uint32) {
	clear(t.chains)
	for c, number := range numbers {
		t.last = max(t.last, number)
		t.chains[c] = chainUse{number: number}
	}
	for _, s := range t.servers {
		u := t.chains[s.class]
		u.servers++
		t.chains[s.class] = u
	}
}

// tableReader is the content of a table as read from the kernel.
type tableReader struct {
	*table
	servers map[key]*server
	classes map[uint32]class
	numbers map[class]uint32
	members map[member]netip.AddrPort
	sound   bool // no contradiction has been found so far
}

// member is a number of a member of a server.
type member struct {
	of     *server
	number uint32
}

// maxReadings is the number of times that a table is read until two readings agree.
const maxReadings = 10

var errReadingsDiffer = errors.New("every reading of the tables differs from the one before")

// readTable reads the servers of a table, as often as it takes to trust a reading.
func (b *balancer) readTable(t *table) (*tableReader, error) {
	return readTwice(t.servers, func() (*tableReader, error) { return b.readOnce(t) })
}

// readTwice calls read until a reading equals the mirror or the reading before. A list from the
// kernel may lack elements without a sign of it: if the list takes several messages, and the kernel
// resizes the hash table of the set in between, which it does shortly after large changes. Servers
// that a single reading lacks must not be taken for lost, because the repair would remove them from
// the kernel for a moment.
func readTwice(mirror map[key]*server, read func() (*tableReader, error)) (*tableReader, error) {
	var former *tableReader
	for range maxReadings {
		r, err := read()
		if err != nil {
			return nil, err
		}
		if r.sound && equalServers(r.servers, mirror) || former != nil && r.equal(former) {
			return r, nil
		}
		former = r
	}
	return nil, errReadingsDiffer
}

// equal reports whether two readings of a table have the same result.
func (r *tableReader) equal(o *tableReader) bool {
	return r.sound == o.sound && maps.Equal(r.numbers, o.numbers) && equalServers(r.servers, o.servers)
}

func equalServers(a, b map[key]*server) bool { return maps.EqualFunc(a, b, (*server).equal) }

// readOnce reads the servers of a table. The reading is not sound if any part of the table does not
// fit.
func (b *balancer) readOnce(t *table) (*tableReader, error) {
	r := &tableReader{table: t, servers: map[key]*server{}, classes: map[uint32]class{}, numbers: map[class]uint32{}, members: map[member]netip.AddrPort{}, sound: true}
	for i := range t.sets {
		outside, sets := i == 1, &t.sets[i]
		err := errors.Join(
			b.each(r, sets.classes, func(m netfilter.Member) bool { return r.class(m.Key, m.Chain, outside) }),
			b.each(r, sets.servers, func(m netfilter.Member) bool {
				return r.server(m.Key, m.Value, outside) && (m.Counts || !b.counts)
			}),
			b.each(r, sets.slots, func(m netfilter.Member) bool { return r.slot(m.Key, m.Value, outside) }),
			b.each(r, sets.picks, func(m netfilter.Member) bool { return r.pick(m.Key, m.Value, outside) }),
			b.each(r, sets.idle, func(m netfilter.Member) bool { return r.idle(m.Key, outside) }))
		if err != nil {
			return nil, err
		}
		r.setWeights(outside)
	}
	r.setMembers()
	rules, err := b.conn.CountRules(t.Table)
	if err != nil {
		return nil, err
	}
	sources, err := b.countSources(t)
	r.sound = r.sound && r.rulesMatch(rules) && sources
	return r, err
}

// each passes the elements of a set to take, which reports whether an element fits. If the set does
// not exist, the reading is not sound.
func (b *balancer) each(r *tableReader, s *nftables.Set, take func(netfilter.Member) bool) error {
	err := b.conn.Elements(s, func(m netfilter.Member) { r.sound = take(m) && r.sound })
	if errors.Is(err, os.ErrNotExist) {
		r.sound = false
		return nil
	}
	return err
}

// countSources reports whether the kernel has as many source ranges as the balancer.
func (b *balancer) countSources(t *table) (bool, error) {
	same := true
	for s, want := range map[*nftables.Set][]netip.Prefix{t.pods: b.sources.Pods, t.nodes: b.sources.Node} {
		n := 0
		err := b.conn.Elements(s, func(m netfilter.Member) {
			if len(bytes.Trim(m.Key, "\x00")) > 0 { // some kernels report the space before the first range
				n++
			}
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
		for _, e := range netfilter.IntervalElements(want, t.V6) {
			if len(bytes.Trim(e.Key, "\x00")) > 0 {
				n--
			}
		}
		same = same && n == 0
	}
	return same, nil
}

// rulesMatch reports whether the table has exactly the rules that its servers need.
func (r *tableReader) rulesMatch(rules map[string]int) bool {
	want := map[string]int{}
	for _, c := range r.base() {
		want[c.Name] = len(c.rules)
	}
	for c := range r.numbers { // including chains that no server uses at the moment
		want[c.chain()] = len(r.rules(c))
	}
	return maps.Equal(rules, want)
}

// class reads an element that maps a number to the chain of a class.
func (r *tableReader) class(number []byte, chain string, outside bool) bool {
	c, err := parseClass(chain)
	if err != nil || len(number) != 4 || c.outside != outside {
		return false
	}
	n, tagged := numberOf(number)
	_, twice := r.numbers[c]
	r.classes[n], r.numbers[c] = c, n
	return tagged && !twice
}

// server reads an element that maps a frontend to the number of its class.
func (r *tableReader) server(at, number []byte, outside bool) bool {
	f, err := r.frontendOf(at)
	if err != nil || len(number) != 4 {
		return false
	}
	n, tagged := numberOf(number)
	c, ok := r.classes[n]
	if !ok || c.outside != outside {
		return false
	}
	r.servers[key{f, outside}] = &server{class: c, slots: make([]netip.AddrPort, c.slots)}
	return tagged
}

// serverOf returns the server at the beginning of an element's key, and the other part of the key.
func (r *tableReader) serverOf(k []byte, outside bool) (s *server, rest []byte) {
	at, err := r.frontendOf(k)
	if err != nil {
		return nil, nil
	}
	return r.servers[key{at, outside}], k[r.AddrLen()+8:]
}

// slot reads an element of the map slots. Earlier versions had no members, and their numbers had no
// tag.
func (r *tableReader) slot(k, value []byte, outside bool) bool {
	s, rest := r.serverOf(k, outside)
	addr, err := r.backendOf(value)
	if s == nil || err != nil || len(rest) != 4 {
		return false
	}
	switch n, tagged := numberOf(rest); {
	case tagged && s.sticky():
		r.members[member{s, n}] = addr
		return n&memberBit != 0
	case n >= uint32(len(s.slots)):
		return false
	default:
		s.slots[n] = addr
		return tagged
	}
}

// pick reads an element of the map picks.
func (r *tableReader) pick(k, value []byte, outside bool) bool {
	s, rest := r.serverOf(k, outside)
	i, ok := numberOf(rest)
	n, ok2 := numberOf(value)
	if s == nil || !ok || !ok2 || !s.sticky() || i >= uint32(len(s.slots)) {
		return false
	}
	s.slots[i] = r.members[member{s, n}]
	return s.slots[i].IsValid()
}

func (r *tableReader) idle(k []byte, outside bool) bool {
	s, rest := r.serverOf(k, outside)
	addr, err := r.backendOf(rest)
	if s == nil || err != nil {
		return false
	}
	s.set(addr, 0)
	return true
}

// setWeights derives the backends' weights from the slots and removes empty slots.
func (r *tableReader) setWeights(outside bool) {
	for k, s := range r.servers {
		if k.outside != outside {
			continue
		}
		weights := map[netip.AddrPort]uint32{}
		for _, addr := range s.slots {
			if addr.IsValid() {
				weights[addr]++
			}
		}
		s.slots = slices.DeleteFunc(s.slots, func(addr netip.AddrPort) bool { return !addr.IsValid() })
		r.sound = r.sound && len(s.slots) == s.class.slots
		s.class.slots = len(s.slots)
		for addr, n := range weights {
			if _, idle := s.find(addr); idle {
				r.sound = false
			}
			if s.Scheduler == plan.Maglev.String() {
				n = 1
			}
			s.set(addr, n)
		}
	}
}

// setMembers stores the numbers of members. Those that are missing are assigned.
func (r *tableReader) setMembers() {
	for m, addr := range r.members {
		i, ok := m.of.find(addr)
		if !ok || m.of.backends[i].weight == 0 || m.of.backends[i].member != 0 {
			r.sound = false
			continue
		}
		m.of.backends[i].member = m.number
	}
	for _, s := range r.servers {
		r.sound = s.assignMembers() == 0 && r.sound
	}
}
