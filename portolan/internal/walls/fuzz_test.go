package walls

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
)

// TestFuzzTargets compares the table of parsers in docs/testing.md with the fuzz targets in the
// tree, each of which needs a corpus.
func TestFuzzTargets(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docs", "testing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Fuzz targets\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		if names := quoted(cells[2]); len(names) == 2 && strings.TrimSpace(cells[1]) != "" && strings.TrimSpace(cells[3]) != "" {
			listed[path.Join(names[0], names[1])] = true
		}
	}
	there := map[string]bool{}
	for _, f := range files(t) {
		if !f.test {
			continue
		}
		for _, name := range fuzzTargets(parseWhole(t, f)) {
			target := path.Join(path.Dir(f.name), name)
			there[target] = true
			corpus, _ := os.ReadDir(filepath.Join(repository, path.Dir(f.name), "testdata", "fuzz", name)) //nolint:errcheck // without a folder there is no corpus
			switch {
			case !listed[target]:
				t.Errorf("docs/testing.md does not list the fuzz target %s with its parser and its invariant", target)
			case len(corpus) == 0:
				t.Errorf("%s has no corpus in testdata/fuzz/%s", target, name)
			}
		}
	}
	for target := range listed {
		if !there[target] {
			t.Errorf("docs/testing.md lists the fuzz target %s, which does not exist", target)
		}
	}
	if len(there) < 30 {
		t.Errorf("%d fuzz targets were found", len(there))
	}
}

// fuzzTargets returns the names of the fuzz targets in a file.
func fuzzTargets(syntax *ast.File) (names []string) {
	for _, decl := range syntax.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && strings.HasPrefix(d.Name.Name, "Fuzz") {
			names = append(names, d.Name.Name)
		}
	}
	return names
}
