package walls

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTwoWaysThroughTheCode checks that the functions and types in the tables of
// docs/architecture.md that follow a value through the code exist.
func TestTwoWaysThroughTheCode(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Two ways through the code\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := 0
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`") {
			continue
		}
		rows++
		folder := quoted(cells[1])[0]
		declared := declarations(t, folder)
		for _, name := range append(quoted(cells[2]), quoted(cells[3])...) {
			if other, _, ok := strings.Cut(name, "."); ok && importedNames(t, folder)[other] {
				continue // a type of another package
			}
			if !declared[name] {
				t.Errorf("%s has no %s", folder, name)
			}
		}
	}
	if rows < 20 {
		t.Errorf("%d rows were found", rows)
	}
}

var backquoted = regexp.MustCompile("`([^`]+)`")

// quoted returns the texts between backquotes.
func quoted(cell string) []string {
	var out []string
	for _, match := range backquoted.FindAllStringSubmatch(cell, -1) {
		out = append(out, match[1])
	}
	return out
}

// declarations returns the names of the functions and types in a folder, methods with their type.
func declarations(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, f := range filesOf(t, folder) {
		for _, decl := range parseWhole(t, f).Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				names[receiver(d)+d.Name.Name] = true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						names[s.Name.Name] = true
					}
				}
			}
		}
	}
	return names
}

// receiver returns the type of a method with a dot, or "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	kind := d.Recv.List[0].Type
	if star, ok := kind.(*ast.StarExpr); ok {
		kind = star.X
	}
	if generic, ok := kind.(*ast.IndexExpr); ok {
		kind = generic.X
	}
	if name, ok := kind.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// importedNames returns the names that the files of a folder have for the packages they import.
func importedNames(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, f := range filesOf(t, folder) {
		for _, imported := range imports(f) {
			names[path.Base(imported)] = true
		}
		for _, spec := range f.syntax.Imports {
			if spec.Name != nil {
				names[spec.Name.Name] = true
			}
		}
	}
	return names
}

// filesOf returns the Go files of a folder other than tests.
func filesOf(t *testing.T, folder string) []file {
	t.Helper()
	of := slices.DeleteFunc(slices.Clone(files(t)), func(f file) bool { return f.test || path.Dir(f.name) != folder })
	if len(of) == 0 {
		t.Fatalf("%s: no Go files", folder)
	}
	return of
}
