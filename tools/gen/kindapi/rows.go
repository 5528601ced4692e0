package kindapi

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
)

// row has the fields of a row in the table of kinds that its service depends on.
type row struct {
	plural     string // "" is the default
	namespaced bool
}

// rowsOf reads the rows of a Go file: each composite literal of the type row[*corev1.NAME].
func rowsOf(table string) (map[string]row, error) {
	file, err := parser.ParseFile(token.NewFileSet(), table, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	rows := map[string]row{}
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok {
			return true
		}
		if name := kindOf(literal.Type); name != "" {
			rows[name] = rowOf(literal)
		}
		return true
	})
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no composite literals of row[*corev1.KIND]", table)
	}
	return rows, nil
}

// kindOf returns NAME of the type row[*corev1.NAME], and "" of other types.
func kindOf(expr ast.Expr) string {
	index, ok := expr.(*ast.IndexExpr)
	if !ok {
		return ""
	}
	pointer, ok := index.Index.(*ast.StarExpr)
	if !ok {
		return ""
	}
	selector, ok := pointer.X.(*ast.SelectorExpr)
	if generic, isName := index.X.(*ast.Ident); !ok || !isName || generic.Name != "row" {
		return ""
	}
	return selector.Sel.Name
}

func rowOf(literal *ast.CompositeLit) row {
	var r row
	for _, element := range literal.Elts {
		field, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		key, _ := field.Key.(*ast.Ident)
		switch value := field.Value.(type) {
		case *ast.BasicLit:
			if key.Name == "plural" {
				r.plural, _ = strconv.Unquote(value.Value)
			}
		case *ast.Ident:
			if key.Name == "namespaced" {
				r.namespaced = value.Name == "true"
			}
		}
	}
	return r
}
