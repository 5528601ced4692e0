package walls

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// unitSettings returns the settings of the section Service of a unit, with all values of each.
func unitSettings(t *testing.T, parts ...string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(deployed(append([]string{"systemd"}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	_, service, _ := strings.Cut(string(text), "[Service]\n")
	service, _, _ = strings.Cut(service, "\n[")
	settings := map[string][]string{}
	for line := range strings.Lines(service) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			settings[key] = append(settings[key], value)
		}
	}
	return settings
}

// credentials are the files that each daemon's unit loads, besides the certificate of the
// authority, which all may read.
func credentials(daemon string) []string {
	own := []string{"/etc/portolan/tls/" + daemon + ".crt", "/etc/portolan/tls/" + daemon + ".key"}
	switch daemon {
	case "registry":
		return append(own, "/etc/portolan/tls/issuer.crt", "/etc/portolan/tls/issuer.key", "/etc/portolan/store")
	case "allocator":
		return append(own, "/etc/portolan/allocator-store")
	default:
		return own
	}
}

// TestUnitsAreApart checks that each unit has a user of its own, loads its own key and no other, and
// cannot read the folder of all keys.
func TestUnitsAreApart(t *testing.T) {
	common := unitSettings(t, "portolan-.service.d", "10-common.conf")
	hidden := strings.Fields(strings.Join(common["InaccessiblePaths"], " "))
	users := map[string]string{}
	for _, daemon := range daemons {
		unit := unitSettings(t, "portolan-"+daemon+".service")
		if len(unit["User"]) != 1 || users[unit["User"][0]] != "" {
			t.Fatalf("%s: users %v, which %s has too", daemon, unit["User"], users[strings.Join(unit["User"], "")])
		}
		users[unit["User"][0]] = daemon
		if root := unit["User"][0] == "root"; root != (daemon == "nodeagent") || root == slices.Contains(unit["DynamicUser"], "yes") {
			t.Errorf("%s: user %s, dynamic %v", daemon, unit["User"][0], unit["DynamicUser"])
		}
		if slices.ContainsFunc([]string{"Group", "SupplementaryGroups", "ReadWritePaths", "BindPaths"}, func(key string) bool { return len(unit[key])+len(common[key]) > 0 }) {
			t.Errorf("%s: has a group or a folder besides its own", daemon)
		}
		var loaded []string
		names := map[string]bool{}
		for _, credential := range unit["LoadCredential"] {
			name, path, _ := strings.Cut(credential, ":")
			names["/run/credentials/portolan-"+daemon+".service/"+name] = true
			if path != "/etc/portolan/tls/ca.crt" {
				loaded = append(loaded, path)
			}
			if !slices.ContainsFunc(hidden, func(path string) bool {
				return strings.HasPrefix(credential[len(name)+1:], strings.TrimPrefix(path, "-"))
			}) {
				t.Errorf("%s: every daemon can read %s", daemon, path)
			}
		}
		if !slices.Equal(loaded, credentials(daemon)) {
			t.Errorf("%s: loads %v, want %v", daemon, loaded, credentials(daemon))
		}
		checkPaths(t, daemon, names, unit)
		if len(unit["MemoryMax"]) != 1 || len(common["TasksMax"]) != 1 || !strings.HasPrefix(strings.Join(unit["Environment"], " "), "GOMEMLIMIT=") {
			t.Errorf("%s: memory %v of %v, tasks %v", daemon, unit["Environment"], unit["MemoryMax"], common["TasksMax"])
		}
	}
}

var secretSetting = regexp.MustCompile(`^(tls-(cert|key|ca)|issuer-(cert|key)|store-file)$`)

// checkPaths checks that the sample configuration names files that the unit provides.
func checkPaths(t *testing.T, daemon string, credentials map[string]bool, unit map[string][]string) {
	t.Helper()
	var settings map[string]string
	decode(t, deployed("systemd", "etc", daemon+".yaml"), yaml.Unmarshal, &settings)
	for key, value := range settings {
		if secretSetting.MatchString(key) && !credentials[value] {
			t.Errorf("%s: %s is %s, which the unit does not load", daemon, key, value)
		}
		if key == "store" {
			t.Errorf("%s: the store's URL is in a file that everybody may read", daemon)
		}
	}
	socket := "unix:/run/" + strings.Join(unit["RuntimeDirectory"], "") + "/debug.sock"
	state := "/var/lib/" + strings.Join(unit["StateDirectory"], "")
	if want := "/var/log/" + strings.Join(unit["LogsDirectory"], "") + "/audit.log"; settings["audit-log"] != want {
		t.Errorf("%s: audit-log %q, want %s", daemon, settings["audit-log"], want)
	}
	if settings["debug-addr"] != socket || settings["data-dir"] != "" && settings["data-dir"] != state {
		t.Errorf("%s: debug-addr %q and data-dir %q, want %s and %s", daemon, settings["debug-addr"], settings["data-dir"], socket, state)
	}
}

// containers are the services of docker-compose.yml.
type containers map[string]struct {
	Image       string
	Environment map[string]string
	Volumes     []string
	Command     any
	MemLimit    string `yaml:"mem_limit"`
	PidsLimit   int    `yaml:"pids_limit"`
}

func stackContainers(t *testing.T) containers {
	t.Helper()
	var stack struct{ Services containers }
	decode(t, filepath.Join(repository, "docker-compose.yml"), yaml.Unmarshal, &stack)
	return stack.Services
}

// keysOf returns the volumes with certificates that a container mounts.
func keysOf(volumes []string) (keys []string) {
	for _, volume := range volumes {
		if source, _, _ := strings.Cut(volume, ":"); strings.HasPrefix(source, "certs-") {
			keys = append(keys, source)
		}
	}
	return keys
}

// TestContainersAreApart checks that each service of docker-compose.yml has a limit of memory, that
// no two daemons of different roles mount the same certificates, and that none has a password in its
// environment.
func TestContainersAreApart(t *testing.T) {
	images := map[string]string{} // by volume
	for name, service := range stackContainers(t) {
		if service.MemLimit == "" || service.PidsLimit == 0 {
			t.Errorf("%s: memory %q, processes %d", name, service.MemLimit, service.PidsLimit)
		}
		for key, value := range service.Environment {
			if secret := strings.Contains(key, "PASSWORD") || strings.Contains(key, "STORE"); secret && !strings.HasSuffix(key, "_FILE") {
				t.Errorf("%s: the environment has %s=%s", name, key, value)
			}
		}
		if name == "certs" {
			continue // makes all of them
		}
		for _, source := range keysOf(service.Volumes) {
			if other, taken := images[source]; taken && other != service.Image {
				t.Errorf("%s mounts %s, which %s has", name, source, other)
			}
			images[source] = service.Image
		}
	}
	if len(images) < 10 {
		t.Errorf("only %d volumes with certificates were found", len(images))
	}
}

// TestKeysOfPrograms checks that the backends of the stack have a workload's key, and that only the
// container that waits for the operator has the operator's.
func TestKeysOfPrograms(t *testing.T) {
	backends, operators := 0, 0
	for name, service := range stackContainers(t) {
		keys := keysOf(service.Volumes)
		if slices.Contains(keys, "certs-authority") && name != "certs" {
			t.Errorf("%s has the key of the authority", name)
		}
		if slices.Contains(keys, "certs-operator") && name != "certs" {
			operators++
			if command := fmt.Sprint(service.Command); name != "operator" || command != "[pause]" {
				t.Errorf("%s has the operator's key and runs %s", name, command)
			}
		}
		if command, _ := service.Command.([]any); len(command) > 0 && command[0] == "run" {
			backends++
			if len(keys) != 1 || !strings.HasPrefix(keys[0], "certs-workload") {
				t.Errorf("backend %s has the keys %v, want a workload's", name, keys)
			}
		}
	}
	if backends != 3 || operators != 1 {
		t.Errorf("%d backends and %d operators were found", backends, operators)
	}
}
