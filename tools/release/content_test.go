package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPackages checks the contents of the packages with dpkg-deb.
func TestPackages(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("allowed: dpkg-deb is on Debian and its derivatives only")
	}
	r := sample(t)
	if err := r.makePackages(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"portolan_1.2.0_amd64.deb":           {"-rwxr-xr-x root/root .* ./usr/bin/portolan\n", "./usr/share/man/man1/portolan.1.gz\n", "./usr/share/zsh/vendor-completions/_portolan\n"},
		"portolan-common_1.2.0_all.deb":      {"drwx------ root/root .* ./etc/portolan/tls/\n", "./lib/systemd/system/portolan-.service.d/10-common.conf\n"},
		"portolan-registry_1.2.0_amd64.deb":  {"./usr/bin/registry\n", "./usr/lib/sysusers.d/portolan-registry.conf\n", "-rw-r--r-- root/root .* 2023-11-14 22:13 ./etc/portolan/registry.yaml\n"},
		"portolan-nodeagent_1.2.0_amd64.deb": {"./usr/lib/modules-load.d/portolan.conf\n", "./lib/systemd/system/portolan-nodeagent.service\n", "./usr/share/man/man8/nodeagent.8.gz\n"},
	} {
		content := command(t, r.out, "dpkg-deb", "--contents", name) + "\n"
		for _, file := range want {
			if !regexp.MustCompile(file).MatchString(content) {
				t.Errorf("%s lacks %q:\n%s", name, file, content)
			}
		}
		if strings.Contains(name, "nodeagent") && strings.Contains(content, "sysusers") {
			t.Errorf("%s makes a user, and its unit runs as root", name)
		}
	}
	fields := command(t, r.out, "dpkg-deb", "--field", "portolan-registry_1.2.0_amd64.deb")
	for _, field := range []string{"Maintainer: Somebody <somebody@example.org>", "Depends: portolan-common (>= 1.2.0)", "Description: Portolan registry: the objects"} {
		if !strings.Contains(fields, field) {
			t.Errorf("no %q in\n%s", field, fields)
		}
	}
	control := t.TempDir()
	command(t, r.out, "dpkg-deb", "--control", "portolan-registry_1.2.0_amd64.deb", control)
	if text, err := os.ReadFile(filepath.Join(control, "conffiles")); err != nil || strings.TrimSpace(string(text)) != "/etc/portolan/registry.yaml" {
		t.Errorf("conffiles: %q, %v", text, err)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		command(t, control, "sh", "-n", script)
	}
}

// TestADaemonWithoutAPart checks that the error names the missing manual page, unit or description of a
// daemon.
func TestADaemonWithoutAPart(t *testing.T) {
	r := sample(t)
	r.daemons = []string{"lbctl"} // it has no page here
	if _, err := r.packages("amd64"); err == nil || !strings.Contains(err.Error(), "portolan/internal/manual") {
		t.Errorf("no page: %v", err)
	}
	r.daemons = []string{"unknown"}
	if _, err := r.packages("amd64"); err == nil || !strings.Contains(err.Error(), "portolan-unknown.service") {
		t.Errorf("no unit: %v", err)
	}
	r.root = t.TempDir()
	write(t, r.deployed("systemd", "portolan-unknown.service"), "[Service]\nUser=root\n")
	if _, err := r.readUnit("unknown"); err == nil || !strings.Contains(err.Error(), "Description") {
		t.Errorf("a unit without a description: %v", err)
	}
}

// TestUsers checks the line for systemd-sysusers. A colon would end the field of /etc/passwd.
func TestUsers(t *testing.T) {
	text := unit{daemon: "registry", description: "Portolan registry: the objects", user: "portolan-registry"}.sysusers()
	if want := "\nu portolan-registry - \"Portolan registry, the objects\"\n"; !strings.HasSuffix(text, want) {
		t.Errorf("%q, want the end %q", text, want)
	}
}

// TestArchive checks that the archive has the files of all packages, sorted, and that they belong to root and
// have the time of the release.
func TestArchive(t *testing.T) {
	r := sample(t)
	if err := r.makeArchives(); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(filepath.Join(r.out, "portolan_1.2.0_linux_amd64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if unzipped.Name != "" || !unzipped.ModTime.IsZero() {
		t.Errorf("the header has %q and %s", unzipped.Name, unzipped.ModTime)
	}
	modes := map[string]int64{}
	var names []string
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Uid != 0 || header.Uname != "root" || !header.ModTime.Equal(r.time) {
			t.Errorf("%s: owner %s, time %s", header.Name, header.Uname, header.ModTime)
		}
		names, modes[header.Name] = append(names, header.Name), header.Mode
	}
	if !slices.IsSorted(names) {
		t.Errorf("not sorted: %q", names)
	}
	for name, mode := range map[string]int64{"usr/bin/portolan": 0o755, "usr/bin/nodeagent": 0o755, "etc/portolan/tls/": 0o700, "etc/portolan/registry.yaml": 0o644} {
		if modes[name] != mode {
			t.Errorf("%s: mode %o, want %o", name, modes[name], mode)
		}
	}
}

// TestSBOM uses the program of the test in place of all programs. It checks that the document has the programs
// and the test's modules, and that each module has a hash.
func TestSBOM(t *testing.T) {
	r := sample(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range r.programs() {
		if err := errors.Join(os.Remove(r.program("amd64", name)), os.Symlink(self, r.program("amd64", name))); err != nil {
			t.Fatal(err)
		}
	}
	var text []byte
	for i := range 2 {
		if err := r.makeSBOM(); err != nil {
			t.Fatal(err)
		}
		again, err := os.ReadFile(filepath.Join(r.out, "portolan_1.2.0.cdx.json"))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && !bytes.Equal(again, text) {
			t.Error("the second document differs from the first")
		}
		text = again
	}
	var bom struct {
		SpecVersion string
		Metadata    struct{ Timestamp string }
		Components  []struct {
			Type, Name, Version, PURL string
			Hashes                    []struct{ Alg, Content string }
		}
		Dependencies []struct {
			Ref       string
			DependsOn []string
		}
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	if bom.SpecVersion != "1.6" || bom.Metadata.Timestamp != "2023-11-14T22:13:20Z" {
		t.Errorf("version %s, time %s", bom.SpecVersion, bom.Metadata.Timestamp)
	}
	found := map[string]bool{}
	for _, c := range bom.Components {
		found[c.Name] = true
		if c.Version == "" || !strings.HasSuffix(c.PURL, "@"+c.Version) || c.Type == "library" && c.Name != "stdlib" && (len(c.Hashes) != 1 || len(c.Hashes[0].Content) != 64) {
			t.Errorf("component %+v", c)
		}
	}
	for _, name := range []string{ours + "registry/cmd/registry", ours + "nodeagent/cmd/nodeagent", "stdlib", "github.com/goreleaser/nfpm/v2"} {
		if !found[name] {
			t.Errorf("%s is not in the document", name)
		}
	}
	for _, d := range bom.Dependencies {
		if strings.Contains(d.Ref, "cmd/registry") && !slices.Contains(d.DependsOn, "pkg:golang/github.com/goreleaser/nfpm/v2@v2.45.0") {
			t.Errorf("%s depends on %v", d.Ref, d.DependsOn)
		}
	}
}
