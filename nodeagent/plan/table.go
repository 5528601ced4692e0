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
// Set changes what is wanted, as often as there are services to change; Changes
// then returns the outcome. A frontend that goes from one service to another is
// one change of its key there, whatever the order of the services was. Steps for
// each service, one after the other, would have to be put in an order that
// depends on who had the frontend before.
//
// A Table is not safe for concurrent use.
type Table struct {
	sources  Sources
	services map[ServiceName]*entry
	claims   map[Frontend][]*entry // the services that claim a frontend, the owner first
	servers  map[Key]*VirtualServer
	// What was wanted when Changes was last called, of all that was set since.
	before        map[Key]*VirtualServer
	beforeSources *Sources
}

// Wanted is what is wanted at a key. The server is nil if nothing is.
type Wanted struct {
	Key    Key
	Server *VirtualServer
}

// Changes are the parts of a state that changed.
type Changes struct {
	Sources *Sources // nil: as before
	Servers []Wanted // in the order of keys, each key once
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
		before:   map[Key]*VirtualServer{},
	}
}

// SetSources changes the sources of the node.
func (t *Table) SetSources(s Sources) {
	if t.beforeSources == nil {
		before := t.sources
		t.beforeSources = &before
	}
	t.sources = s
}

// Sources returns the sources of the node.
func (t *Table) Sources() Sources { return t.sources }

// Set replaces the plan of one service, created at the given time (any unit).
// Without servers the service is forgotten.
func (t *Table) Set(name ServiceName, created int64, servers []*VirtualServer) {
	touched := map[Frontend]bool{}
	if old := t.services[name]; old != nil {
		t.withdraw(old, touched)
	}
	if len(servers) > 0 {
		e := &entry{name: name, created: created, servers: servers}
		t.services[name] = e
		t.claim(e, touched)
	}
	for f := range touched {
		t.settle(f)
	}
}

// Changes returns what changed since it was last called.
func (t *Table) Changes() Changes {
	var c Changes
	if t.beforeSources != nil && !t.beforeSources.Equal(&t.sources) {
		sources := t.sources
		c.Sources = &sources
	}
	for key, old := range t.before {
		now := t.servers[key]
		if old == now || old != nil && now != nil && old.Equal(now) {
			continue
		}
		c.Servers = append(c.Servers, Wanted{key, now})
	}
	slices.SortFunc(c.Servers, func(a, b Wanted) int { return a.Key.Compare(b.Key) })
	t.before, t.beforeSources = map[Key]*VirtualServer{}, nil
	return c
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
func (t *Table) settle(f Frontend) {
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
		if old == now {
			continue
		}
		if _, known := t.before[key]; !known {
			t.before[key] = old
		}
		if now == nil {
			delete(t.servers, key)
		} else {
			t.servers[key] = now
		}
	}
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
