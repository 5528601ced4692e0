package main

import "strings"

// target is a package to mutate, with the packages of the tests that should kill its mutants, the
// fastest first. Each of them runs only if the ones before it did not kill the mutant.
type target struct {
	pkg   string
	tests []string
}

// targets are the packages with their own logic. `make mutate` tries all of them.
var targets = []target{
	{"registry/store", []string{"registry/store", "registry/internal/sqlite"}},
	{"registry/internal/sqlite", []string{"registry/internal/sqlite"}},
	{"registry/internal/postgres", []string{"registry/internal/postgres"}},
	{"registry/internal/gc", []string{"registry/internal/gc", "registry"}},
	{"registry/internal/allocator", []string{"registry/internal/allocator", "registry/internal/admission", "registry"}},
	{"endpointctl/internal/controller", []string{"endpointctl/internal/controller", "endpointctl"}},
	{"allocator/pool", []string{"allocator/pool", "allocator/internal/engine"}},
	{"allocator/internal/engine", []string{"allocator/internal/engine", "allocator"}},
	{"allocator/internal/verify", []string{"allocator/internal/verify", "allocator"}},
	{"services/changes", []string{"services/changes"}},
	{"services/backends", []string{"services/backends", "nodeagent/dataplane/userspace"}},
	{"nodeagent/plan", []string{"nodeagent/plan", "nodeagent"}},
	{"nodeagent/dataplane/userspace", []string{"nodeagent/dataplane/userspace"}},
	{"nodeagent/dataplane/kernel", []string{"nodeagent/dataplane/kernel", "nodeagent/dataplane/nftables"}},
	{"nodeagent/dataplane/packetfilter", []string{"nodeagent/dataplane/packetfilter", "nodeagent/dataplane/kernel", "nodeagent/dataplane/nftables"}},
	{"nodeagent/dataplane/nftables", []string{"nodeagent/dataplane/nftables"}},
	{"nodeagent/dataplane/ipvs", []string{"nodeagent/dataplane/ipvs"}},
	{"dnssvc/internal/zone", []string{"dnssvc/internal/zone"}},
	{"dnssvc/internal/forward", []string{"dnssvc/internal/forward"}},
}

// choose returns the targets with the given names, or all targets if there are no names. A package
// that is not in targets is tested by itself.
func choose(names []string) []target {
	if len(names) == 0 {
		return targets
	}
	var chosen []target
	for _, name := range names {
		name = strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
		found := target{name, []string{name}}
		for _, t := range targets {
			if t.pkg == name {
				found = t
			}
		}
		chosen = append(chosen, found)
	}
	return chosen
}
