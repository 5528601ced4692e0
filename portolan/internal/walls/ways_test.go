package walls

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
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
			if other, _, ok := strings.Cut(name, "."); ok && importsOf(t, folder)[other] {
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
	for _, file := range filesOf(t, folder, parser.SkipObjectResolution) {
		for _, decl := range file.Decls {
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
	if name, ok := kind.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}

// importsOf returns the names of the packages that a folder imports.
func importsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, file := range filesOf(t, folder, parser.ImportsOnly) {
		for _, spec := range file.Imports {
			path := strings.Trim(spec.Path.Value, `"`)
			names[path[strings.LastIndex(path, "/")+1:]] = true
			if spec.Name != nil {
				names[spec.Name.Name] = true
			}
		}
	}
	return names
}

// filesOf parses the Go files of a folder other than tests.
func filesOf(t *testing.T, folder string, mode parser.Mode) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(repository, folder, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no Go files: %v", folder, err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, mode)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
