package nemesis

import (
	"portolan.dev/faults/foreign"
	"portolan.dev/faults/lab"
	"portolan.dev/portolan/e2e/churn/check"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/portolan/e2e/labtest"
)

// newForeignCheckers are the constructors of the foreign checkers. They are called when the lab is
// ready and before the first fault, so that a checker can store the original state. The checkers
// run at rest after each round, and after nodeagent cleanup.
var newForeignCheckers = []func(*lab.Lab) foreignChecker{
	func(l *lab.Lab) foreignChecker { return foreign.AddRules(l) },
}

// A foreignChecker checks configuration of the nodes that belongs to other programs and that a run
// must not change, such as firewall rules.
type foreignChecker interface {
	check.Checker
	// Remove removes the configuration that the checker added to the nodes.
	Remove() error
}

// atRestCheckers returns the checkers of the state at rest.
func (r *run) atRestCheckers() []check.Checker {
	return append(r.daemonCheckers(true), r.foreignStateCheckers()...)
}

// foreignStateCheckers returns the foreign checkers of the run.
func (r *run) foreignStateCheckers() []check.Checker {
	var all []check.Checker
	for _, g := range r.foreignCheckers {
		all = append(all, g)
	}
	return all
}

// daemonCheckers returns the checkers of the daemons' states. The checkers of objects come first,
// because all other states result from objects. If audit is true, the checkers check the data
// planes in addition to the agents' plans.
func (r *run) daemonCheckers(audit bool) []check.Checker {
	all := []check.Checker{
		namedChecker{"registry-0", check.Objects{Registry: r.registries[0]}}, namedChecker{"registry-1", check.Objects{Registry: r.registries[1]}},
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
		all = append(all, namedChecker{"names of " + name, check.Names{Server: r.Resolver(name), Zones: zones}})
	}
	return append(all, check.Balancers{}, check.Allocations{Allocator: r.allocator})
}

// namedChecker is a checker with another name.
type namedChecker struct {
	name string
	check.Checker
}

// Name implements check.Checker.
func (n namedChecker) Name() string { return n.name }
