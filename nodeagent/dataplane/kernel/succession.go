package kernel

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/plan"

	"portolan.dev/services/kit/wake"
)

// inherit takes over the state of another plane.
func (p *Plane) inherit(from *plan.State) error {
	if from == nil {
		return nil
	}
	if len(p.sources.Pods)+len(p.sources.Node) == 0 {
		p.sources = from.Sources
		if err := errors.Join(p.filter.SetSources(p.sources.Pods, p.sources.Node), p.balancer.SetSources(p.sources)); err != nil {
			return err
		}
	}
	for key, v := range from.Servers {
		f := p.fronts[key.Frontend]
		if f == nil {
			f = &frontendState{at: key.Frontend}
			p.fronts[key.Frontend] = f
		}
		if f.servers[key.Audience] == nil {
			f.servers[key.Audience] = v
		}
	}
	for _, f := range p.fronts {
		if f.split() && !f.standIn.IsValid() {
			f.standIn = p.standIns.acquire(f.at.Addr.Addr())
		}
		p.journal.Put(journalKey(f.at), string(f.appendRecord(nil)))
	}
	return p.journal.Flush()
}

// Predecessor is a plane of another kind that still forwards although its process has ended.
// Reading it changes nothing.
type Predecessor struct{ plane *Plane }

// OpenPredecessor reads the state that a plane with these options has left.
func OpenPredecessor(o Options, open func() (Balancer, error)) (*Predecessor, error) {
	p := &Plane{
		opts: o, host: linux{netns: o.Namespace}, log: o.Log, wake: wake.New(),
		fronts: map[plan.Frontend]*frontendState{}, services: map[plan.Frontend]*service{}, standIns: newStandIns(), routedAddrs: map[netip.Addr]int{},
		draining: map[*service]bool{}, uncertain: map[plan.Frontend]uncertainServer{},
	}
	if p.log == nil {
		p.log = slog.New(slog.DiscardHandler)
	}
	err := host.Within(o.Namespace, func() (err error) {
		if p.balancer, err = open(); err != nil {
			return err
		}
		p.traits = p.balancer.Traits()
		return p.openJournals()
	})
	if err == nil {
		err = p.readJournalAndKernel()
	}
	if err != nil {
		return nil, errors.Join(err, p.free())
	}
	return &Predecessor{p}, nil
}

// State returns the predecessor's state without draining backends.
func (d *Predecessor) State() *plan.State {
	state := &plan.State{Sources: d.plane.sources, Servers: map[plan.Key]*plan.VirtualServer{}}
	for _, f := range d.plane.fronts {
		for _, v := range f.servers {
			if v != nil {
				state.Servers[v.Key] = v
			}
		}
	}
	return state
}

// OriginalSettings returns the values that settings had before the predecessor, by name, for the
// plane that will restore them.
func (d *Predecessor) OriginalSettings() map[string]string { return d.plane.arpSettings().original() }

// Remove removes the predecessor's balancer state from the kernel, and its journal. State that
// planes share stays for the plane that has replaced it.
func (d *Predecessor) Remove() error {
	var ops []Op
	for _, s := range d.plane.services {
		ops = append(ops, Op{Kind: DeleteServer, ID: s.id})
	}
	for _, u := range d.plane.uncertain {
		ops = append(ops, Op{Kind: DeleteServer, ID: u.id})
	}
	err := errors.Join(append(d.plane.balancer.Apply(ops), d.plane.balancer.Remove())...)
	if err != nil {
		return fmt.Errorf("the data plane before: %w", err)
	}
	return d.plane.removeJournals()
}

// Close closes all open resources.
func (d *Predecessor) Close() error { return d.plane.free() }
