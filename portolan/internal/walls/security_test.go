package walls

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"portolan.dev/services/kit/identity"
)

// attacks is the package of the tests that repeat the attacks of a review.
const attacks = "portolan/e2e/attacks"

var testName = regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z]*)`")

// TestSecurityPage checks that docs/security.md describes every role, names every attack test, and
// names no test that does not exist.
func TestSecurityPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, role := range identity.Roles() {
		if !strings.Contains(page, "\n| `"+string(role)) {
			t.Errorf("docs/security.md does not say what role %s can do at worst", role)
		}
	}
	named := map[string]bool{}
	for _, match := range testName.FindAllStringSubmatch(page, -1) {
		named[match[1]] = true
	}
	exists, ofAttacks := testFunctions(t)
	for name := range named {
		if !exists[name] {
			t.Errorf("docs/security.md names the test %s, which does not exist", name)
		}
	}
	for name := range ofAttacks {
		if !named[name] {
			t.Errorf("docs/security.md does not name the test %s of %s", name, attacks)
		}
	}
}

// testFunctions returns the names of all tests, and the names of the tests in the package attacks.
func testFunctions(t *testing.T) (all, ofAttacks map[string]bool) {
	t.Helper()
	all, ofAttacks = map[string]bool{}, map[string]bool{}
	for _, f := range files(t) {
		if !f.test {
			continue
		}
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !testName.MatchString("`"+fn.Name.Name+"`") || fn.Name.Name == "TestMain" {
				continue
			}
			all[fn.Name.Name] = true
			if path.Dir(f.name) == attacks {
				ofAttacks[fn.Name.Name] = true
			}
		}
	}
	return all, ofAttacks
}
