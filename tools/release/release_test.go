package main

import (
	"bytes"
	"debug/elf"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sample returns a release of two daemons with the files of this repository. The programs and the output of
// the command line are placeholders.
func sample(t *testing.T) *release {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	r := &release{
		root: filepath.Dir(filepath.Dir(here)), out: t.TempDir(), version: "1.2.0", commit: "0123456789abcdef", time: time.Unix(1_700_000_000, 0).UTC(),
		maintainer: "Somebody <somebody@example.org>", daemons: []string{"registry", "nodeagent"}, arches: []string{"amd64"}, log: io.Discard,
	}
	for _, name := range r.programs() {
		write(t, r.program("amd64", name), "the program "+name)
	}
	for _, page := range []string{"portolan.1.gz", "registry.8.gz", "nodeagent.8.gz"} {
		write(t, r.generated("man", page), string(compressed([]byte(page))))
	}
	for shell := range shells {
		write(t, r.generated("completion", shell), "complete "+shell)
	}
	u, err := r.readUnit("registry")
	if err != nil {
		t.Fatal(err)
	}
	write(t, r.generated("sysusers", "registry"), u.sysusers())
	return r
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := writeFile(name, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestVersion checks the version, commit and time of a release.
func TestVersion(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GIT_COMMITTER_DATE", "1700000000 +0000")
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "--allow-empty", "-m", "m"}} {
		command(t, dir, "git", args...)
	}
	hash := command(t, dir, "git", "rev-parse", "HEAD")
	version := func(args ...string) *release {
		t.Helper()
		r, _, err := parse(t.Context(), io.Discard, "all", append([]string{"-root", dir, "-daemons", "registry lbctl"}, args...))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := version()
	if want := "0~20231114221320." + hash[:12]; r.version != want || r.commit != hash || r.epoch() != "1700000000" || len(r.daemons) != 2 || len(r.arches) != 2 {
		t.Errorf("%+v, want version %s", r, want)
	}
	command(t, dir, "git", "tag", "v1.2.0-rc1")
	if r := version(); r.version != "1.2.0~rc1" {
		t.Errorf("of a tag: %s", r.version)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "7")
	if r := version("-version", "3.0"); r.version != "3.0" || r.epoch() != "7" || r.commit != hash {
		t.Errorf("%+v, want what was given", r)
	}
	dir = t.TempDir()
	if r := version("-version", "3.0"); r.commit != "" {
		t.Errorf("outside of a repository: commit %q", r.commit)
	}
}

// TestUsage checks that invalid flags are refused with an error that names the flag.
func TestUsage(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "7")
	for flag, args := range map[string][]string{
		"usage":              {"images"},
		"-daemons":           {"all", "-version", "1.0"},
		"-version":           {"all", "-version", "v1.0", "-daemons", "registry"},
		"-maintainer":        {"all", "-version", "1.0", "-daemons", "registry", "-maintainer", "me"},
		"-arch":              {"all", "-version", "1.0", "-daemons", "registry", "-arch", "mips"},
		"portolan-unknown":   {"packages", "-version", "1.0", "-daemons", "unknown", "-arch", "amd64", "-root", "testdata", "-out", t.TempDir()},
		"flags: got [\"x\"]": {"all", "-version", "1.0", "-daemons", "registry", "x"},
	} {
		if err := run(t.Context(), io.Discard, args); err == nil || flag != "portolan-unknown" && !strings.Contains(err.Error(), flag) {
			t.Errorf("%v: %v, want something about %s", args, err, flag)
		}
	}
	if err := run(t.Context(), io.Discard, nil); err == nil {
		t.Error("no arguments are accepted")
	}
}

// TestStatic builds a program for both architectures, and checks that checkStatic refuses programs for another
// machine and programs that need libraries.
func TestStatic(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module portolan.dev\n\ngo 1.26.0\n")
	write(t, filepath.Join(dir, "portolan", "cmd", "portolan", "main.go"), "package main\n\nfunc main() {}\n")
	r := &release{root: dir, out: t.TempDir(), version: "1.2.0", log: io.Discard}
	t.Setenv("GOFLAGS", "-race") // does not reach the build
	for arch := range machines {
		if err := r.build(t.Context(), arch); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
	}
	if err := checkStatic(r.program("arm64", "portolan"), elf.EM_X86_64); err == nil {
		t.Error("a program for another machine passes")
	}
	if dynamic := "/usr/bin/env"; isFile(dynamic) {
		file, err := elf.Open(dynamic)
		if err != nil {
			t.Fatal(err)
		}
		if err := checkStatic(dynamic, file.Machine); err == nil {
			t.Errorf("%s passes, and is not static", dynamic)
		}
	}
	if err := checkStatic(filepath.Join(dir, "go.mod"), elf.EM_X86_64); err == nil {
		t.Error("a file that is no program passes")
	}
}

// TestReproducible makes packages and archives in two folders from the same programs, and compares the files.
func TestReproducible(t *testing.T) {
	made := make([]*release, 2)
	for i := range made {
		r := sample(t)
		for _, step := range []func() error{r.makePackages, r.makeArchives, r.writeChecksums} {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		made[i] = r
	}
	n, err := compare(made[0].out, made[1].out)
	if want := 4 + 1 + 1; err != nil || n != want { // packages, the archive, the checksums
		t.Errorf("%d files, want %d: %v", n, want, err)
	}
	if sums := command(t, made[0].out, "sha256sum", "-c", checksums); strings.Count(sums, ": OK") != 5 {
		t.Errorf("checksums:\n%s", sums)
	}
	write(t, filepath.Join(made[1].out, "portolan-common_1.2.0_all.deb"), "other")
	write(t, filepath.Join(made[0].out, "only-here.json"), "")
	if _, err := compare(made[0].out, made[1].out); err == nil || !strings.Contains(err.Error(), "common_1.2.0_all.deb differs") || !strings.Contains(err.Error(), "only-here.json") {
		t.Errorf("two differences: %v", err)
	}
}

// TestCopySources checks that the copy has new files, and neither ignored nor deleted files.
func TestCopySources(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	command(t, from, "git", "init", "-q")
	write(t, filepath.Join(from, ".gitignore"), "/dist\n")
	write(t, filepath.Join(from, "a", "new.go"), "package a\n")
	write(t, filepath.Join(from, "dist", "built"), "")
	write(t, filepath.Join(from, "deleted"), "")
	command(t, from, "git", "add", "-A")
	if err := os.Remove(filepath.Join(from, "deleted")); err != nil {
		t.Fatal(err)
	}
	if err := copySources(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(to, "a", "new.go"))
	if err != nil || !bytes.Equal(text, []byte("package a\n")) || isFile(filepath.Join(to, "dist", "built")) || isFile(filepath.Join(to, "deleted")) {
		t.Errorf("the copy is not right: %q, %v", text, err)
	}
}
