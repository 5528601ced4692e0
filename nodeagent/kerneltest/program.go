package kerneltest

import (
	"debug/elf"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// programDirs are searched for programs after PATH, because normal users do not have them there.
var programDirs = []string{"/usr/sbin", "/sbin"}

// libraryDirs are the directories in which the dynamic linker of Debian finds libraries by itself.
var libraryDirs = []string{"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"}

// NeedProgram skips a test if a program that TestMain has passed to Main is missing, or fails it if such
// tests are required.
func NeedProgram(t testing.TB, name string) {
	t.Helper()
	Need(t)
	if _, err := exec.LookPath(name); err != nil {
		missing := fmt.Sprintf("%s is missing: run make test-tools", name)
		if os.Getenv(requireEnv) == "1" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
}

// findProgram returns the path of a program, or an empty string.
func findProgram(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range programDirs {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// addPrograms packs programs into the guest's root, where its PATH finds them, and their shared libraries
// where the dynamic linker finds them. Programs that the machine lacks are left out.
func (a *archive) addPrograms(names []string) error {
	done := map[string]bool{}
	for _, name := range names {
		path := findProgram(name)
		if path == "" {
			continue
		}
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		a.add(name, 0o100755, code)
		if err := a.addLibraries(path, done); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// addLibraries packs what a program or library is linked with: the dynamic linker and the libraries, each with
// its own. done has the files and directories that the archive has already.
func (a *archive) addLibraries(path string, done map[string]bool) error {
	needs, err := linkedWith(path)
	if err != nil {
		return err
	}
	for _, need := range needs {
		if done[need] {
			continue
		}
		done[need] = true
		code, err := os.ReadFile(need)
		if err != nil {
			return err
		}
		a.addParents(need, done)
		a.add(strings.TrimPrefix(need, "/"), 0o100755, code)
		if err := a.addLibraries(need, done); err != nil {
			return err
		}
	}
	return nil
}

// addParents packs the directories above a file.
func (a *archive) addParents(path string, done map[string]bool) {
	var above []string
	for dir := filepath.Dir(path); dir != "/" && !done[dir]; dir = filepath.Dir(dir) {
		done[dir] = true
		above = append(above, dir)
	}
	for _, dir := range slices.Backward(above) {
		a.add(strings.TrimPrefix(dir, "/"), 0o040755, nil)
	}
}

// linkedWith returns the paths of the dynamic linker and of the libraries that a file asks for.
func linkedWith(path string) ([]string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			linker, err := io.ReadAll(p.Open())
			if err != nil {
				return nil, err
			}
			out = append(out, strings.TrimRight(string(linker), "\x00"))
		}
	}
	names, err := f.ImportedLibraries()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		dir := slices.IndexFunc(libraryDirs, func(dir string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err == nil
		})
		if dir < 0 {
			return nil, fmt.Errorf("library %s not found", name)
		}
		out = append(out, filepath.Join(libraryDirs[dir], name))
	}
	return out, nil
}
