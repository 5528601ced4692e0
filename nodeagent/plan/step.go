package plan

import (
	"fmt"
	"maps"
	"slices"
)

// Op is the operation of a step.
type Op uint8

// The operations, in the order in which steps are carried out: rules before servers, servers before
// backends, additions before removals. In this order, traffic that is served both before and after
// a change is served at every step between.
const (
	SetSources   Op = iota // Sources
	AddServer              // Server with its backends; replaces an existing one in place
	UpdateServer           // attributes of Server; its Reals are ignored
	AddReal                // Real at Key
	UpdateReal             // weight of Real at Key
	DeleteReal             // Real at Key; its connections drain
	DeleteServer           // Server at Key; connections to its backends drain
)

// String returns the operation's name in metrics and logs.
func (o Op) String() string {
	return [...]string{"set_sources", "add_server", "update_server", "add_real", "update_real", "delete_real", "delete_server"}[o]
}

// Step is one change of the forwarding state.
type Step struct {
	Op      Op
	Key     Key
	Server  *VirtualServer // AddServer, UpdateServer
	Real    RealServer     // AddReal, UpdateReal, DeleteReal
	Sources *Sources       // SetSources
}

// String describes the step for operators.
func (s Step) String() string {
	switch s.Op {
	case SetSources:
		return "set sources"
	case AddServer:
		return fmt.Sprintf("add %s", s.Server)
	case UpdateServer:
		return fmt.Sprintf("change %s", s.Key)
	case AddReal:
		return fmt.Sprintf("add backend %s to %s", s.Real.Addr, s.Key)
	case UpdateReal:
		return fmt.Sprintf("give backend %s of %s weight %d", s.Real.Addr, s.Key, s.Real.Weight)
	case DeleteReal:
		return fmt.Sprintf("remove backend %s from %s", s.Real.Addr, s.Key)
	}
	return fmt.Sprintf("remove %s", s.Key)
}

// Diff returns the steps that lead from one state to another.
func Diff(from, to *State) []Step {
	var steps []Step
	if !from.Sources.Equal(&to.Sources) {
		steps = append(steps, Step{Op: SetSources, Sources: &to.Sources})
	}
	for key, old := range from.Servers {
		if now := to.Servers[key]; now != old {
			steps = DiffServer(steps, old, now)
		}
	}
	for key, now := range to.Servers {
		if from.Servers[key] == nil {
			steps = DiffServer(steps, nil, now)
		}
	}
	return Order(steps)
}

// DiffServer appends the steps from one version of a virtual server to another version with the
// same key. Nil means that the server does not exist.
func DiffServer(steps []Step, old, now *VirtualServer) []Step {
	switch {
	case old == nil && now == nil:
		return steps
	case old == nil:
		return append(steps, Step{Op: AddServer, Key: now.Key, Server: now})
	case now == nil:
		return append(steps, Step{Op: DeleteServer, Key: old.Key})
	}
	if !old.Attributes.Equal(&now.Attributes) {
		steps = append(steps, Step{Op: UpdateServer, Key: now.Key, Server: now})
	}
	return diffReals(steps, now.Key, old.Reals, now.Reals)
}

// diffReals appends the steps between two lists of backends, which must be sorted by address.
func diffReals(steps []Step, key Key, old, now []RealServer) []Step {
	for len(old) > 0 || len(now) > 0 {
		switch {
		case len(old) == 0 || len(now) > 0 && now[0].Addr.Compare(old[0].Addr) < 0:
			steps = append(steps, Step{Op: AddReal, Key: key, Real: now[0]})
			now = now[1:]
		case len(now) == 0 || old[0].Addr.Compare(now[0].Addr) < 0:
			steps = append(steps, Step{Op: DeleteReal, Key: key, Real: old[0]})
			old = old[1:]
		default:
			if old[0].Weight != now[0].Weight {
				steps = append(steps, Step{Op: UpdateReal, Key: key, Real: now[0]})
			}
			old, now = old[1:], now[1:]
		}
	}
	return steps
}

// Order sorts steps into the order in which they must be carried out. Weight changes to a positive
// value come before changes to 0, so that a server always has a usable backend while backends swap
// their weights.
func Order(steps []Step) []Step {
	takes := func(s Step) int {
		if s.Op == UpdateReal && s.Real.Weight == 0 {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(steps, func(a, b Step) int {
		if a.Op != b.Op {
			return int(a.Op) - int(b.Op)
		}
		if c := takes(a) - takes(b); c != 0 {
			return c
		}
		if c := a.Key.Compare(b.Key); c != 0 {
			return c
		}
		return a.Real.Addr.Compare(b.Real.Addr)
	})
	return steps
}

// Apply returns the state after the steps. The given state does not change. The result shares the
// unchanged servers with it.
func Apply(state *State, steps []Step) *State {
	next := &State{Sources: state.Sources, Servers: maps.Clone(state.Servers)}
	if next.Servers == nil {
		next.Servers = map[Key]*VirtualServer{}
	}
	for _, s := range steps {
		switch s.Op {
		case SetSources:
			next.Sources = *s.Sources
		case AddServer:
			next.Servers[s.Key] = s.Server
		case DeleteServer:
			delete(next.Servers, s.Key)
		default:
			if server := next.Servers[s.Key]; server != nil {
				next.Servers[s.Key] = server.After(s)
			}
		}
	}
	return next
}

// After returns the virtual server after an UpdateServer, AddReal, UpdateReal or DeleteReal step.
// DeleteReal has no effect if the server lacks the backend.
func (v *VirtualServer) After(s Step) *VirtualServer {
	next := *v
	switch s.Op {
	case UpdateServer:
		next.Attributes = s.Server.Attributes
	case AddReal, UpdateReal:
		next.Reals = slices.Clone(v.Reals)
		if i, ok := v.find(s.Real.Addr); ok {
			next.Reals[i] = s.Real
		} else {
			next.Reals = slices.Insert(next.Reals, i, s.Real)
		}
	case DeleteReal:
		if i, ok := v.find(s.Real.Addr); ok {
			next.Reals = slices.Delete(slices.Clone(v.Reals), i, i+1)
		}
	}
	return &next
}
