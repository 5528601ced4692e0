package walls

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"portolan.dev/allocator"
	"portolan.dev/dnssvc"
	"portolan.dev/edge"
	"portolan.dev/endpointctl"
	"portolan.dev/kubeapi"
	"portolan.dev/lbctl"
	"portolan.dev/nodeagent"
	"portolan.dev/registrar"
	"portolan.dev/registry"
	"portolan.dev/services/kit/config"
)

var update = flag.Bool("update", false, "write the tables of configuration into the READMEs")

// headings are the headings of every module's README, in this order. A library leaves out headings
// that do not apply.
var headings = []string{"Purpose", "API", "Configuration", "Metrics", "Failure modes", "Run it"}

var configurations = map[string]any{
	"registry": &registry.Config{}, "allocator": &allocator.Config{}, "endpointctl": &endpointctl.Config{}, "lbctl": &lbctl.Config{},
	"dnssvc": &dnssvc.Config{}, "edge": &edge.Config{}, "kubeapi": &kubeapi.Config{}, "nodeagent": &nodeagent.Config{}, "registrar": &registrar.Config{},
}

func readmeOf(module string) string { return filepath.Join(repository, module, "README.md") }

func readme(t *testing.T, module string) string {
	t.Helper()
	text, err := os.ReadFile(readmeOf(module))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestReadmeHeadings(t *testing.T) {
	for module := range mayImport {
		if module == "tools" {
			continue
		}
		var got []string
		for line := range strings.Lines(readme(t, module)) {
			if heading, ok := strings.CutPrefix(line, "## "); ok {
				got = append(got, strings.TrimSpace(heading))
			}
		}
		want := headings
		if !slices.Contains(daemons, module) {
			want = slices.DeleteFunc(slices.Clone(headings), func(h string) bool { return h != "Purpose" && !slices.Contains(got, h) })
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s/README.md has the headings %q, want %q", module, got, want)
		}
	}
}

var (
	configTable = regexp.MustCompile(`(?m)^\| flag \| default \| \|\n(?:\|.*\n)+`)
	inlineFlag  = regexp.MustCompile("`-([a-z][a-z-]*)[ =`]")
)

// table returns the table of settings for a README, from the same source as the program's -h.
func table(flags []config.Flag) string {
	var out strings.Builder
	out.WriteString("| flag | default | |\n|---|---|---|\n")
	for _, f := range flags {
		out.WriteString("| `-" + f.Name + "` | " + f.Default + " | " + strings.ReplaceAll(f.Usage, "|", `\|`) + " |\n")
	}
	return out.String()
}

// TestReadmeConfiguration checks the tables of settings, and that the text around them names no
// flag that does not exist.
func TestReadmeConfiguration(t *testing.T) {
	for _, daemon := range daemons {
		text, flags := readme(t, daemon), config.Flags(daemon, configurations[daemon])
		found, want := configTable.FindAllString(text, -1), table(flags)
		switch {
		case len(found) != 1:
			t.Errorf("%s/README.md has %d tables that begin with %q, want one", daemon, len(found), "| flag | default | |")
		case found[0] == want:
		case *update:
			text = strings.Replace(text, found[0], want, 1)
			if err := os.WriteFile(readmeOf(daemon), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s/README.md: the settings are others; write them by\n\tgo test ./portolan/internal/walls -run Readme -update", daemon)
		}
		known := []string{"config", "check-config", "print-config", "h"}
		for _, f := range flags {
			known = append(known, f.Name)
		}
		for _, match := range inlineFlag.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(known, match[1]) {
				t.Errorf("%s/README.md names -%s, which is no flag", daemon, match[1])
			}
		}
	}
}

// firstFlags are the flags that several daemons have. A daemon has them first, in this order.
var firstFlags = []string{
	"addr", "http-addr", "debug-addr", "log-level", "log-format", "trace-endpoint", "nats-url", "nats-prefix",
	"tls-cert", "tls-key", "tls-ca", "trust-domain", "audit-log", "audit-log-max-bytes", "audit-log-keep", "audit-reads", "tls-renewed", "insecure",
	"registry", "allocator", "lbctl", "store", "store-file", "data-dir", "service-cidr", "pod-cidr", "zone", "zones",
}

// TestFirstFlags checks that the flags of all daemons begin alike.
func TestFirstFlags(t *testing.T) {
	for _, daemon := range daemons {
		var names []string
		for _, f := range config.Flags(daemon, configurations[daemon]) {
			names = append(names, f.Name)
		}
		want := slices.DeleteFunc(slices.Clone(firstFlags), func(name string) bool { return !slices.Contains(names, name) })
		if got := names[:len(want)]; !slices.Equal(got, want) {
			t.Errorf("%s has the flags %v first, want %v", daemon, got, want)
		}
	}
}
