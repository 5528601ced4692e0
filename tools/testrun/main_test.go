package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testrun runs the tool on one module below testdata. It returns whether it passed, and its output.
func testrun(t *testing.T, name string, o options) (ok bool, output string) {
	t.Helper()
	o.modules = []module{{dir: filepath.Join("testdata", name), alone: true}}
	var out strings.Builder
	ok = run(t.Context(), &out, o)
	t.Logf("testrun %s: %v\n%s", name, ok, &out)
	return ok, out.String()
}

func wantIn(t *testing.T, output string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(output, want) {
			t.Errorf("missing: %q", want)
		}
	}
}

func wantLast(t *testing.T, output, want string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(output, "\n"), "\n")
	if got := lines[len(lines)-1]; got != want {
		t.Errorf("last line: got %q, want %q", got, want)
	}
}

func TestFailuresAreShownAndCounted(t *testing.T) {
	ok, output := testrun(t, "mixed", options{})
	if ok {
		t.Error("a failing module passed")
	}
	wantIn(t, output,
		"ok  \texample.org/mixed/pass\t",
		"first line of the bad one", "got 1, want 2", "--- FAIL: TestBad/worse",
		"FAIL\texample.org/mixed/fail\t",
		"AGAIN example.org/mixed/fail:",
		"FAIL\texample.org/mixed/fail TestBad/worse\n",
		"nobuild_test.go:3:", "FAIL\texample.org/mixed/nobuild [build failed]",
		"?   \texample.org/mixed/empty\t[no test files]",
	)
	for _, unwanted := range []string{"quiet as long as it passes", "of the good one", "FLAKY", "AGAIN example.org/mixed/nobuild"} {
		if strings.Contains(output, unwanted) {
			t.Errorf("should not be there: %q", unwanted)
		}
	}
	// Passed: TestOne, its subtest, TestGood. Failed: TestBad, its subtest, the package that does
	// not build.
	wantLast(t, output, "3 passed, 3 failed, 0 skipped")
}

func TestFlakeIsReportedNotHidden(t *testing.T) {
	t.Setenv("TESTRUN_MARK", filepath.Join(t.TempDir(), "mark"))
	ok, output := testrun(t, "flaky", options{})
	if !ok {
		t.Error("a package that passed alone failed the run")
	}
	line := "FLAKY\texample.org/flaky TestSecondTime: failed once, passed when run alone — mend it\n"
	if got := strings.Count(output, line); got != 2 {
		t.Errorf("the flake is named %d times, want 2: at once and at the end", got)
	}
	wantIn(t, output, "the first time", "FAIL\texample.org/flaky\t", "ok  \texample.org/flaky\t")
	wantLast(t, output, "1 passed, 0 failed, 0 skipped")
}

// TestFlakeFailsAStrictRun checks that in CI a test that passes only the second time fails the run,
// unless the list has it.
func TestFlakeFailsAStrictRun(t *testing.T) {
	t.Setenv("TESTRUN_MARK", filepath.Join(t.TempDir(), "mark"))
	ok, output := testrun(t, "flaky", options{strict: true})
	if ok {
		t.Error("a flake passed a strict run")
	}
	wantIn(t, output, "FAIL\texample.org/flaky TestSecondTime: failed once, passed when run alone: mend it, or list it with a reason\n")
	wantLast(t, output, "1 passed, 1 failed, 0 skipped")

	t.Setenv("TESTRUN_MARK", filepath.Join(t.TempDir(), "mark"))
	if ok, _ = testrun(t, "flaky", options{strict: true, unknown: 1}); !ok {
		t.Error("one flake failed a run that may have one")
	}
	t.Setenv("TESTRUN_MARK", filepath.Join(t.TempDir(), "mark"))
	ok, output = testrun(t, "flaky", options{strict: true, flakes: flakeList{"example.org/flaky TestSecondTime": "the first is hard"}})
	if !ok {
		t.Error("a listed flake failed a strict run")
	}
	wantIn(t, output, "FLAKY\texample.org/flaky TestSecondTime: failed once, passed when run alone — listed: the first is hard\n")
}

func TestListOfFlakesIsUpToDate(t *testing.T) {
	list := flakeList{"example.org/skips TestAllowed": "it is there", "example.org/skips TestGone": "it was there"}
	ok, output := testrun(t, "skips", options{flakes: list})
	if ok {
		t.Error("a list with a test that is not there passed")
	}
	wantIn(t, output, "FAIL\tthe list of flakes names example.org/skips TestGone, which is no test: remove the entry\n")
	wantLast(t, output, "0 passed, 1 failed, 3 skipped")
	if ok, _ := testrun(t, "skips", options{flakes: list, goFlags: []string{"-run=TestAllowed"}}); !ok {
		t.Error("a run of some tests failed for a test that it left out")
	}
}

func TestReadFlakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "flakes")
	for _, c := range []struct {
		text string
		want flakeList // nil is an error
	}{
		{"", flakeList{}},
		{"# no test\n\nexample.org/a/b TestX: the clock jumps\n", flakeList{"example.org/a/b TestX": "the clock jumps"}},
		{"example.org/a/b TestX:\n", nil},
		{"example.org/a/b TestX\n", nil},
		{"example.org/a/b: all of it\n", nil},
		{"example.org/a/b TestX/sub: a part\n", nil},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readFlakes(file)
		if (err != nil) != (c.want == nil) || !maps.Equal(got, c.want) {
			t.Errorf("%q: got %v, %v, want %v", c.text, got, err, c.want)
		}
	}
}

func TestSkips(t *testing.T) {
	ok, output := testrun(t, "skips", options{})
	if !ok {
		t.Error("skips failed a run that does not require real parts")
	}
	wantIn(t, output,
		"SKIP\texample.org/skips TestAllowed: allowed: only on a Tuesday\n",
		"SKIP\texample.org/skips TestMissing: no database here\n",
		"SKIP\texample.org/skips TestSilent: no reason given\n",
	)
	wantLast(t, output, "0 passed, 0 failed, 3 skipped")

	ok, output = testrun(t, "skips", options{strict: true})
	if ok {
		t.Error("skips passed where the real parts are required")
	}
	wantIn(t, output, "FAIL\texample.org/skips TestMissing: skipped where the real parts are required: no database here\n")
	wantLast(t, output, "0 passed, 2 failed, 1 skipped")
}

func TestModuleThatDoesNotLoadFails(t *testing.T) {
	ok, output := testrun(t, "absent", options{})
	if ok {
		t.Error("a module that is not there passed")
	}
	wantLast(t, output, "0 passed, 1 failed, 0 skipped")
}

func TestFlagsReachGoTest(t *testing.T) {
	_, output := testrun(t, "mixed", options{goFlags: []string{"-run", "TestOne/sub", "-count", "1"}})
	wantIn(t, output, "ok  \texample.org/mixed/fail\t")
	wantLast(t, output, "2 passed, 1 failed, 0 skipped")
}

// TestFuzzTargets tests only the listing, because the first run of a fuzz target compiles the
// standard library again, which takes longer than all other tests.
func TestFuzzTargets(t *testing.T) {
	got, err := fuzzTargets(t.Context(), module{dir: "testdata/fuzzy", alone: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []fuzzTarget{{"example.org/fuzzy/one", "FuzzFirst"}, {"example.org/fuzzy/one", "FuzzSecond"}, {"example.org/fuzzy/two", "FuzzFirst"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCutStream checks that the output of a killed process is not lost.
func TestCutStream(t *testing.T) {
	var out strings.Builder
	r := &runner{out: &out, total: totals{seen: map[string]bool{}}}
	ended := r.read(strings.NewReader(`{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestX"}
{"Action":"output","Package":"p","Test":"TestX","Output":"half done\n"}
go: no line of the stream
{"Action":"output","Package":"p"`))
	if len(ended) != 1 || ended[0].state != failed {
		t.Fatalf("got %+v, want one failed package", ended)
	}
	if got := ended[0].failures(); len(got) != 1 || got[0] != "p TestX" {
		t.Errorf("failures: got %q, want [p TestX]", got)
	}
	wantIn(t, out.String(), "half done\n", "go: no line of the stream\n")
}

// TestSuites checks that each package is in one suite, and that it starts where the lists say.
func TestSuites(t *testing.T) {
	o := options{
		modules: []module{{dir: "testdata/mixed", alone: true}, {dir: "testdata/fuzzy", alone: true}},
		race:    true, plain: []string{"mixed/fail"}, first: []string{"mixed/pass", "mixed/fail"},
	}
	got, problems := suites(t.Context(), o)
	if len(problems) > 0 || len(got) != 2 {
		t.Fatalf("got %+v, %v", got, problems)
	}
	want := []string{"example.org/mixed/pass", "example.org/mixed/fail", "example.org/mixed/empty", "example.org/mixed/nobuild"}
	if got[0].race || !slices.Equal(got[0].packages, want) {
		t.Errorf("got %+v, want %v without the race detector", got[0], want)
	}
	if !got[1].race || len(got[1].packages) != 2 {
		t.Errorf("got %+v, want both packages of fuzzy with the race detector", got[1])
	}
}

// TestSuitesOfTheWorkspace checks that the packages of all its modules are in two suites.
func TestSuitesOfTheWorkspace(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"go.work": "go 1.26.0\nuse ./a\nuse ./b\n", "a/go.mod": "module example.org/a\ngo 1.26.0\n", "b/go.mod": "module example.org/b\ngo 1.26.0\n",
		"a/a.go": "package a", "a/below/below.go": "package below", "b/b.go": "package b", "b/slow/slow.go": "package slow",
	} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := options{
		modules: []module{{dir: filepath.Join(folder, "a")}, {dir: filepath.Join(folder, "b")}},
		race:    true, plain: []string{"a/below"}, first: []string{"b/slow"},
	}
	got, problems := suites(t.Context(), o)
	if len(problems) > 0 || len(got) != 2 {
		t.Fatalf("got %+v, %v", got, problems)
	}
	if want := []string{"example.org/b/slow", "example.org/a", "example.org/b"}; !got[0].race || !slices.Equal(got[0].packages, want) {
		t.Errorf("got %+v, want %v with the race detector", got[0], want)
	}
	if want := []string{"example.org/a/below"}; got[1].race || !slices.Equal(got[1].packages, want) {
		t.Errorf("got %+v, want %v without it", got[1], want)
	}
	o.race = false
	if got, _ = suites(t.Context(), o); len(got) != 1 || got[0].race || len(got[0].packages) != 4 {
		t.Errorf("without the race detector: got %+v, want one suite", got)
	}
}

func TestMatches(t *testing.T) {
	patterns := []string{"a/b", "c/..."}
	for path, want := range map[string]bool{"x/a/b": true, "x/a/b/d": false, "x/aa/b": false, "x/c": true, "x/c/d": true, "x/cc": false} {
		if matchesAny(path, patterns) != want {
			t.Errorf("%s: matches %v", path, !want)
		}
	}
}
