package kernel

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"

	"portolan.dev/nodeagent/plan"
)

// inherit takes over what another plane forwards.
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
			f = &front{at: key.Frontend}
			p.fronts[key.Frontend] = f
		}
		if f.servers[key.Audience] == nil {
			f.servers[key.Audience] = v
		}
	}
	for _, f := range p.fronts {
		if f.split() && !f.standIn.IsValid() {
			f.standIn = p.standIns.take(f.at.Addr.Addr())
		}
		p.journal.Put(journalKey(f.at), string(f.appendRecord(nil)))
	}
	return p.journal.Flush()
}

// Predecessor is a plane of another kind whose process has ended and which still
// forwards. Looking at it changes nothing.
type Predecessor struct{ plane *Plane }

// Precede finds what a plane with these options has left. There is none without
// a journal.
func Precede(o Options, open func() (Balancer, error)) (*Predecessor, error) {
	p := &Plane{
		opts: o, log: slog.New(slog.DiscardHandler), kick: make(chan struct{}, 1),
		fronts: map[plan.Frontend]*front{}, services: map[plan.Frontend]*service{}, standIns: newStandIns(), vips: map[netip.Addr]int{},
		draining: map[*service]bool{},
	}
	err := Within(o.Namespace, func() (err error) {
		if p.balancer, err = open(); err != nil {
			return err
		}
		p.traits = p.balancer.Traits()
		p.journal, err = OpenJournal(o.Journal)
		return err
	})
	if err == nil {
		err = p.recollect()
	}
	if err != nil {
		return nil, errors.Join(err, p.free())
	}
	return &Predecessor{p}, nil
}

// State is what the predecessor forwards, what drains aside.
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

// Before are the values that settings had before the predecessor, by their names,
// for the plane that puts them back.
func (d *Predecessor) Before() map[string]string { return d.plane.foundSettings() }

// Leave takes the predecessor's balancing out of the kernel, and its journal.
// What planes share stays for the one that has taken its place.
func (d *Predecessor) Leave() error {
	var ops []Op
	for _, s := range d.plane.services {
		ops = append(ops, Op{Kind: DeleteServer, ID: s.id})
	}
	err := errors.Join(append(d.plane.balancer.Apply(ops), d.plane.balancer.Remove())...)
	if err != nil {
		return fmt.Errorf("the data plane before: %w", err)
	}
	return d.plane.journal.Remove()
}

// Close frees what is open.
func (d *Predecessor) Close() error { return d.plane.free() }
