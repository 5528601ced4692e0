package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func sample(t *testing.T, change func(*options)) string {
	t.Helper()
	o := options{
		root: "testdata/sample", most: 100, seed: 1, grace: 3 * time.Second, env: []string{"GOWORK=off"}, targets: choose([]string{"./weak/"}),
	}
	change(&o)
	var out strings.Builder
	if err := mutate(t.Context(), &out, o); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	t.Logf("\n%s", &out)
	return out.String()
}

// TestSurvivors tries all mutants of a package with two gaps in its tests, and continues after an
// interruption.
func TestSurvivors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	before, err := os.ReadFile("testdata/sample/weak/weak.go")
	if err != nil {
		t.Fatal(err)
	}
	first := sample(t, func(o *options) { o.results, o.most = file, 3 })
	if !strings.Contains(first, "| `weak` | 3 |") {
		t.Error("the first run did not try three mutants")
	}
	second := sample(t, func(o *options) { o.results = file })
	if tried := strings.Count(first, "weak.go") + strings.Count(second, "s weak/weak.go"); tried < 7 {
		t.Errorf("%d mutants were tried", tried)
	}
	for _, want := range []string{
		"* weak/weak.go:8:7: move a boundary: `>` → `>=`\n",
		"* weak/weak.go:16:2: leave out an assignment: `list[key] = 1` → `_ = 1`\n",
		"| 2 | ",
	} {
		if !strings.Contains(second, want) {
			t.Errorf("missing: %q", want)
		}
	}
	if strings.Contains(second, "no mutant") {
		t.Error("a call of a logger was left out")
	}
	if !strings.Contains(first+second, "timeout ") {
		t.Error("a loop without an end was not noticed")
	}
	report := sample(t, func(o *options) { o.results, o.report = file, true })
	if _, table, _ := strings.Cut(second, "\n|"); !strings.HasSuffix(report, table) {
		t.Errorf("the report differs:\n%s", report)
	}
	after, err := os.ReadFile("testdata/sample/weak/weak.go")
	if err != nil || string(after) != string(before) {
		t.Errorf("the source was written to: %v", err)
	}
}

func TestTestsMustPassWithoutMutant(t *testing.T) {
	o := options{
		root: "testdata/sample", results: filepath.Join(t.TempDir(), "results"), most: 1, env: []string{"GOWORK=off"},
		targets: []target{{"weak", []string{"failing"}}},
	}
	if err := mutate(t.Context(), new(strings.Builder), o); err == nil || !strings.Contains(err.Error(), "without a mutant") {
		t.Errorf("tests that fail by themselves killed a mutant: %v", err)
	}
}

// TestUnknownPackages checks that a package that does not exist is an error, as a target and as the place of its tests.
func TestUnknownPackages(t *testing.T) {
	for _, targets := range [][]target{choose([]string{"absent"}), {{"weak", []string{"weak", "absent"}}}} {
		o := options{root: "testdata/sample", results: filepath.Join(t.TempDir(), "results"), most: 1, targets: targets}
		if err := mutate(t.Context(), new(strings.Builder), o); err == nil || !strings.Contains(err.Error(), "absent: no package") {
			t.Errorf("%v: got %v", targets, err)
		}
	}
}

// TestSampleIsTheSame checks that the same seed gives the same sample, and another seed another
// one.
func TestSampleIsTheSame(t *testing.T) {
	order := func(seed uint64) []int {
		all, err := mutantsOf("weak", "testdata/sample/weak")
		if err != nil {
			t.Fatal(err)
		}
		shuffle(all, seed)
		var starts []int
		for _, m := range all {
			starts = append(starts, m.start)
		}
		return starts
	}
	if !slices.Equal(order(1), order(1)) || slices.Equal(order(1), order(2)) {
		t.Errorf("seed 1: %v and %v, seed 2: %v", order(1), order(1), order(2))
	}
}
