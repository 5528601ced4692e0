package walls

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// mutationTargets is the file with the packages that make mutate tries.
const mutationTargets = "tools/mutate/targets.go"

// mutatedRooms are the folders in which make mutate tries at least one package: each module with rules of its own,
// and the packages that decide about access, limits and addresses.
var mutatedRooms = []string{
	"registry", "registry/internal/admission", "registry/internal/quota", "allocator", "endpointctl", "endpointctl/internal/packing", "lbctl",
	"dnssvc", "edge", "kubeapi", "nodeagent", "registrar", "services/access", "services/apply", "services/lease", "services/balancer", "services/changes",
}

// TestMutationTargets checks that the packages that make mutate tries exist, and that they are in all rooms. A package
// that was renamed would have no mutants, and the run would still succeed.
func TestMutationTargets(t *testing.T) {
	packages := map[string]bool{}
	for _, f := range files(t) {
		packages[path.Dir(f.name)] = true
	}
	named := mutationPackages(t)
	for _, name := range named {
		if !packages[name] {
			t.Errorf("%s names %s, which is no package", mutationTargets, name)
		}
	}
	for _, room := range mutatedRooms {
		if !slices.ContainsFunc(named, func(name string) bool { return strings.HasPrefix(name+"/", room+"/") }) {
			t.Errorf("%s names no package of %s", mutationTargets, room)
		}
	}
}

// mutationPackages returns the packages that the table of targets names.
func mutationPackages(t *testing.T) []string {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), mutationTargets, readText(t, mutationTargets), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, declaration := range syntax.Decls {
		table, ok := declaration.(*ast.GenDecl)
		if !ok || table.Tok != token.VAR {
			continue
		}
		ast.Inspect(table, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				if name, err := strconv.Unquote(text.Value); err == nil {
					named = append(named, name)
				}
			}
			return true
		})
	}
	return named
}
