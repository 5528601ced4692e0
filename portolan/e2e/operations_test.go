package e2e

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"portolan.dev/portolan/internal/programtest"
	"portolan.dev/services/kit/kittest"
)

// manual is the document under test.
const manual = repository + "/docs/operations.md"

// TestOperations follows docs/operations.md, in its order, on an installation of two registries on
// a real Postgres. Bash runs every block marked sh, with addresses and folders of the test in place
// of the document's. Every line of a block marked console has a counterpart in a table.
func TestOperations(t *testing.T) {
	o := operate(t)
	done := map[string]bool{}
	ran := 0
	for _, b := range programtest.Blocks(t, manual) {
		switch b.Language {
		case "sh":
			o.run(b)
			ran++
		case "console":
			for line := range strings.Lines(b.Text) {
				line = strings.TrimLeft(strings.TrimSpace(line), "#$ ")
				act, known := o.console[line]
				if !known {
					t.Fatalf("%s:%d: the test has nothing to do in place of %q", manual, b.Line, line)
				}
				done[line] = true
				act()
			}
		default:
			t.Errorf("%s:%d: a block is marked %q: sh is run by this test, console is known to it", manual, b.Line, b.Language)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(o.console)) {
		if !done[line] {
			t.Errorf("%q is in the test's table, but no longer in %s", line, manual)
		}
	}
	if ran < 10 {
		t.Errorf("only %d blocks were found in %s", ran, manual)
	}
}

// operator executes the document.
type operator struct {
	*separate
	dir     string   // working folder of commands
	env     []string // initial environment
	replace *strings.Replacer
	url     func(role, database string) string
	console map[string]func() // steps that replace lines which need more than bash
	streams string            // rebuilds before a restored copy was started
}

func operate(t *testing.T) *operator {
	t.Helper()
	postgres := kittest.NewCluster(t)
	o := &operator{dir: t.TempDir(), url: func(role, database string) string { return postgres.URL(role, "secret", database) }}
	o.separate = separately(t, o.url("portolan", "portolan"), host, "0.2")
	o.debug, o.audit, o.accessLogs = t.TempDir(), t.TempDir(), t.TempDir()
	path, rest := postgres.Environment()[0], postgres.Environment()[1:]
	o.env = append(rest, strings.Replace(path, "PATH=", "PATH="+bin+string(os.PathListSeparator), 1), "HOME="+o.dir)
	addresses := []string{"10.0.0.1", o.network.IP(host), "10.0.0.2", o.network.IP("0.2"), "127.0.0.1", o.network.IP(host)}
	o.replace = strings.NewReplacer(append(addresses,
		"/etc/portolan/", o.configurations(strings.NewReplacer(addresses...)), "/etc/nats/tls", filepath.Join(o.dir, "nats"),
		"/var/lib/portolan/allocator", o.folder, "/root/certs", filepath.Join(o.dir, "certs"), "/run/portolan-registry/", o.debug+"/", "/var/log/portolan/registry/", o.audit+"/", "/var/log/portolan/edge/access/", o.accessLogs+"/", "198.51.100.0/24", o.network.Balancers(), "/var/backups/", o.dir+"/")...)
	o.console = map[string]func(){
		"systemctl enable --now portolan-allocator portolan-registry portolan-endpointctl portolan-lbctl portolan-dnssvc portolan-nodeagent": o.startAll,
		"portolan run --name web-1 -l app=web --port http=8080 --ready-http 8080/healthz -- portolan hello --port 8080":                      o.startBackend,
		"systemctl enable --now portolan-nodeagent portolan-edge":                                                                            o.startEdge,
		"portolan run --name shop-1 -l app=shop --port http=8081 --ready-http 8081/healthz -- portolan hello --port 8081":                    o.startShop,
		"systemctl stop portolan-allocator":          func() { o.stop(seat{"allocator", host}) },
		"systemctl enable --now portolan-allocator":  o.startAllocators,
		"systemctl disable --now portolan-nodeagent": func() { o.stop(seat{"nodeagent", host}) },
		"registry -config practice.yaml -store-file /etc/portolan/store-restored -addr 127.0.0.1:17400 -http-addr 127.0.0.1:17500 -allocator 127.0.0.1:17401": o.startCopy,
		"allocator -data-dir /tmp/practice -registry 127.0.0.1:17400 -addr 127.0.0.1:17401 -http-addr 127.0.0.1:17501":                                        o.startAllocatorOfCopy,
		"kill %1 %2": o.stopCopy,
		// These need root and a kernel of their own, so the tests of nodeagent run them.
		"nodeagent cleanup -config /etc/portolan/nodeagent.yaml": func() {},
		"ip route add local 10.96.0.0/16 dev lo":                 func() {},
		"ip -6 route add local fd00:96::/112 dev lo":             func() {},
		// The daemons of this test have no certificates. The attacks in portolan/e2e revoke some.
		`portolan certs revoke --certs /root/certs nodeagent/n2 --reason "the machine was stolen"`: func() {},
		"portolan certs issue --certs /root/certs nodeagent/n2 --force":                            func() {},
		"portolan certs nats-config --certs /root/certs --path /etc/nats/tls > portolan-nats.conf": func() {},
		"nats-server --signal reload": func() {},
	}
	for _, daemon := range daemons {
		o.console["systemctl restart portolan-"+daemon] = func() { o.restart(daemon) }
	}
	return o
}

// configurations copies the sample configurations and returns their folder, with a slash.
func (o *operator) configurations(addresses *strings.Replacer) string {
	o.Helper()
	samples, err := filepath.Glob(repository + "/deploy/systemd/etc/*.yaml")
	if err != nil || len(samples) != len(daemons)+1 { // registrar has no configuration here, because it has pages of its own
		o.Fatalf("sample configurations %v, %v", samples, err)
	}
	dir := o.TempDir()
	for _, sample := range samples {
		content, err := os.ReadFile(sample)
		if err != nil {
			o.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(sample)), []byte(addresses.Replace(string(content))), 0o600); err != nil {
			o.Fatal(err)
		}
	}
	return dir + "/"
}

func (o *operator) startAll() {
	o.startNATS()
	for _, daemon := range daemons {
		for _, at := range o.seats(daemon) {
			if daemon != "edge" {
				o.start(at)
			}
		}
	}
	for at := range o.running {
		o.awaitReady(at)
	}
}

// startEdge starts an edge beside a node agent. It listens at addresses of the loopback interface,
// which need no announcement.
func (o *operator) startEdge() {
	for _, daemon := range []string{"nodeagent", "edge"} {
		at := seat{daemon, host}
		o.start(at)
		o.awaitReady(at)
	}
}

// startAllocators starts the allocators on the shared store.
func (o *operator) startAllocators() {
	o.shared = o.url("allocator", "portolan")
	for _, at := range o.seats("allocator") {
		o.start(at)
	}
	for _, at := range o.seats("allocator") {
		o.awaitReady(at)
	}
}

// copyAt returns an address of the restored copy at a port of the document.
func (o *operator) copyAt(port int) string { return o.network.Addr(host, port) }

// practice returns the name of a process of the restored copy.
func practice(daemon string) seat { return seat{"practice " + daemon, host} }

// startCopy starts a registry on the restored database, with the NATS server of the original.
func (o *operator) startCopy() {
	o.streams = o.rebuilds()
	o.running[practice("registry")] = startProgram(o.T, "practice registry", "registry",
		"-addr", o.copyAt(17400), "-http-addr", o.copyAt(17500), "-nats-url", "nats://"+o.api(4222), "-allocator", o.copyAt(17401),
		"-store-file", kittest.SecretFile(o.T, o.url("portolan", "portolan_restored")), "-service-cidr", o.network.Services(), "-pod-cidr", o.network.Pods(),
		"-loopback-endpoints", o.network.Pods())
	kittest.Eventually(o.T, "the registry of the copy", func() error {
		page, err := getPage(o.copyAt(17500), "/readyz")
		if err == nil && !strings.Contains(page, "belongs to another installation") {
			err = errors.New(page)
		}
		return err
	})
}

func (o *operator) startAllocatorOfCopy() {
	o.running[practice("allocator")] = startProgram(o.T, "practice allocator", "allocator",
		"-addr", o.copyAt(17401), "-http-addr", o.copyAt(17501), "-nats-url", "nats://"+o.api(4222), "-registry", o.copyAt(17400),
		"-data-dir", o.TempDir(), "-service-cidr", o.network.Services(), "-pod-cidr", o.network.Pods())
	kittest.Eventually(o.T, "the allocator of the copy", func() error {
		_, err := getPage(o.copyAt(17501), "/readyz")
		return err
	})
}

// stopCopy stops the restored copy. The original must not have noticed it.
func (o *operator) stopCopy() {
	o.stop(practice("registry"))
	o.stop(practice("allocator"))
	if after := o.rebuilds(); after != o.streams {
		o.Errorf("the registries have made the change stream %s times, and %s times before the practice", after, o.streams)
	}
	for _, at := range o.seats("registry") {
		if page, err := getPage(o.http(at), "/readyz"); err != nil || strings.Contains(page, "change stream") {
			o.Errorf("the registry on %s: %v\n%s", at.host, err, page)
		}
	}
}

// rebuilds returns how often each registry of the installation has made the change stream.
func (o *operator) rebuilds() string {
	o.Helper()
	var all []string
	for _, at := range o.seats("registry") {
		page, err := getPage(o.http(at), "/metrics")
		_, line, found := strings.Cut(page, "\nportolan_changes_relay_rebuilds_total ")
		if err != nil || !found {
			o.Fatalf("metrics of the registry on %s: %v", at.host, err)
		}
		line, _, _ = strings.Cut(line, "\n")
		all = append(all, line)
	}
	return strings.Join(all, " and ")
}

func (o *operator) startShop() {
	o.backend("shop-1", "--node", "n1", "-l", "app=shop", "--port", "http=8081", "--ready-http", "8081/healthz", "--drain-delay", "0s",
		"--", filepath.Join(bin, "portolan"), "hello", "--port", "8081")
}

func (o *operator) startBackend() {
	o.backend("web-1", "--node", "n1", "-l", "app=web", "--port", "http=8080", "--ready-http", "8080/healthz", "--drain-delay", "0s",
		"--", filepath.Join(bin, "portolan"), "hello", "--port", "8080")
	kittest.Eventually(o.T, "the service", func() error { // a person would wait for it too
		_, _, err := o.try("", "explain", "service", "web")
		return err
	})
}

// storeURL matches the document's URL of a database, with its role.
var storeURL = regexp.MustCompile(`postgres://(\w+):secret@db\.example/(\w+)`)

// run runs a block, with the variables that earlier blocks exported.
func (o *operator) run(b programtest.Block) {
	o.Helper()
	text := storeURL.ReplaceAllStringFunc(b.Text, func(url string) string {
		found := storeURL.FindStringSubmatch(url)
		return o.url(found[1], found[2])
	})
	script := "set -euo pipefail\n[ ! -f .exported ] || . ./.exported\n" + o.replace.Replace(text) + "\nexport -p > .exported\n"
	ctx, cancel := context.WithTimeout(o.Context(), 2*patience)
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", script)
	c.Dir, c.Env = o.dir, o.env
	c.WaitDelay = time.Second // for processes that a killed shell has left running
	out, err := c.CombinedOutput()
	if err != nil {
		o.Fatalf("%s:%d: %v\n%s\n%s", manual, b.Line, err, b.Text, out)
	}
	o.Logf("%s:%d:\n%s%s", manual, b.Line, b.Text, out)
}
