package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCode checks that the check fails for a finding, and for an annotation without a rule, without a reason
// or with the wrong rule, and that packages of tests are not checked.
func TestCode(t *testing.T) {
	t.Setenv("GOWORK", "off")
	var out bytes.Buffer
	if err := checkCode(t.Context(), &out, "testdata/sample", []string{"./cmd/sample"}); err == nil {
		t.Error("no error")
	}
	var lines []string
	for line := range strings.Lines(out.String()) {
		if _, finding, ok := strings.Cut(line, "linked.go:"); ok {
			number, rule, _ := strings.Cut(finding, ": ")
			lines = append(lines, number+" "+strings.Fields(rule)[0])
		}
	}
	slices.Sort(lines)
	if want := []string{"10 G404", "10 invalid", "11 G404", "11 invalid", "12 G404", "8 G404"}; !slices.Equal(lines, want) {
		t.Errorf("findings %q, want %q, in\n%s", lines, want, out.String())
	}
	if !strings.Contains(out.String(), "2 packages, 2 files, 6 findings\n") {
		t.Errorf("no summary in\n%s", out.String())
	}
	if err := checkCode(t.Context(), io.Discard, "testdata/sample", []string{"./nothing"}); err == nil {
		t.Error("a package that cannot be read is no error")
	}
}

// TestVulnerabilities checks this program itself with databases of one invented vulnerability in a function
// that the program calls. The check fails, unless the vulnerability is fixed in the version that the program
// uses.
func TestVulnerabilities(t *testing.T) {
	program := filepath.Join(t.TempDir(), "check")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	vulnerable := copyOfDatabase(t)
	mended := copyOfDatabase(t)
	replaceIn(t, filepath.Join(mended, "ID", "GO-2026-9999.json"), `"fixed": "1.0.0"`, `"fixed": "0.1.0"`)
	replaceIn(t, filepath.Join(mended, "index", "modules.json"), `"fixed":"1.0.0"`, `"fixed":"0.1.0"`)

	out, err := vulnerabilities(t, "file://"+vulnerable, program)
	if err == nil || !strings.Contains(out, "GO-2026-9999") || !strings.Contains(out, "packages.Load") {
		t.Errorf("a vulnerable function: %v\n%s", err, out)
	}
	out, err = vulnerabilities(t, "file://"+mended, program)
	if err != nil || !strings.Contains(out, "by file://"+mended+" of 2026-11-20 08:00:00") || !strings.Contains(out, "No vulnerabilities found.") {
		t.Errorf("a mended function: %v\n%s", err, out)
	}
	if out, err := vulnerabilities(t, "file://"+mended, filepath.Join(mended, "index", "db.json")); err == nil {
		t.Errorf("a file that is no program passes:\n%s", out)
	}
}

// TestNoDatabase checks that the check fails if a named database cannot be read, and otherwise prints that
// nothing was checked.
func TestNoDatabase(t *testing.T) {
	if out, err := vulnerabilities(t, "file://"+t.TempDir(), "program"); err == nil {
		t.Errorf("an empty database passes:\n%s", out)
	}
	if out, err := vulnerabilities(t, "http://127.0.0.1:1", "program"); err == nil {
		t.Errorf("a database that was named and cannot be reached passes:\n%s", out)
	}
	var out bytes.Buffer
	err := checkVulnerabilities(t.Context(), &out, database{url: "http://127.0.0.1:1"}, []string{"program"})
	if err != nil || !strings.HasPrefix(out.String(), "NOT CHECKED for known vulnerabilities: the database http://127.0.0.1:1 cannot be reached: ") || !strings.Contains(out.String(), "VULNDB=") {
		t.Errorf("the public one cannot be reached: %v\n%s", err, out.String())
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"code"}, {"vulnerabilities"}, {"vulnerabilities", "-db"}, {"other"}} {
		if err := run(t.Context(), io.Discard, args); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

func vulnerabilities(t *testing.T, url, program string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := run(t.Context(), &out, []string{"vulnerabilities", "-db", url, program})
	return out.String(), err
}

// copyOfDatabase returns a copy of the database of the invented vulnerability.
func copyOfDatabase(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/vulnerable")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func replaceIn(t *testing.T, file, old, replacement string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("%s has no %s", file, old)
	}
	if err := os.WriteFile(file, bytes.ReplaceAll(text, []byte(old), []byte(replacement)), 0o600); err != nil {
		t.Fatal(err)
	}
}
