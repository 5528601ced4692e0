package walls

import (
	"go/ast"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// bugFolder has the patches of deliberate bugs, which tools/bugs.sh applies.
const bugFolder = "faults/sim/testdata/bugs"

// TestDeliberateBugsFit checks that every patch of a deliberate bug applies to the present code,
// names a simulation that exists, and is in the table of docs/reliability.md.
//
// git applies the patches to copies. In the repository itself, git would need the permission of the
// repository's owner, and the go command would not see which files the result depends on.
func TestDeliberateBugsFit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("this test needs git, which applies the patches: %v", err)
	}
	entries, err := os.ReadDir(filepath.Join(repository, bugFolder))
	if err != nil {
		t.Fatal(err)
	}
	simulations, documented := testsIn(t, path.Dir(path.Dir(bugFolder))), documentedBugs(t)
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), ".patch")
		if !ok {
			t.Errorf("%s/%s is not a patch", bugFolder, entry.Name())
			continue
		}
		t.Run(name, func(t *testing.T) {
			patch := readText(t, path.Join(bugFolder, entry.Name()))
			simulation, _, _ := strings.Cut(patch, ":")
			if !simulations[simulation] {
				t.Errorf("the first line of the patch begins with %q, which is not a simulation", simulation)
			}
			if documented[name] != simulation {
				t.Errorf("docs/reliability.md has %q as the test that finds the bug, the patch has %q", documented[name], simulation)
			}
			checkPatch(t, git, patch)
		})
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("docs/reliability.md lists the bug %s, which has no patch", name)
	}
}

// checkPatch checks that a patch applies to copies of the files that it changes.
func checkPatch(t *testing.T, git, patch string) {
	t.Helper()
	copies := t.TempDir()
	changed := regexp.MustCompile(`(?m)^--- a/(.+)$`).FindAllStringSubmatch(patch, -1)
	if len(changed) == 0 {
		t.Fatal("the patch changes no file")
	}
	for _, match := range changed {
		file := filepath.Join(copies, match[1])
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(readText(t, match[1])), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := exec.CommandContext(t.Context(), git, "apply", "--check", "-")
	check.Dir, check.Stdin = copies, strings.NewReader(patch)
	// If the copies were inside a repository, git would skip the patch without an error.
	check.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(copies))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("the patch does not apply, make the change again by hand and write the patch anew with git diff: %v\n%s", err, out)
	}
}

// testsIn returns the names of the tests in a folder.
func testsIn(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, f := range files(t) {
		if !f.test || path.Dir(f.name) != folder {
			continue
		}
		for _, decl := range f.syntax.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil && strings.HasPrefix(d.Name.Name, "Test") {
				names[d.Name.Name] = true
			}
		}
	}
	return names
}

// documentedBugs returns the tests in the table of deliberate bugs in docs/reliability.md, by bug.
func documentedBugs(t *testing.T) map[string]string {
	t.Helper()
	_, section, _ := strings.Cut(readText(t, "docs/reliability.md"), "\n### Deliberate bugs\n")
	section, _, _ = strings.Cut(section, "\n## ")
	tests := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 7 {
			continue
		}
		if bug, test := quoted(cells[1]), quoted(cells[3]); len(bug) == 1 && len(test) == 1 {
			tests[bug[0]] = test[0]
		}
	}
	if len(tests) < 10 {
		t.Errorf("the table of deliberate bugs in docs/reliability.md has %d rows", len(tests))
	}
	return tests
}

// readText returns the content of a file of the repository.
func readText(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
