package walls

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// unguardedLoops lists the functions that go through the changes of a batch themselves, with the reason why they need
// no guard of each change.
var unguardedLoops = map[string]string{
	"dnssvc/daemon.go apply":                 "it passes the changes on, and the table applies each under the guard",
	"kubeapi/internal/tokens/table.go Apply": "it divides the batch, and applies its part by changes.Each",
}

// unguardedQueues lists the files with the worker of a queue that need no guard, with the reason.
var unguardedQueues = map[string]string{
	"registrar/dir/runner.go": "its only key is the whole folder",
}

// TestOneObjectEndsNoDaemon checks that all followers have the guard of their host, that daemons go through the changes
// of a batch under the guard, by changes.Each or by a call of the guard for each change, and that workers of queues do
// their work under it.
func TestOneObjectEndsNoDaemon(t *testing.T) {
	followers, loops, queues := 0, map[string]bool{}, map[string]bool{}
	for _, f := range files(t) {
		if module := moduleOf(f.pkg); f.test || testOnly(f.pkg) || module != "services" && !slices.Contains(daemons, module) || f.pkg == ours+"services/changes" {
			continue
		}
		syntax := parseWhole(t, f)
		ast.Inspect(syntax, func(n ast.Node) bool {
			if literal, ok := n.(*ast.CompositeLit); ok && isSelector(literal.Type, "changes", "FollowerConfig") {
				followers++
				if !hasKey(literal, "Guard") {
					t.Errorf("%s has a follower without the guard of its host", f.name)
				}
			}
			return true
		})
		for _, declaration := range syntax.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Body == nil {
				continue
			}
			if name := f.name + " " + function.Name.Name; rangesOverChanges(function) && !calls(function, "Run") {
				if loops[name] = true; unguardedLoops[name] == "" {
					t.Errorf("%s goes through the changes of a batch without the guard: use changes.Each", name)
				}
			}
			if calls(function, "Done") && usesQueue(syntax) && !strings.HasPrefix(f.name, "services/queue/") {
				if queues[f.name] = true; !calls(syntax, "Do") && unguardedQueues[f.name] == "" {
					t.Errorf("%s has the worker of a queue without the guard", f.name)
				}
			}
		}
	}
	if followers != len(daemons)-1 { // the registry follows nothing
		t.Errorf("%d followers were found, in %d daemons", followers, len(daemons))
	}
	if len(queues) != 4 {
		t.Errorf("workers of queues were found in %v", queues)
	}
	for name := range unguardedLoops {
		if !loops[name] {
			t.Errorf("%s does not go through changes any more", name)
		}
	}
	for name := range unguardedQueues {
		if !queues[name] {
			t.Errorf("%s has no worker any more", name)
		}
	}
}

// hasKey reports whether a literal of a struct sets a field.
func hasKey(literal *ast.CompositeLit, name string) bool {
	return slices.ContainsFunc(literal.Elts, func(e ast.Expr) bool {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			return false
		}
		key, named := pair.Key.(*ast.Ident)
		return named && key.Name == name
	})
}

// rangesOverChanges reports whether a function goes through a parameter of type []changes.Change.
func rangesOverChanges(function *ast.FuncDecl) (ranges bool) {
	var batches []string
	for _, parameter := range function.Type.Params.List {
		if list, ok := parameter.Type.(*ast.ArrayType); ok && isSelector(list.Elt, "changes", "Change") {
			for _, name := range parameter.Names {
				batches = append(batches, name.Name)
			}
		}
	}
	ast.Inspect(function.Body, func(n ast.Node) bool {
		if loop, ok := n.(*ast.RangeStmt); ok {
			over, named := loop.X.(*ast.Ident)
			ranges = ranges || named && slices.Contains(batches, over.Name)
		}
		return true
	})
	return ranges
}

// calls reports whether code calls a method with the given name of a field or variable whose name has to do with the
// guard or a queue.
func calls(code ast.Node, method string) (found bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		selector, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || selector.Sel.Name != method {
			return true
		}
		var of string
		switch x := selector.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
		of = strings.ToLower(of)
		found = found || of == "guard" || of == "queue"
		return true
	})
	return found
}

// usesQueue reports whether a file works with a queue of package queue.
func usesQueue(syntax *ast.File) bool { return importsPath(syntax, ours+"services/queue") }
