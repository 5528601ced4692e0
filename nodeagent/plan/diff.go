package plan

import (
	"fmt"
	"slices"
)

// Op is the operation of a step.
type Op uint8

// The operations, in the order in which a data plane makes such changes: rules before servers,
// servers before backends, additions before removals. In this order, traffic that is served both
// before and after a change is served at every step between.
const (
	SetSources   Op = iota // Sources
	AddServer              // Server with its backends; replaces an existing one in place
	UpdateServer           // attributes of Server; its Reals are ignored
	AddReal                // Real at Key
	UpdateReal             // weight of Real at Key
	DeleteReal             // Real at Key; its connections drain
	DeleteServer           // Server at Key; connections to its backends drain
)

// String returns the operation's name in the API.
func (o Op) String() string {
	return [...]string{"set_sources", "add_server", "update_server", "add_real", "update_real", "delete_real", "delete_server"}[o]
}

// Step describes one difference between two states, for operators. Data planes get no steps.
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
			steps = diffServer(steps, old, now)
		}
	}
	for key, now := range to.Servers {
		if from.Servers[key] == nil {
			steps = diffServer(steps, nil, now)
		}
	}
	return inOrder(steps)
}

// DiffServer returns the ordered steps from one version of a virtual server to another version with
// the same key. Nil means that the server does not exist.
func DiffServer(old, now *VirtualServer) []Step { return inOrder(diffServer(nil, old, now)) }

// diffServer appends the unordered steps of DiffServer.
func diffServer(steps []Step, old, now *VirtualServer) []Step {
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

// inOrder sorts steps by operation. Weight changes to a positive value come before changes to 0, so
// that a server always has a usable backend while backends swap their weights.
func inOrder(steps []Step) []Step {
	lowersToZero := func(s Step) int {
		if s.Op == UpdateReal && s.Real.Weight == 0 {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(steps, func(a, b Step) int {
		if a.Op != b.Op {
			return int(a.Op) - int(b.Op)
		}
		if c := lowersToZero(a) - lowersToZero(b); c != 0 {
			return c
		}
		if c := a.Key.Compare(b.Key); c != 0 {
			return c
		}
		return a.Real.Addr.Compare(b.Real.Addr)
	})
	return steps
}
