package plan

import (
	"fmt"
	"maps"
	"slices"

	"portolan.dev/services/object"
)

// Table combines the virtual servers of all services of the node. If several services claim a
// frontend, the oldest one owns it, so that a service cannot take traffic away from another one by
// claiming its address later.
//
// Set replaces the plan of one service and may be called for any number of services. Changes then
// returns the changed frontends with all of their servers. If a frontend moves from one service to
// another, that is one change of the frontend, independent of the order in which the services were
// set. With changes of each service in turn, the right order would depend on the former owner of
// the frontend.
//
// A Table is not safe for concurrent use.
type Table struct {
	sources  Sources
	services map[object.Name]*servicePlan
	claims   map[Frontend][]*servicePlan // the services that claim a frontend; the first one owns it
	servers  map[Key]*VirtualServer
	// The former values of the keys set, and of the sources, since Changes was last called.
	formerServers map[Key]*VirtualServer
	formerSources *Sources
}

// servicePlan is the plan of one service.
type servicePlan struct {
	name    object.Name
	created int64
	servers []*VirtualServer
}

func (e *servicePlan) compare(o *servicePlan) int {
	if e.created != o.created {
		return int(min(max(e.created-o.created, -1), 1))
	}
	return e.name.Compare(o.name)
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{
		services:      map[object.Name]*servicePlan{},
		claims:        map[Frontend][]*servicePlan{},
		servers:       map[Key]*VirtualServer{},
		formerServers: map[Key]*VirtualServer{},
	}
}

// SetSources replaces the sources of the node.
func (t *Table) SetSources(s Sources) {
	if t.formerSources == nil {
		before := t.sources
		t.formerSources = &before
	}
	t.sources = s
}

// Sources returns the sources of the node.
func (t *Table) Sources() Sources { return t.sources }

// Set replaces the plan of a service. The parameter created is its creation time in any unit, as
// long as all services use the same one. A service without servers is removed from the table.
func (t *Table) Set(name object.Name, created int64, servers []*VirtualServer) {
	touched := map[Frontend]bool{}
	if old := t.services[name]; old != nil {
		t.unclaim(old, touched)
	}
	if len(servers) > 0 {
		e := &servicePlan{name: name, created: created, servers: servers}
		t.services[name] = e
		t.claim(e, touched)
	}
	for f := range touched {
		t.updateFrontend(f)
	}
}

// Changes returns the changes since its last call.
func (t *Table) Changes() Changes {
	var c Changes
	if t.formerSources != nil && !t.formerSources.Equal(&t.sources) {
		sources := t.sources
		c.Sources = &sources
	}
	changed := map[Frontend]bool{}
	for key, old := range t.formerServers {
		if !Same(old, t.servers[key]) {
			changed[key.Frontend] = true
		}
	}
	c.Frontends = frontendsOf(t.servers, changed)
	t.formerServers, t.formerSources = map[Key]*VirtualServer{}, nil
	return c
}

func (t *Table) unclaim(e *servicePlan, touched map[Frontend]bool) {
	delete(t.services, e.name)
	for _, v := range e.servers {
		touched[v.Frontend] = true
		left := slices.DeleteFunc(t.claims[v.Frontend], func(o *servicePlan) bool { return o == e })
		if len(left) == 0 {
			delete(t.claims, v.Frontend)
			continue
		}
		t.claims[v.Frontend] = left
	}
}

func (t *Table) claim(e *servicePlan, touched map[Frontend]bool) {
	for _, v := range e.servers {
		touched[v.Frontend] = true
		if claims := t.claims[v.Frontend]; !slices.Contains(claims, e) {
			claims = append(claims, e)
			slices.SortFunc(claims, (*servicePlan).compare)
			t.claims[v.Frontend] = claims
		}
	}
}

// updateFrontend updates the planned servers of one frontend to the servers of the service that owns it.
func (t *Table) updateFrontend(f Frontend) {
	wanted := map[Audience]*VirtualServer{}
	if claims := t.claims[f]; len(claims) > 0 {
		for _, v := range claims[0].servers {
			if v.Frontend == f {
				wanted[v.Audience] = v
			}
		}
	}
	for _, a := range Audiences {
		key := Key{f, a}
		old, now := t.servers[key], wanted[a]
		if old == now {
			continue
		}
		if _, known := t.formerServers[key]; !known {
			t.formerServers[key] = old
		}
		if now == nil {
			delete(t.servers, key)
		} else {
			t.servers[key] = now
		}
	}
}

// Server returns the planned virtual server at key, or nil.
func (t *Table) Server(key Key) *VirtualServer { return t.servers[key] }

// At returns the planned servers of a frontend.
func (t *Table) At(f Frontend) FrontendServers { return serversAt(t.servers, f) }

// State returns the planned state. The caller may keep it.
func (t *Table) State() *State { return &State{Sources: t.sources, Servers: maps.Clone(t.servers)} }

// Counts returns the numbers of virtual servers and of backends behind them.
func (t *Table) Counts() (servers, reals int) {
	for _, v := range t.servers {
		reals += len(v.Reals)
	}
	return len(t.servers), reals
}

// Planned returns the plan of a service as it was set, including frontends that other services own.
func (t *Table) Planned(name object.Name) []*VirtualServer {
	if e := t.services[name]; e != nil {
		return e.servers
	}
	return nil
}

// Owner returns the service that owns a frontend, or the empty name if no service claims it.
func (t *Table) Owner(f Frontend) object.Name {
	if claims := t.claims[f]; len(claims) > 0 {
		return claims[0].name
	}
	return object.Name{}
}

// Conflicts describes the frontends of a service that other services own.
func (t *Table) Conflicts(name object.Name) []string {
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

// Competitors returns the other services that claim a frontend of the service. A change of the
// service may give them the frontend or take it from them.
func (t *Table) Competitors(name object.Name) []object.Name {
	var out []object.Name
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
