package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// target is a package to mutate, with the packages of the tests that should kill its mutants, the
// fastest first. Each of them runs only if the ones before it did not kill the mutant.
type target struct {
	pkg   string
	tests []string
}

// targets are the packages with their own logic. `make mutate` tries all of them. A wall
// (portolan/internal/walls) checks that each package exists, and that no room is left out.
var targets = []target{
	{"registry/store", []string{"registry/store", "registry/internal/sqlite"}},
	{"registry/internal/sqlite", []string{"registry/internal/sqlite"}},
	{"registry/internal/postgres", []string{"registry/internal/postgres"}},
	{"registry/internal/gc", []string{"registry/internal/gc", "registry"}},
	{"registry/internal/allocator", []string{"registry/internal/allocator", "registry/internal/admission", "registry"}},
	{"registry/internal/admission", []string{"registry/internal/admission", "registry"}},
	{"registry/internal/quota", []string{"registry/internal/quota", "registry"}},
	{"endpointctl/internal/packing", []string{"endpointctl/internal/packing", "endpointctl/internal/controller"}},
	{"endpointctl/internal/controller", []string{"endpointctl/internal/controller", "endpointctl"}},
	{"allocator/pool", []string{"allocator/pool", "allocator/internal/engine"}},
	{"allocator/internal/engine", []string{"allocator/internal/engine", "allocator"}},
	{"allocator/internal/verifier", []string{"allocator/internal/verifier", "allocator"}},
	{"services/changes", []string{"services/changes"}},
	{"services/access", []string{"services/access"}},
	{"services/apply", []string{"services/apply"}},
	{"services/balancer", []string{"services/balancer"}},
	{"services/lease", []string{"services/lease", "endpointctl"}},
	{"services/backends", []string{"services/backends", "nodeagent/dataplane/userspace"}},
	{"services/nodeview", []string{"services/nodeview", "nodeagent/internal/view", "edge/internal/view"}},
	{"services/kit/statestream", []string{"services/kit/statestream", "lbctl/announce"}},
	{"nodeagent/plan", []string{"nodeagent/plan", "nodeagent"}},
	{"nodeagent/dataplane/userspace", []string{"nodeagent/dataplane/userspace"}},
	{"nodeagent/dataplane/kernel", []string{"nodeagent/dataplane/kernel", "nodeagent/dataplane/nftables"}},
	{"nodeagent/dataplane/packetfilter", []string{"nodeagent/dataplane/packetfilter", "nodeagent/dataplane/kernel", "nodeagent/dataplane/nftables"}},
	{"nodeagent/dataplane/nftables", []string{"nodeagent/dataplane/nftables"}},
	{"nodeagent/dataplane/ipvs", []string{"nodeagent/dataplane/ipvs"}},
	{"dnssvc/internal/zone", []string{"dnssvc/internal/zone"}},
	{"dnssvc/internal/forward", []string{"dnssvc/internal/forward"}},
	{"lbctl/announce", []string{"lbctl/announce"}},
	{"lbctl/internal/controller", []string{"lbctl"}},
	{"lbctl/internal/pool", []string{"lbctl/internal/pool", "lbctl"}},
	{"edge/internal/listen", []string{"edge/internal/listen", "edge/internal/serve"}},
	{"edge/internal/serve", []string{"edge/internal/serve", "edge"}},
	{"edge/internal/stream", []string{"edge/internal/stream", "edge"}},
	{"edge/internal/web", []string{"edge/internal/web"}},
	{"edge/internal/health", []string{"edge/internal/health"}},
	{"services/kube", []string{"services/kube", "services/manifest", "kubeapi/internal/server"}},
	{"kubeapi/internal/ownership", []string{"kubeapi/internal/ownership", "kubeapi/internal/server"}},
	{"kubeapi/internal/tokens", []string{"kubeapi/internal/tokens", "portolan/e2e/attacks"}},
	{"kubeapi/internal/watchcache", []string{"kubeapi/internal/watchcache", "portolan/e2e/kubeapi"}},
	{"registrar/dir", []string{"registrar/dir", "portolan/e2e/gitops"}},
	{"registrar/internal/docker", []string{"registrar/internal/docker"}},
	{"registrar/internal/objects", []string{"registrar/internal/objects", "portolan/e2e/registrar"}},
	{"registrar/internal/labels", []string{"registrar/internal/labels"}},
	{"registrar/internal/reconcile", []string{"registrar/internal/reconcile", "portolan/e2e/registrar"}},
	{"registrar/internal/systemd", []string{"registrar/internal/systemd"}},
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

// check returns an error if a package of the target, or a package with tests that it names, is not in the tree.
func (t target) check(root string) error {
	for _, pkg := range append([]string{t.pkg}, t.tests...) {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return fmt.Errorf("%s: no package: %w", pkg, os.ErrNotExist)
		}
	}
	return nil
}
