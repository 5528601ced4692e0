package machine

import (
	"maps"
	"net/netip"
	"slices"

	"portolan.dev/nodeagent/dataplane/packetfilter"
)

// rules are the content of a packet filter.
type rules struct {
	pods, nodes []netip.Prefix
	elements    map[packetfilter.Element]bool
}

func newRules() *rules { return &rules{elements: map[packetfilter.Element]bool{}} }

func (r *rules) clone() *rules { return &rules{r.pods, r.nodes, maps.Clone(r.elements)} }

func (r *rules) equal(o *rules) bool {
	return slices.Equal(r.pods, o.pods) && slices.Equal(r.nodes, o.nodes) && maps.Equal(r.elements, o.elements)
}

// filter implements kernel.PacketFilter.
type filter struct {
	process    *Process
	wanted     *rules
	references map[packetfilter.Element]int // additions of an element minus its removals
	installed  bool
}

// SetSources implements kernel.PacketFilter.
func (f *filter) SetSources(pods, nodes []netip.Prefix) error {
	f.wanted.pods, f.wanted.nodes = pods, nodes
	return f.update()
}

// Commit implements kernel.PacketFilter.
func (f *filter) Commit(c packetfilter.Change) error {
	for _, e := range c.Remove {
		if f.references[e]--; f.references[e] <= 0 {
			delete(f.references, e)
			delete(f.wanted.elements, e)
		}
	}
	for _, e := range c.Add {
		f.references[e]++
		f.wanted.elements[e] = true
	}
	return f.update()
}

// update installs the wanted rules if the filter is already installed.
func (f *filter) update() error {
	if !f.installed {
		return nil
	}
	return f.Install()
}

// Install implements kernel.PacketFilter.
func (f *filter) Install() error {
	if err := f.process.lock(); err != nil {
		return err
	}
	defer f.process.machine.mu.Unlock()
	f.process.machine.filter, f.installed = f.wanted.clone(), true
	return nil
}

// Installed implements kernel.PacketFilter.
func (f *filter) Installed() bool { return f.installed }

// Read implements kernel.PacketFilter.
func (f *filter) Read() (drift func() []string, err error) {
	if err := f.process.lock(); err != nil {
		return nil, err
	}
	defer f.process.machine.mu.Unlock()
	found := newRules()
	if have := f.process.machine.filter; have != nil {
		found = have.clone()
	}
	return func() []string {
		if found.equal(f.wanted) {
			return nil
		}
		return []string{"the packet filter differs"}
	}, nil
}

// Changed implements kernel.PacketFilter.
func (*filter) Changed() <-chan struct{} { return nil }

// Remove implements kernel.PacketFilter.
func (f *filter) Remove() error {
	if err := f.process.lock(); err != nil {
		return err
	}
	defer f.process.machine.mu.Unlock()
	f.process.machine.filter, f.installed = nil, false
	return nil
}

// Close implements kernel.PacketFilter.
func (*filter) Close() error { return nil }
