package walls

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"portolan.dev/services/kit/config"
)

func deployed(parts ...string) string {
	return filepath.Join(append([]string{repository, "deploy"}, parts...)...)
}

// TestSampleConfigurations loads each daemon's sample file as the daemon does.
func TestSampleConfigurations(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for _, daemon := range daemons {
		var out strings.Builder
		file := deployed("systemd", "etc", daemon+".yaml")
		if err := config.Load(daemon, configurations[daemon], []string{"-config", file, "-check-config"}, none, &out); !errors.Is(err, config.ErrDone) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

// TestUnits has systemd check the units as they are installed.
func TestUnits(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here; it comes with Debian's systemd")
	}
	root := t.TempDir()
	units := filepath.Join(root, "usr/lib/systemd/system")
	install(t, deployed("systemd", "portolan-.service.d", "10-common.conf"), filepath.Join(units, "portolan-.service.d", "10-common.conf"))
	names := make([]string, 0, len(daemons))
	for _, daemon := range daemons {
		name := "portolan-" + daemon + ".service"
		install(t, deployed("systemd", name), filepath.Join(units, name))
		install(t, "/bin/true", filepath.Join(root, "usr/bin", daemon))
		names = append(names, name)
		instance := "renewed-portolan@" + daemon
		install(t, deployed("systemd", "renewed-portolan@.path"), filepath.Join(units, instance+".path"))
		install(t, deployed("systemd", "renewed-portolan@.service"), filepath.Join(units, instance+".service"))
		names = append(names, instance+".path", instance+".service")
	}
	for _, name := range []string{"renew-portolan-monitor.service", "renew-portolan-monitor.timer"} {
		install(t, deployed("systemd", name), filepath.Join(units, name))
		names = append(names, name)
	}
	install(t, "/bin/true", filepath.Join(root, "usr/bin/portolan"))
	install(t, "/bin/true", filepath.Join(root, "usr/bin/systemctl"))
	for _, target := range []string{"multi-user.target", "network-online.target", "sysinit.target", "basic.target", "shutdown.target", "-.mount", "system.slice"} {
		if system := filepath.Join("/usr/lib/systemd/system", target); exists(system) {
			install(t, system, filepath.Join(units, target))
		}
	}
	verify := exec.CommandContext(t.Context(), analyze, append([]string{"verify", "--root=" + root, "--man=no"}, names...)...)
	if out, err := verify.CombinedOutput(); err != nil || strings.Contains(string(out), "portolan") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	for _, daemon := range daemons {
		// 0 is a service without any rights, 100 one with all. The agent needs the network and is
		// root.
		name, most := "portolan-"+daemon+".service", "--threshold=20"
		if daemon == "nodeagent" {
			most = "--threshold=30"
		}
		exposure := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--root="+root, most, name)
		if out, err := exposure.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func install(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(from)
	if err := errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, info.Mode().Perm())); err != nil {
		t.Fatal(err)
	}
}

var variable = regexp.MustCompile(`^PORTOLAN_([A-Z]+)_[A-Z_]+$`)

// TestComposeNamesSettings finds variables in the compose file that no daemon reads. Unlike an
// unknown key in a file, an unknown variable is not reported by a daemon.
func TestComposeNamesSettings(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var stack struct {
		Services map[string]struct{ Environment map[string]string }
	}
	if err := yaml.Unmarshal(text, &stack); err != nil {
		t.Fatal(err)
	}
	var known []string
	for _, daemon := range daemons {
		for _, f := range config.Flags(daemon, configurations[daemon]) {
			known = append(known, f.Env)
		}
	}
	settings := 0
	for name, service := range stack.Services {
		for key := range service.Environment {
			if m := variable.FindStringSubmatch(key); m == nil || !slices.Contains(daemons, strings.ToLower(m[1])) {
				continue
			}
			settings++
			if !slices.Contains(known, key) {
				t.Errorf("%s: no daemon reads %s", name, key)
			}
		}
	}
	if settings == 0 {
		t.Error("no settings found")
	}
}
