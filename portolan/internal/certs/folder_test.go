package certs_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
)

const lifetime = 100 * time.Hour

func requests(who ...string) []certs.Request {
	var list []certs.Request
	for _, name := range who {
		list = append(list, certs.Request{Role: name, Hosts: []string{"localhost", "127.0.0.1"}, Lifetime: lifetime})
	}
	return list
}

// initialise makes a folder with an authority and some certificates.
func initialise(t *testing.T, who ...string) (dir string, folder *certs.Folder) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "certs")
	if _, err := certs.Init(dir, "portolan", 10*lifetime, requests(who...), false); err != nil {
		t.Fatal(err)
	}
	folder, err := certs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, folder
}

func filesIn(dir, base string) identity.Files {
	return identity.Files{Cert: filepath.Join(dir, base+".crt"), Key: filepath.Join(dir, base+".key"), CA: filepath.Join(dir, "ca.crt")}
}

func open(t *testing.T, files identity.Files) *identity.Source {
	t.Helper()
	source, err := identity.Open(identity.Options{Files: files, Log: kittest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func TestInitMakesWhatDaemonsRead(t *testing.T) {
	dir, folder := initialise(t, "registry", "nodeagent/n1", "operator")
	for base, want := range map[string]string{"registry": "registry", "nodeagent-n1": "nodeagent/n1", "operator": "operator"} {
		if id := open(t, filesIn(dir, base)).ID(); id.Path() != want {
			t.Errorf("%s: %s", base, id)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 12 {
		t.Fatalf("%d files, %v", len(entries), err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		want := os.FileMode(0o644)
		if strings.HasSuffix(entry.Name(), ".key") {
			want = 0o600
		}
		if info.Mode() != want {
			t.Errorf("%s has mode %s, want %s", entry.Name(), info.Mode(), want)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v", info.Mode(), err)
	}
	if folder.TrustDomain() != "portolan" {
		t.Error(folder.TrustDomain())
	}
}

// contents returns the contents of a folder, by file.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		found[entry.Name()] = string(data)
	}
	return found
}

// TestNothingIsOverwritten checks that a failed operation writes nothing, and that existing files
// stay.
func TestNothingIsOverwritten(t *testing.T) {
	dir, folder := initialise(t, "registry")
	before := contents(t, dir)
	for name, c := range map[string]struct {
		try  func() error
		want string
	}{
		"init again": {func() error {
			_, err := certs.Init(dir, "portolan", lifetime, requests("registry"), false)
			return err
		}, "ca.crt is there already: portolan certs issue adds certificates; --force"},
		"init, odd trust domain": {func() error {
			_, err := certs.Init(t.TempDir(), "Prod!", lifetime, nil, false)
			return err
		}, `trust domain "Prod!"`},
		"issue again":      {func() error { _, err := folder.Issue(requests("dnssvc", "registry"), false); return err }, "registry.crt is there already: portolan certs renew registry"},
		"issue, odd role":  {func() error { _, err := folder.Issue(requests("dnssvc", "king"), false); return err }, `king: role "king" is not known`},
		"issue, no node":   {func() error { _, err := folder.Issue(requests("nodeagent"), false); return err }, "nodeagent/NODE"},
		"issue, a way out": {func() error { _, err := folder.Issue(requests("nodeagent/../x"), false); return err }, "takes no namespace"},
		"issue, odd host": {func() error {
			_, err := folder.Issue([]certs.Request{{Role: "nats", Hosts: []string{"a b"}}}, false)
			return err
		}, `nats: host "a b" is no name`},
		"renew the unknown": {func() error { _, err := folder.Renew([]string{"dnssvc"}, lifetime, true); return err }, "portolan certs issue dnssvc makes one"},
		"no authority":      {func() error { _, err := certs.Open(t.TempDir()); return err }, "portolan certs init makes an authority"},
	} {
		if err := c.try(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	after := contents(t, dir)
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s has changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files, then %d", len(before), len(after))
	}
	if _, err := folder.Issue(requests("registry"), true); err != nil {
		t.Fatal(err)
	}
	if contents(t, dir)["registry.crt"] == before["registry.crt"] {
		t.Error("force replaced nothing")
	}
}

func TestBrokenAuthorityIsToldOf(t *testing.T) {
	dir, _ := initialise(t)
	other, _ := initialise(t)
	for name, c := range map[string]struct{ file, from, want string }{
		"another's key": {"ca.key", filepath.Join(other, "ca.key"), "the key does not go with the certificate"},
		"no PEM":        {"ca.crt", "/dev/null", "has no certificate in PEM"},
	} {
		data, err := os.ReadFile(c.from)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, c.file)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := certs.Open(dir); err == nil || !strings.Contains(err.Error(), "ca.crt") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := os.WriteFile(path, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRenewKeepsWhatItIs checks that a renewed certificate has the same role, hosts and lifetime
// and a new key, and that certificates that do not expire soon stay.
func TestRenewKeepsWhatItIs(t *testing.T) {
	dir, folder := initialise(t, "registry", "nodeagent/n1")
	before := contents(t, dir)
	idle, err := folder.Renew(nil, lifetime/2, false)
	if err != nil || len(idle) != 2 || idle[0].Written || idle[1].Written {
		t.Fatalf("%+v, %v", idle, err)
	}
	renewed, err := folder.Renew([]string{"nodeagent/n1"}, 2*lifetime, false)
	if err != nil || len(renewed) != 1 || !renewed[0].Written || renewed[0].Name != "nodeagent/n1" || !slices.Equal(renewed[0].Hosts, []string{"localhost", "127.0.0.1"}) {
		t.Fatalf("%+v, %v", renewed, err)
	}
	if left := time.Until(renewed[0].Expires); left < lifetime-time.Hour || left > lifetime+time.Hour {
		t.Errorf("it is good for %s, want %s", left, lifetime)
	}
	after := contents(t, dir)
	for _, name := range []string{"nodeagent-n1.crt", "nodeagent-n1.key"} {
		if after[name] == before[name] {
			t.Errorf("%s is the old one", name)
		}
	}
	if after["registry.crt"] != before["registry.crt"] || len(after) != len(before) {
		t.Error("another file has changed")
	}
	open(t, filesIn(dir, "nodeagent-n1"))
}

func TestFilesOfTakesTheFirstThatIsThere(t *testing.T) {
	dir, folder := initialise(t, "viewer")
	files, err := certs.FilesOf(dir, identity.Operator, identity.Viewer)
	if err != nil || open(t, files).ID().Role != identity.Viewer {
		t.Errorf("%+v, %v", files, err)
	}
	if _, err := folder.Issue(requests("operator"), false); err != nil {
		t.Fatal(err)
	}
	files, err = certs.FilesOf(dir, identity.Operator, identity.Viewer)
	if err != nil || open(t, files).ID().Role != identity.Operator {
		t.Errorf("%+v, %v", files, err)
	}
	if _, err := certs.FilesOf(t.TempDir(), identity.Operator, identity.Viewer); err == nil || !strings.Contains(err.Error(), "has no operator.crt and no viewer.crt") {
		t.Error(err)
	}
}

// TestBoundFiles checks that the only certificate of a role that is bound to a namespace or node is
// found, that several are an error, and that the certificate of the whole role is not among them.
func TestBoundFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	request := func(who string) certs.Request { return certs.Request{Role: who, Lifetime: time.Hour} }
	if _, err := certs.Init(dir, "portolan", time.Hour, []certs.Request{request("operator"), request("operator/shop"), request("workload/n1/shop")}, false); err != nil {
		t.Fatal(err)
	}
	for role, want := range map[identity.Role]string{identity.Operator: "operator@shop.crt", identity.Workload: "workload-n1@shop.crt", identity.Viewer: ""} {
		files, found, err := certs.BoundFilesOf(dir, role)
		if err != nil || found != (want != "") || found && filepath.Base(files.Cert) != want {
			t.Errorf("%s: %+v, %v, %v, want %q", role, files, found, err, want)
		}
	}
	folder, err := certs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Issue([]certs.Request{request("operator/b")}, false); err != nil {
		t.Fatal(err)
	}
	if _, _, err := certs.BoundFilesOf(dir, identity.Operator); err == nil || !strings.Contains(err.Error(), "2 certificates of the role operator") {
		t.Errorf("two operators: %v", err)
	}
}
