package walls

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"portolan.dev/services/access"
	"portolan.dev/services/kit/identity"
)

// caller is the code that makes calls with the certificate of one identity: a package, and the
// packages that it imports, directly or not.
type caller struct {
	identity string // such as nodeagent/n1
	code     string // import path below ours
	// without lists packages of which the code imports other parts only, with the reason.
	without map[string]string
	// refused lists methods that the identity may not call, with the reason why the code calls them.
	refused map[string]string
}

var callers = []caller{
	{identity: "registry", code: "registry", without: map[string]string{
		"services/changes": "the registry runs a relay and a verifier of this package, and no follower",
	}},
	{identity: "allocator", code: "allocator"},
	{identity: "endpointctl", code: "endpointctl"},
	{identity: "lbctl", code: "lbctl"},
	{identity: "dnssvc", code: "dnssvc"},
	{identity: "nodeagent/n1", code: "nodeagent"},
	{identity: "edge/n1", code: "edge"},
	{identity: "kubeapi", code: "kubeapi", without: map[string]string{
		"services/client": "these calls are on behalf of clients, and TestWhatKubeapiDoesForOthers of services/access is about them",
	}},
	{identity: "registrar/n1", code: "registrar", without: map[string]string{
		"registrar/dir": "the folder of manifests has a certificate of its own, an operator's",
	}},
	{identity: "operator", code: "registrar/dir"},
	{identity: "workload/n1", code: "portolan/internal/workload", without: map[string]string{
		"services/client": "it lists nodes, for which portolan run without --node needs the certificate of an operator",
	}, refused: map[string]string{
		"Allocate": "portolan run without --pod-ip needs the certificate of an operator",
		"Confirm":  "portolan run without --pod-ip needs the certificate of an operator",
		"Release":  "portolan run without --pod-ip needs the certificate of an operator",
	}},
}

// TestDaemonsMayMakeTheirCalls checks that each daemon may make every call that its code contains, by
// the table of package access. The calls are found in the code, because a list of them would be as
// incomplete as the table. A call that is refused shows only with TLS, often as a warning or as an
// answer that lacks something.
func TestDaemonsMayMakeTheirCalls(t *testing.T) {
	code := readCalls(t)
	total := 0
	for _, c := range callers {
		id, err := identity.ParsePath(identity.DefaultTrustDomain, c.identity)
		if err != nil {
			t.Fatal(err)
		}
		calls, reached := code.from(ours+c.code, c.without)
		for name := range c.without {
			if !reached[ours+name] {
				t.Errorf("%s does not import %s any more", c.code, name)
			}
		}
		var refused []string
		for _, method := range slices.Sorted(maps.Keys(calls)) {
			total++
			err := access.Methods().Authorize(identity.Represent(t.Context(), id), method)
			if name := path.Base(method); err != nil && c.refused[name] != "" {
				refused = append(refused, name)
			} else if err != nil {
				t.Errorf("%s: %v", calls[method], err)
			}
		}
		if want := slices.Sorted(maps.Keys(c.refused)); !slices.Equal(slices.Compact(slices.Sorted(slices.Values(refused))), want) {
			t.Errorf("%s: the refused calls are %v, and %v are listed", c.identity, refused, want)
		}
		if len(calls) == 0 {
			t.Errorf("%s: no calls were found", c.identity)
		}
	}
	if total < 60 {
		t.Errorf("only %d calls were found", total)
	}
	for _, daemon := range daemons {
		if !slices.ContainsFunc(callers, func(c caller) bool { return c.code == daemon }) {
			t.Errorf("no identity is listed for the calls of %s", daemon)
		}
	}
}

// callGraph has the calls in each package, and the packages that it imports.
type callGraph struct {
	calls   map[string]map[string]string // by package: a method, and a place that calls it
	imports map[string]map[string]bool
}

// from returns the calls of a package and of the packages that it imports, except those of without. It
// also returns all packages that it came across.
func (g callGraph) from(root string, without map[string]string) (calls map[string]string, reached map[string]bool) {
	calls, reached = map[string]string{}, map[string]bool{}
	var visit func(pkg string)
	visit = func(pkg string) {
		if reached[pkg] {
			return
		}
		reached[pkg] = true
		if without[strings.TrimPrefix(pkg, ours)] != "" {
			return
		}
		maps.Copy(calls, g.calls[pkg])
		for to := range g.imports[pkg] {
			visit(to)
		}
	}
	visit(root)
	return calls, reached
}

// readCalls finds the calls in the code of all daemons. Each method of the contract has a request type
// of its own, so code that makes such a request calls the method.
func readCalls(t *testing.T) callGraph {
	t.Helper()
	methods := map[string]string{} // by import path and name of the request
	for service, rows := range access.Methods() {
		if area, _, ok := strings.Cut(strings.TrimPrefix(service, "portolan."), "."); ok && strings.HasPrefix(service, "portolan.") {
			for method := range rows {
				methods[ours+"api/"+area+"/v1."+method+"Request"] = "/" + service + "/" + method
			}
		}
	}
	graph := callGraph{calls: map[string]map[string]string{}, imports: map[string]map[string]bool{}}
	for _, f := range files(t) {
		if f.test || f.generated || !slices.Contains(append([]string{"services", "portolan"}, daemons...), moduleOf(f.pkg)) {
			continue
		}
		if graph.imports[f.pkg] == nil {
			graph.imports[f.pkg], graph.calls[f.pkg] = map[string]bool{}, map[string]string{}
		}
		aliases := map[string]string{}
		for _, spec := range f.syntax.Imports {
			to, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(to, ours) {
				graph.imports[f.pkg][to] = true
			}
			if spec.Name != nil {
				aliases[spec.Name.Name] = to
			}
		}
		ast.Inspect(parseWhole(t, f), func(n ast.Node) bool {
			if made, ok := madeType(n).(*ast.SelectorExpr); ok {
				if alias, ok := made.X.(*ast.Ident); ok {
					if method := methods[aliases[alias.Name]+"."+made.Sel.Name]; method != "" {
						graph.calls[f.pkg][method] = f.name
					}
				}
			}
			return true
		})
	}
	return graph
}

// madeType returns the type of a value that an expression makes, T in T{…} and new(T), or nil.
func madeType(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.CompositeLit:
		return n.Type
	case *ast.CallExpr:
		if made, ok := n.Fun.(*ast.Ident); ok && made.Name == "new" && len(n.Args) == 1 {
			return n.Args[0]
		}
	}
	return nil
}
