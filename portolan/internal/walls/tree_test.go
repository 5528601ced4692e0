package walls

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const ours = "portolan.dev/"

// repository is a link to the root of the repository. The go command notices changes of files that
// a test opens only if their path is below the test's own module, as a path through this link is.
// Without it, it would serve an old result from its cache.
const repository = "../../testdata/repository"

// file is one Go file of the repository.
type file struct {
	name      string // slash-separated, from the root of the repository
	pkg       string // import path
	test      bool   // *_test.go
	generated bool
	lines     int
	fset      *token.FileSet
	syntax    *ast.File
}

// position returns a position in the file, for messages.
func (f file) position(pos token.Pos) string {
	return f.name + ":" + strconv.Itoa(f.fset.Position(pos).Line)
}

// tree reads the repository once for all tests.
var tree = sync.OnceValues(func() ([]file, error) {
	const root = repository + "/"  // with the slash WalkDir follows the link
	modules := map[string]string{} // module path by folder
	var files []file
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if entry.IsDir() {
			if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" {
				return fs.SkipDir
			}
			return readModule(modules, name, rel)
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		f, err := parse(name, rel)
		f.pkg = importPath(modules, rel)
		files = append(files, f)
		return err
	})
	return files, err
})

func readModule(modules map[string]string, dir, rel string) error {
	content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if os.IsNotExist(err) {
		return nil
	}
	for line := range strings.Lines(string(content)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			modules[rel] = strings.TrimSpace(name)
		}
	}
	return err
}

func importPath(modules map[string]string, rel string) string {
	dir := path.Dir(rel)
	for up := dir; ; up = path.Dir(up) {
		if module, ok := modules[up]; ok {
			return path.Join(module, strings.TrimPrefix(dir, up))
		}
		if up == "." {
			return dir
		}
	}
}

// parse parses a file, with function bodies only if a test looks at them. Generated code is most of
// the text, and no habit applies to it.
func parse(name, rel string) (file, error) {
	f := file{name: rel, test: strings.HasSuffix(rel, "_test.go"), fset: token.NewFileSet()}
	source, err := os.ReadFile(name)
	if err != nil {
		return f, err
	}
	mode := parser.ImportsOnly | parser.ParseComments
	if f.test {
		mode = parser.SkipObjectResolution
	}
	f.syntax, err = parser.ParseFile(f.fset, rel, source, mode)
	if err != nil {
		return f, err
	}
	f.generated = ast.IsGenerated(f.syntax)
	f.lines = strings.Count(string(source), "\n")
	return f, nil
}

func files(t *testing.T) []file {
	t.Helper()
	all, err := tree()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Fatalf("only %d Go files found: this is not the whole repository", len(all))
	}
	return all
}
