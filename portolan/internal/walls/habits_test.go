package walls

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	maxLines     = 600
	maxTestLines = 1000
)

func TestFileLength(t *testing.T) {
	for _, f := range files(t) {
		limit := maxLines
		switch {
		case f.generated:
			continue
		case f.test:
			limit = maxTestLines
		}
		if f.lines > limit {
			t.Errorf("%s has %d lines, at most %d: split it by concept or verb", f.name, f.lines, limit)
		}
	}
}

// TestEveryPackageHasDoc checks that every package has its comment in doc.go. A command of one file
// may have it there, and generated packages have it in their source.
func TestEveryPackageHasDoc(t *testing.T) {
	packages := map[string][]file{}
	for _, f := range files(t) {
		if !f.generated {
			packages[path.Dir(f.name)] = append(packages[path.Dir(f.name)], f)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if !documented(packages[dir]) {
			t.Errorf("%s: doc.go with a package comment is missing", dir)
		}
	}
}

func documented(pkg []file) bool {
	code := slices.DeleteFunc(slices.Clone(pkg), func(f file) bool { return f.test })
	return slices.ContainsFunc(code, func(f file) bool {
		place := path.Base(f.name) == "doc.go" || f.syntax.Name.Name == "main" && len(code) == 1
		return place && f.syntax.Doc != nil
	})
}

// TestNoSleepInTests finds calls of time.Sleep, because waiting by the clock makes tests flaky.
// Files that use synctest may call it, because the clock in its bubble is the test's own.
func TestNoSleepInTests(t *testing.T) {
	for _, f := range files(t) {
		if !f.test || importsPath(f.syntax, "testing/synctest") {
			continue
		}
		for _, pos := range sleeps(f.syntax) {
			t.Errorf("%s: time.Sleep in a test: wait for the thing itself (kittest.Eventually, a channel, testing/synctest)", f.position(pos))
		}
	}
}

// sleeps finds uses of time.Sleep.
func sleeps(syntax *ast.File) []token.Pos {
	var found []token.Pos
	ast.Inspect(syntax, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok && isSelector(selector, "time", "Sleep") {
			found = append(found, selector.Pos())
		}
		return true
	})
	return found
}

func importsPath(syntax *ast.File, path string) bool {
	return slices.ContainsFunc(syntax.Imports, func(spec *ast.ImportSpec) bool { return spec.Path.Value == strconv.Quote(path) })
}

func isSelector(e ast.Expr, pkg, name string) bool {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	x, ok := selector.X.(*ast.Ident)
	return ok && x.Name == pkg
}

func TestSleepsFinds(t *testing.T) {
	const source = `package p
import ("testing"; "time")
func TestA(t *testing.T) { time.Sleep(1) }
var wait = time.Sleep
`
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, "p_test.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var lines []int
	for _, pos := range sleeps(syntax) {
		lines = append(lines, fset.Position(pos).Line)
	}
	if want := []int{3, 4}; !slices.Equal(lines, want) {
		t.Errorf("found in lines %v, want %v", lines, want)
	}
}

// TestPackageNames refuses package names that do not describe the package's subject.
func TestPackageNames(t *testing.T) {
	for _, f := range files(t) {
		if base := path.Base(f.pkg); slices.Contains([]string{"util", "utils", "common", "helpers", "misc", "types"}, base) {
			t.Errorf("%s: package %s: name it after what it is about", f.name, strings.TrimPrefix(f.pkg, ours))
		}
	}
}

// TestProfilesOnTheDebugPortOnly checks that profiles are served on the port of metrics alone.
// net/http/pprof also registers them in the DefaultServeMux, which a server without a handler of
// its own uses.
func TestProfilesOnTheDebugPortOnly(t *testing.T) {
	careless := []string{"DefaultServeMux", "ListenAndServe", "ListenAndServeTLS", "Handle", "HandleFunc"}
	for _, f := range files(t) {
		for _, spec := range f.syntax.Imports {
			if value, _ := strconv.Unquote(spec.Path.Value); value == "net/http/pprof" && f.pkg != ours+"services/kit/obs" {
				t.Errorf("%s imports net/http/pprof; services/kit/obs serves profiles", f.name)
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if selector, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := selector.X.(*ast.Ident); ok && x.Name == "http" && slices.Contains(careless, selector.Sel.Name) {
					t.Errorf("%s: http.%s has the profiles too; serve a handler of your own", f.position(selector.Pos()), selector.Sel.Name)
				}
			}
			return true
		})
	}
}
