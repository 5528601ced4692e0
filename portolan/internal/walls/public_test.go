package walls

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// contracts are packages without an importer in another module that are public for the owners of
// programs outside of this repository: contracts that they may implement, the suites that test an
// implementation, and code that does not depend on Portolan.
var contracts = []string{
	ours + "allocator/allocatortest",
	ours + "nodeagent/dataplane",
	ours + "nodeagent/dataplane/ipvs/batch",
	ours + "nodeagent/dataplane/userspace",
	ours + "nodeagent/kerneltest",
	ours + "registrar/sourcetest",
}

// publicAreas lists the modules to which the rule of internal/ applies. The module api is public as
// a whole. No module imports the others.
var publicAreas = append([]string{"services", "portolan"}, daemons...)

// inInternal reports whether only the module of a package can import it.
func inInternal(pkg string) bool { return slices.Contains(strings.Split(pkg, "/"), "internal") }

// misplaced returns the public packages that should lie under internal/, and the contracts that are
// not public packages without importers. all are the importable packages, importers the areas that
// import a package.
func misplaced(all []string, importers map[string][]string, contracts []string) (private, stale []string) {
	for _, pkg := range all {
		imported := slices.ContainsFunc(importers[pkg], func(from string) bool { return from != moduleOf(pkg) })
		if !inInternal(pkg) && !imported && !slices.Contains(contracts, pkg) {
			private = append(private, pkg)
		}
	}
	for _, pkg := range contracts {
		imported := slices.ContainsFunc(importers[pkg], func(from string) bool { return from != moduleOf(pkg) })
		if imported || !slices.Contains(all, pkg) {
			stale = append(stale, pkg)
		}
	}
	return private, stale
}

// TestPublicPackages checks the rule for internal/: a package is public if another module imports
// it, or if it is a contract. Commands and packages that have only tests cannot be imported.
func TestPublicPackages(t *testing.T) {
	all, importers := map[string]bool{}, map[string][]string{}
	for _, f := range files(t) {
		for _, spec := range f.syntax.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			importers[to] = append(importers[to], moduleOf(f.pkg))
		}
		if slices.Contains(publicAreas, moduleOf(f.pkg)) && !f.test && f.syntax.Name.Name != "main" && path.Base(f.name) != "doc.go" {
			all[f.pkg] = true
		}
	}
	private, stale := misplaced(slices.Sorted(maps.Keys(all)), importers, contracts)
	for _, pkg := range private {
		t.Errorf("%s: no other module imports it: move it under internal/, or list it as a contract", pkg)
	}
	for _, pkg := range stale {
		t.Errorf("%s is listed as a contract, but is imported by another module or does not exist", pkg)
	}
}

func TestMisplaced(t *testing.T) {
	all := []string{ours + "a", ours + "a/used", ours + "a/unused", ours + "a/suite", ours + "a/internal/x", ours + "b/own"}
	importers := map[string][]string{ours + "a": {"b"}, ours + "a/used": {"a", "b"}, ours + "b/own": {"b"}, ours + "a/internal/x": {"a"}}
	private, stale := misplaced(all, importers, []string{ours + "a/suite", ours + "a/used", ours + "a/gone"})
	if want := []string{ours + "a/unused", ours + "b/own"}; !slices.Equal(private, want) {
		t.Errorf("private: %v, want %v", private, want)
	}
	if want := []string{ours + "a/used", ours + "a/gone"}; !slices.Equal(stale, want) {
		t.Errorf("stale: %v, want %v", stale, want)
	}
}
