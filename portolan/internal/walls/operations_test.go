package walls

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// operatorsList is a place of docs/operations.md that concerns every daemon.
type operatorsList struct {
	section string
	entry   string // regular expression of a daemon's entry, with NAME for its name
}

// operatorsLists are the lists of docs/operations.md in which every daemon must be. The section Size is no
// such list, because it has measured daemons only. The commands in Install start a small installation.
var operatorsLists = []operatorsList{
	{section: "Placement", entry: "(?m)^\\| `NAME` \\|"},
	{section: "Placement", entry: `\b74\d\d NAME\b`}, // its port
	{section: "Certificates", entry: `(?m)^\|[^|]*\bNAME\b[^|]*\| 24 h \|`},
	{section: "Upgrade", entry: "(?m)^\\d+\\. `NAME`"}, // the order
	{section: "Upgrade", entry: `\bportolan-NAME\b`},   // its unit
	{section: "Troubleshooting", entry: `\b(an?|one|all) NAMEs?\b|\bNAME, (one|all)\b`},
}

// plainNames are the words that the manual has for a daemon besides its name.
var plainNames = map[string]string{"registry": "registries", "dnssvc": "name server", "nodeagent": "node agent"}

// TestEveryDaemonIsInOperations checks that each of operatorsLists has every daemon.
func TestEveryDaemonIsInOperations(t *testing.T) {
	text := readText(t, "docs/operations.md")
	for _, list := range operatorsLists {
		_, section, found := strings.Cut(text, "\n## "+list.section+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		if !found {
			t.Errorf("docs/operations.md has no section %s", list.section)
		}
		for _, daemon := range daemons {
			names := regexp.QuoteMeta(daemon)
			if plain, ok := plainNames[daemon]; ok {
				names = "(" + names + "|" + plain + ")"
			}
			entry := strings.ReplaceAll(list.entry, "NAME", names)
			if !regexp.MustCompile(entry).MatchString(section) {
				t.Errorf("docs/operations.md, section %s: nothing matches %s: describe %s there", list.section, entry, daemon)
			}
		}
	}
}

// TestDaemonsAreListed checks that the tests' list of daemons equals the list in the Makefile, and has
// every module with a program of its own name.
func TestDaemonsAreListed(t *testing.T) {
	_, line, _ := strings.Cut(readText(t, "Makefile"), "\nDAEMONS := ")
	line, _, _ = strings.Cut(line, "\n")
	if built := strings.Fields(line); !slices.Equal(built, daemons) {
		t.Errorf("the Makefile has the daemons %v, the walls %v", built, daemons)
	}
	entries, err := os.ReadDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if exists(filepath.Join(repository, name, "cmd", name)) && name != "portolan" && !slices.Contains(daemons, name) {
			t.Errorf("%s has a program and is not in the list of daemons", name)
		}
	}
}
