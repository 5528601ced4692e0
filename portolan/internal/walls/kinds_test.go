package walls

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"portolan.dev/services/kinds"
)

// kindTables lists the files that may have a table of kinds: the table of package kinds, and one in
// each part of the system that has functions of a kind with types of its own.
var kindTables = []string{
	"kubeapi/internal/columns/columns.go",
	"portolan/internal/printer/kinds.go",
	"registry/internal/rules/kinds.go",
	"services/kinds/table.go",
}

// mostKindsNamed is the number of kinds that other code may name in one place. Code that names more
// of them treats all kinds, and has to be changed for a new one.
const mostKindsNamed = 5

// TestAKindIsOneRow checks that only the files of kindTables enumerate the kinds, in a literal or in
// a switch. tools/kind.sh checks the same by adding a kind.
func TestAKindIsOneRow(t *testing.T) {
	var found []string
	for _, f := range files(t) {
		if f.test || f.generated || moduleOf(f.pkg) == "faults" || moduleOf(f.pkg) == "tools" {
			continue
		}
		ast.Inspect(parseWhole(t, f), func(n ast.Node) bool {
			var named []string
			switch n := n.(type) {
			case *ast.CompositeLit:
				named = kindsNamed(n.Elts...)
			case *ast.SwitchStmt:
				named = kindsNamed(casesOf(n.Body)...)
			case *ast.TypeSwitchStmt:
				named = kindsNamed(casesOf(n.Body)...)
			}
			if len(named) <= mostKindsNamed {
				return true
			}
			if !slices.Contains(kindTables, f.name) {
				t.Errorf("%s names the kinds %s in one place; what is said about a kind belongs to its row in services/kinds", f.name, strings.Join(named, ", "))
			}
			found = append(found, f.name)
			return false
		})
	}
	for _, name := range kindTables {
		if !slices.Contains(found, name) {
			t.Errorf("%s has no table of kinds", name)
		}
	}
}

func casesOf(body *ast.BlockStmt) []ast.Expr {
	var cases []ast.Expr
	for _, statement := range body.List {
		if clause, ok := statement.(*ast.CaseClause); ok {
			cases = append(cases, clause.List...)
		}
	}
	return cases
}

// kindsNamed returns the kinds that the expressions name, as a text or by the type of their
// messages.
func kindsNamed(expressions ...ast.Expr) []string {
	var named []string
	for _, expression := range expressions {
		ast.Inspect(expression, func(n ast.Node) bool {
			var name string
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					name, _ = strconv.Unquote(n.Value)
				}
			case *ast.SelectorExpr:
				if pkg, ok := n.X.(*ast.Ident); ok && pkg.Name == "corev1" {
					name = n.Sel.Name
				}
			}
			if kind, ok := kinds.Named(name); ok && kind.Name == name && !slices.Contains(named, name) {
				named = append(named, name)
			}
			return true
		})
	}
	slices.Sort(named)
	return named
}
