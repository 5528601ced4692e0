package walls

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// programPath matches the import path of a program of this repository.
var programPath = regexp.MustCompile(`^portolan\.dev/[a-z]+/cmd/[a-z]+$`)

// packageBehind returns the package behind each program: the only package of this repository that
// its main function imports.
func packageBehind(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, f := range files(t) {
		if !programPath.MatchString(f.pkg) {
			continue
		}
		for _, imported := range imports(f) {
			if moduleOf(imported) != "" {
				found[f.pkg] = imported
			}
		}
	}
	return found
}

func imports(f file) []string {
	var paths []string
	for _, spec := range f.syntax.Imports {
		if value, err := strconv.Unquote(spec.Path.Value); err == nil {
			paths = append(paths, value)
		}
	}
	return paths
}

// parseWhole parses a file with its function bodies.
func parseWhole(t *testing.T, f file) *ast.File {
	t.Helper()
	syntax, err := parser.ParseFile(token.NewFileSet(), filepath.Join(repository, f.name), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return syntax
}

// TestProgramsAreOneCall checks that main calls one function of one package of this repository and
// exits with its result, so that tests can import everything that a program does.
func TestProgramsAreOneCall(t *testing.T) {
	programs := packageBehind(t)
	if len(programs) < len(daemons)+1 {
		t.Errorf("only %d programs found: %v", len(programs), programs)
	}
	for _, f := range files(t) {
		if !programPath.MatchString(f.pkg) {
			continue
		}
		if got := imports(f); len(got) != 2 || got[0] != "os" || got[1] != programs[f.pkg] {
			t.Errorf("%s imports %v, want os and one package of ours", f.name, got)
		}
		if decls := parseWhole(t, f).Decls; len(decls) != 2 || !oneExit(decls[1]) {
			t.Errorf("%s has more than func main() { os.Exit(….Main()) }: move it to the package that it calls", f.name)
		}
	}
}

func oneExit(decl ast.Decl) bool {
	fn, ok := decl.(*ast.FuncDecl)
	if !ok || len(fn.Body.List) != 1 {
		return false
	}
	statement, ok := fn.Body.List[0].(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := statement.X.(*ast.CallExpr)
	return ok && isSelector(call.Fun, "os", "Exit")
}

// TestTestsDeclareTheProgramsTheyBuild finds packages that build a program of this repository
// without importing the package behind it. After a change of the program, go test would serve their
// old result from its cache.
func TestTestsDeclareTheProgramsTheyBuild(t *testing.T) {
	programs := packageBehind(t)
	imported := map[string][]string{} // by package
	for _, f := range files(t) {
		imported[f.pkg] = append(imported[f.pkg], imports(f)...)
	}
	builders := 0
	for _, f := range files(t) {
		if !f.test && !testOnly(f.pkg) || f.pkg == ours+"portolan/internal/walls" {
			continue
		}
		for _, literal := range literals(parseWhole(t, f)) {
			if !strings.Contains(literal, "/cmd/") || !strings.HasPrefix(literal, ours) {
				continue
			}
			builders++
			if wanted, known := programs[literal]; !known || !slices.Contains(imported[f.pkg], wanted) {
				t.Errorf("%s: it builds %s and does not import %q (import _ is enough), so go test would serve an old result", f.name, literal, wanted)
			}
		}
	}
	if builders < 6 {
		t.Errorf("only %d programs are built by tests: this test looks in the wrong place", builders)
	}
}

func literals(syntax *ast.File) []string {
	var found []string
	ast.Inspect(syntax, func(n ast.Node) bool {
		if _, ok := n.(*ast.ImportSpec); ok {
			return false
		}
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if value, err := strconv.Unquote(literal.Value); err == nil {
				found = append(found, value)
			}
		}
		return true
	})
	return found
}

// TestTestsReadTheirOwnModule finds tests that name a file outside of their module. The go command
// does not notice changes of such a file.
func TestTestsReadTheirOwnModule(t *testing.T) {
	for _, f := range files(t) {
		if !f.test {
			continue
		}
		for _, literal := range literals(parseWhole(t, f)) {
			reads := path.Join(path.Dir(f.name), literal)
			if !strings.HasPrefix(literal, "../") || strings.HasPrefix(reads, moduleOf(f.pkg)+"/") || strings.HasPrefix(reads+"/", "tools/") {
				continue
			}
			t.Errorf("%s reads %s, which is outside its module: go test would not notice a change; see portolan/testdata/repository", f.name, reads)
		}
	}
}

// TestProgramsAreBuiltInOnePlace checks that tests do not run the go command themselves, because
// TestTestsDeclareTheProgramsTheyBuild would not see the programs that they build.
func TestProgramsAreBuiltInOnePlace(t *testing.T) {
	for _, f := range files(t) {
		if !f.test && !testOnly(f.pkg) || moduleOf(f.pkg) == "tools" || path.Base(f.pkg) == "kittest" || strings.HasPrefix(f.name, "tools/") {
			continue
		}
		ast.Inspect(parseWhole(t, f), func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && runsGo(call) {
				t.Errorf("%s runs the go command: kittest.Build builds programs", f.name)
			}
			return true
		})
	}
}

// runsGo reports whether a call prepares the go command.
func runsGo(call *ast.CallExpr) bool {
	at := 0
	if isSelector(call.Fun, "exec", "CommandContext") {
		at = 1
	} else if !isSelector(call.Fun, "exec", "Command") {
		return false
	}
	literal, ok := call.Args[at].(*ast.BasicLit)
	return ok && literal.Value == `"go"`
}
