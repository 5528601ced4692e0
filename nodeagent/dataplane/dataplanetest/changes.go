package dataplanetest

import "portolan.dev/nodeagent/plan"

// Changes returns the changes that make a plane forward the given servers and no others at their
// frontends.
func Changes(servers ...*plan.VirtualServer) plan.Changes {
	state := &plan.State{Servers: map[plan.Key]*plan.VirtualServer{}}
	for _, v := range servers {
		state.Servers[v.Key] = v
	}
	return plan.Changed(&plan.State{}, state)
}

// Removal returns the changes that remove all servers at some frontends.
func Removal(frontends ...plan.Frontend) plan.Changes {
	var c plan.Changes
	for _, f := range frontends {
		c.Frontends = append(c.Frontends, plan.FrontendServers{Frontend: f})
	}
	return c
}
