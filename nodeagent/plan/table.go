package plan

import (
	"fmt"
	"maps"
	"slices"
)

// Table is what all services together want of the node. It settles who gets a
// frontend that several services claim: the oldest, so that nobody can take
// traffic away from a service by claiming its address later.
//
// A Table is not safe for concurrent use.
type Table struct {
	sources  Sources
	services map[ServiceName]*entry
	claims   map[Frontend][]*entry // who wants it, the owner first
	servers  map[Key]*VirtualServer
}

// entry is the plan of one service.
type entry struct {
	name    ServiceName
	created int64
	servers []*VirtualServer
}

func (e *entry) before(o *entry) int {
	if e.created != o.created {
		return int(min(max(e.created-o.created, -1), 1))
	}
	return e.name.Compare(o.name)
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{
		services: map[ServiceName]*entry{},
		claims:   map[Frontend][]*entry{},
		servers:  map[Key]*VirtualServer{},
	}
}

// SetSources changes the sources of the node.
func (t *Table) SetSources(s Sources) []Step {
	if t.sources.Equal(&s) {
		return nil
	}
	t.sources = s
	return []Step{{Op: SetSources, Sources: &s}}
}

// Sources returns the sources of the node.
func (t *Table) Sources() Sources { return t.sources }

// Set replaces the plan of one service, created at the given time (any unit),
// and returns the steps this takes, to be ordered with those of other services.
// No servers: the service is forgotten.
func (t *Table) Set(name ServiceName, created int64, servers []*VirtualServer) []Step {
	touched := map[Frontend]bool{}
	if old := t.services[name]; old != nil {
		t.withdraw(old, touched)
	}
	if len(servers) > 0 {
		e := &entry{name: name, created: created, servers: servers}
		t.services[name] = e
		t.claim(e, touched)
	}
	var steps []Step
	for f := range touched {
		steps = t.settle(steps, f)
	}
	return Order(steps)
}

func (t *Table) withdraw(e *entry, touched map[Frontend]bool) {
	delete(t.services, e.name)
	for _, v := range e.servers {
		touched[v.Frontend] = true
		left := slices.DeleteFunc(t.claims[v.Frontend], func(o *entry) bool { return o == e })
		if len(left) == 0 {
			delete(t.claims, v.Frontend)
			continue
		}
		t.claims[v.Frontend] = left
	}
}

func (t *Table) claim(e *entry, touched map[Frontend]bool) {
	for _, v := range e.servers {
		touched[v.Frontend] = true
		if claims := t.claims[v.Frontend]; !slices.Contains(claims, e) {
			claims = append(claims, e)
			slices.SortFunc(claims, (*entry).before)
			t.claims[v.Frontend] = claims
		}
	}
}

// settle brings the servers of one frontend to what its owner wants.
func (t *Table) settle(steps []Step, f Frontend) []Step {
	wanted := map[Audience]*VirtualServer{}
	if claims := t.claims[f]; len(claims) > 0 {
		for _, v := range claims[0].servers {
			if v.Frontend == f {
				wanted[v.Audience] = v
			}
		}
	}
	for _, a := range []Audience{Anyone, Internal, External} {
		key := Key{f, a}
		old, now := t.servers[key], wanted[a]
		steps = DiffServer(steps, old, now)
		if now == nil {
			delete(t.servers, key)
		} else {
			t.servers[key] = now
		}
	}
	return steps
}

// Server returns what is wanted at key; nil: nothing.
func (t *Table) Server(key Key) *VirtualServer { return t.servers[key] }

// State returns all that is wanted. The caller may keep it.
func (t *Table) State() *State { return &State{Sources: t.sources, Servers: maps.Clone(t.servers)} }

// Counts returns the numbers of virtual servers and of backends behind them.
func (t *Table) Counts() (servers, reals int) {
	for _, v := range t.servers {
		reals += len(v.Reals)
	}
	return len(t.servers), reals
}

// Planned returns the plan of a service as it was set, whoever has its frontends.
func (t *Table) Planned(name ServiceName) []*VirtualServer {
	if e := t.services[name]; e != nil {
		return e.servers
	}
	return nil
}

// Owner returns the service that has a frontend; empty: nobody claims it.
func (t *Table) Owner(f Frontend) ServiceName {
	if claims := t.claims[f]; len(claims) > 0 {
		return claims[0].name
	}
	return ServiceName{}
}

// Conflicts tells which frontends of a service belong to another one, in words.
func (t *Table) Conflicts(name ServiceName) []string {
	e := t.services[name]
	if e == nil {
		return nil
	}
	var out []string
	for _, v := range e.servers {
		if owner := t.claims[v.Frontend][0]; owner != e {
			out = append(out, fmt.Sprintf("%s is in use by service %s, which is older", v.Frontend, owner.name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Rivals returns the services other than name that claim a frontend of it: their
// standing may change when it does.
func (t *Table) Rivals(name ServiceName) []ServiceName {
	var out []ServiceName
	if e := t.services[name]; e != nil {
		for _, v := range e.servers {
			for _, o := range t.claims[v.Frontend] {
				if o != e && !slices.Contains(out, o.name) {
					out = append(out, o.name)
				}
			}
		}
	}
	return out
}
