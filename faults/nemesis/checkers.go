package nemesis

import (
	"portolan.dev/faults/foreign"
	"portolan.dev/faults/lab"
	"portolan.dev/portolan/e2e/churn/check"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/portolan/e2e/labtest"
)

// newForeignCheckers are the constructors of checkers of foreign things that a run must not change,
// such as firewall rules. They are called when the lab is ready and before the first fault, so that
// a checker can remember the original state. The checkers run at rest after each round, and after
// nodeagent cleanup.
var newForeignCheckers = []func(*lab.Lab) foreignChecker{
	func(l *lab.Lab) foreignChecker { return foreign.AddRules(l) },
}

// A foreignChecker checks foreign things on the nodes, and removes its own additions at the end.
type foreignChecker interface {
	check.Checker
	Remove() error
}

// atRest returns the checkers of the state at rest, in the order of cause and effect.
func (r *run) atRest() []check.Checker { return append(r.daemons(true), r.foreignRules()...) }

// foreignRules returns the checkers of foreign things.
func (r *run) foreignRules() []check.Checker {
	var all []check.Checker
	for _, g := range r.foreignCheckers {
		all = append(all, g)
	}
	return all
}

// daemons returns the checkers of the daemons' states, in the order of cause and effect. The first
// four check objects, which the other states follow from. With audit, the data planes themselves
// are checked, and not only the agents' plans.
func (r *run) daemons(audit bool) []check.Checker {
	all := []check.Checker{
		named{"registry-0", check.Objects{Registry: r.registries[0]}}, named{"registry-1", check.Objects{Registry: r.registries[1]}},
		check.Slices{Registry: r.registries[0]}, check.Legacy{Registry: r.registries[0]},
	}
	for _, n := range r.Nodes {
		node := check.Node{Name: n.Name, Addresses: n.Addresses[:], Agent: r.agents[n], Inside: n.Namespace.Do}
		all = append(all, check.Forwarding{Node: node, Registry: r.registries[0], Plan: !audit})
		if audit {
			all = append(all, check.Traffic{Node: node})
		}
	}
	zones := append([]string{model.Zone}, labtest.ReverseZones()...)
	for _, name := range []string{"dnssvc-0", "dnssvc-1"} {
		all = append(all, named{"names of " + name, check.Names{Server: r.Resolver(name), Zones: zones}})
	}
	return append(all, check.Allocations{Allocator: r.allocator})
}

// named is a checker under another name.
type named struct {
	name string
	check.Checker
}

// Name implements check.Checker.
func (n named) Name() string { return n.name }
