package walls

import (
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"

	"portolan.dev/services/balancer"
)

// otherTests are the tests of annotations on which lbctl alone acts, and of unknown annotations, which are
// only reported. All others have a test by traffic at an edge.
var otherTests = map[string]string{
	balancer.Prefix + "pool":  "TestPoolsAreChosen",
	balancer.Prefix + "ips":   "TestRequestedAddresses",
	balancer.Prefix + "share": "TestEdgesShareNoAddressWithNodes",
	"":                        "TestSettingsThatAreNotHonoured",
}

// testOf returns the name of the test that shows the effect of an annotation.
func testOf(a balancer.Annotation) string {
	if name, ok := otherTests[a.Name]; ok {
		return name
	}
	name := "TestAnnotation"
	for word := range strings.SplitSeq(strings.TrimPrefix(a.Name, balancer.Prefix), "-") {
		switch word {
		case "tls", "ca":
			name += strings.ToUpper(word)
		default:
			name += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return name
}

// annotationTable returns the table of annotations for the edge's README.
func annotationTable() string {
	var out strings.Builder
	out.WriteString("| annotation | values | default | effect | from | test |\n|---|---|---|---|---|---|\n")
	for _, a := range balancer.Annotations() {
		names, values := []string{"—"}, []string{a.Values}
		if a.Name != "" {
			names = []string{"`" + strings.TrimPrefix(a.Name, balancer.Prefix) + "`"}
		}
		for _, alias := range a.Aliases {
			names = append(names, "`"+shortAlias(alias.Name)+"`")
			if alias.Values != "" {
				values = append(values, "`"+shortAlias(alias.Name)+"`: "+alias.Values)
			}
		}
		cells := []string{strings.Join(names, "<br>"), strings.Join(values, "<br>"), a.Default, a.Effect, a.From.String(), "`" + testOf(a) + "`"}
		out.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return out.String()
}

// shortAlias returns the name of a cloud's annotation as the table has it.
func shortAlias(name string) string {
	if rest, ok := strings.CutPrefix(name, "service.beta.kubernetes.io/"); ok {
		return "…/" + rest
	}
	return name
}

var annotationRows = regexp.MustCompile(`(?m)^\| annotation \| values \|.*\n(?:\|.*\n)+`)

// TestReadmeAnnotations compares the table of annotations in the edge's README with the table in
// services/balancer, and checks that the tests which it names exist.
func TestReadmeAnnotations(t *testing.T) {
	text, want := readme(t, "edge"), annotationTable()
	found := annotationRows.FindAllString(text, -1)
	switch {
	case len(found) != 1:
		t.Errorf("edge/README.md has %d tables of annotations, want one", len(found))
	case found[0] == want:
	case *update:
		if err := os.WriteFile(readmeOf("edge"), []byte(strings.Replace(text, found[0], want, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Error("edge/README.md: the annotations are others; write them by\n\tgo test ./portolan/internal/walls -run Readme -update")
	}
	there := map[string]bool{}
	for _, f := range files(t) {
		if !f.test {
			continue
		}
		for _, decl := range f.syntax.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil {
				there[fn.Name.Name] = true
			}
		}
	}
	for _, a := range balancer.Annotations() {
		if !there[testOf(a)] {
			t.Errorf("no test %s shows the effect of the annotation %q, as edge/README.md says", testOf(a), a.Name)
		}
	}
}
