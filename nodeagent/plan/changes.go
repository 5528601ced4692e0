package plan

import "slices"

// Audiences are all audiences.
var Audiences = [...]Audience{AnyClient, Internal, External}

// FrontendServers are the virtual servers that are planned for a frontend.
type FrontendServers struct {
	Frontend
	Servers [len(Audiences)]*VirtualServer // by audience; nil: none
}

// Empty reports whether no server is planned.
func (f *FrontendServers) Empty() bool { return f.Any() == nil }

// Any returns one of the servers, or nil if there is none.
func (f *FrontendServers) Any() *VirtualServer {
	for _, v := range f.Servers {
		if v != nil {
			return v
		}
	}
	return nil
}

// String describes for operators the treatment of the frontend by a data plane.
func (f *FrontendServers) String() string {
	v := f.Any()
	if v == nil {
		return "remove " + f.Frontend.String()
	}
	return "program " + v.Exposure.String() + " " + f.Frontend.String() + " of " + v.Service.String()
}

// Changes are the parts of a plan that have changed, as they are wanted now.
type Changes struct {
	Sources   *Sources          // nil: unchanged
	Frontends []FrontendServers // sorted, each frontend once
}

// Changed returns the parts of the state now that differ from another state.
func Changed(old, now *State) Changes {
	var c Changes
	if !old.Sources.Equal(&now.Sources) {
		c.Sources = &now.Sources
	}
	different := map[Frontend]bool{}
	for key, v := range old.Servers {
		if !Same(v, now.Servers[key]) {
			different[key.Frontend] = true
		}
	}
	for key := range now.Servers {
		if old.Servers[key] == nil {
			different[key.Frontend] = true
		}
	}
	c.Frontends = frontendsOf(now.Servers, different)
	return c
}

// frontendsOf returns the servers of some frontends.
func frontendsOf(servers map[Key]*VirtualServer, frontends map[Frontend]bool) []FrontendServers {
	if len(frontends) == 0 {
		return nil
	}
	out := make([]FrontendServers, 0, len(frontends))
	for f := range frontends {
		out = append(out, serversAt(servers, f))
	}
	slices.SortFunc(out, func(a, b FrontendServers) int { return a.Frontend.Compare(b.Frontend) })
	return out
}

func serversAt(servers map[Key]*VirtualServer, f Frontend) FrontendServers {
	out := FrontendServers{Frontend: f}
	for _, a := range Audiences {
		out.Servers[a] = servers[Key{f, a}]
	}
	return out
}

// Same reports whether two virtual servers are equal. Nil equals only nil.
func Same(a, b *VirtualServer) bool {
	return a == b || a != nil && b != nil && a.Equal(b)
}
