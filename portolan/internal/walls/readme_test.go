package walls

import (
	"flag"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"portolan.dev/allocator"
	"portolan.dev/dnssvc"
	"portolan.dev/edge"
	"portolan.dev/endpointctl"
	"portolan.dev/kubeapi"
	"portolan.dev/lbctl"
	"portolan.dev/nodeagent"
	"portolan.dev/registrar"
	"portolan.dev/registry"
	"portolan.dev/services/daemon"
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

// flagsPage has the flags of daemon.Common, which every daemon has. The README of a daemon has its
// other flags.
const flagsPage = "docs/flags.md"

const (
	flagHead    = "| flag | default | description |"
	addressHead = "| daemon | `-addr` | `-http-addr` |"
)

var (
	flagTable    = tableAfter(flagHead)
	addressTable = tableAfter(addressHead)
	inlineFlag   = regexp.MustCompile("`-([a-z][a-z-]*)[ =`]")
)

// tableAfter matches a table with the given first line.
func tableAfter(head string) *regexp.Regexp {
	return regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(head) + `\n(?:\|.*\n)+`)
}

// table returns the table of flags for a page, from the same source as the program's -h.
func table(flags []config.Flag) string {
	var out strings.Builder
	out.WriteString(flagHead + "\n|---|---|---|\n")
	for _, f := range flags {
		out.WriteString("| `-" + f.Name + "` | " + f.Default + " | " + strings.ReplaceAll(f.Usage, "|", `\|`) + " |\n")
	}
	return out.String()
}

// addresses returns the table of the addresses at which the daemons listen by default.
func addresses() string {
	var out strings.Builder
	out.WriteString(addressHead + "\n|---|---|---|\n")
	for _, daemon := range daemons {
		flags := config.Flags(daemon, configurations[daemon])
		out.WriteString("| [" + daemon + "](../" + daemon + "/README.md#configuration) | " + defaultOf(flags, "addr") + " | " + defaultOf(flags, "http-addr") + " |\n")
	}
	return out.String()
}

func defaultOf(flags []config.Flag, name string) string {
	return flags[slices.IndexFunc(flags, func(f config.Flag) bool { return f.Name == name })].Default
}

// sharedFlags returns the flags of every daemon. Each daemon has its own default addresses.
func sharedFlags() []config.Flag {
	flags := config.Flags("daemon", &daemon.Common{})
	for i, f := range flags {
		flags[i].Env = ""
		if f.Name == "addr" || f.Name == "http-addr" {
			flags[i].Default = "see below"
		}
	}
	return flags
}

// ownFlags returns the flags of a daemon that are not shared, or have another default or description.
func ownFlags(name string) []config.Flag {
	shared := sharedFlags()
	return slices.DeleteFunc(config.Flags(name, configurations[name]), func(f config.Flag) bool {
		f.Env = ""
		if f.Name == "addr" || f.Name == "http-addr" {
			f.Default = "see below"
		}
		return slices.Contains(shared, f)
	})
}

// TestReadmeConfiguration checks the tables of flags in the READMEs of the daemons and on the page of
// the shared flags, and that the text around them names no flag that does not exist.
func TestReadmeConfiguration(t *testing.T) {
	checkTable(t, flagsPage, flagTable, table(sharedFlags()))
	checkTable(t, flagsPage, addressTable, addresses())
	all := sharedFlags()
	for _, name := range daemons {
		page := name + "/README.md"
		checkTable(t, page, flagTable, table(ownFlags(name)))
		flags := config.Flags(name, configurations[name])
		checkInlineFlags(t, page, flags)
		all = append(all, flags...)
		if !strings.Contains(readText(t, page), "(../"+flagsPage+")") {
			t.Errorf("%s has no link to %s, which has the flags of all daemons", page, flagsPage)
		}
	}
	checkInlineFlags(t, flagsPage, all)
}

// checkTable checks that a page has exactly one table that matches found, and that it is the wanted
// one. With -update it writes the wanted table.
func checkTable(t *testing.T, page string, form *regexp.Regexp, want string) {
	t.Helper()
	text := readText(t, page)
	found := form.FindAllString(text, -1)
	head, _, _ := strings.Cut(want, "\n")
	switch {
	case len(found) != 1:
		t.Errorf("%s has %d tables that begin with %q, want one", page, len(found), head)
	case found[0] == want:
	case *update:
		text = strings.Replace(text, found[0], want, 1)
		if err := os.WriteFile(filepath.Join(repository, page), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the table of settings differs from the code; write it by\n\tgo test ./portolan/internal/walls -run Readme -update", page)
	}
}

// checkInlineFlags checks that each flag in the text of a page is one of flags.
func checkInlineFlags(t *testing.T, page string, flags []config.Flag) {
	t.Helper()
	known := []string{"config", "check-config", "print-config", "h"}
	for _, f := range flags {
		known = append(known, f.Name)
	}
	for _, match := range inlineFlag.FindAllStringSubmatch(readText(t, page), -1) {
		if !slices.Contains(known, match[1]) {
			t.Errorf("%s names -%s, which is no flag", page, match[1])
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

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```")
	inCode  = regexp.MustCompile("`((?:api|services|proto|tools|deploy|faults|portolan|" + strings.Join(daemons, "|") + ")/[^`*…]+)`")
)

// TestLinksOfPages checks that the links between the pages of the repository lead to files, and their
// anchors to headings.
func TestLinksOfPages(t *testing.T) {
	var pages []string
	for _, pattern := range []string{"*.md", "*/README.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			pages = append(pages, strings.TrimPrefix(filepath.ToSlash(file), repository+"/"))
		}
	}
	if len(pages) < 30 {
		t.Errorf("%d pages were found", len(pages))
	}
	for _, page := range pages {
		for _, match := range link.FindAllStringSubmatch(fence.ReplaceAllString(readText(t, page), ""), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := page
			if target != "" {
				file = path.Join(path.Dir(page), target)
			}
			info, err := os.Stat(filepath.Join(repository, file))
			if err != nil {
				t.Errorf("%s has a link to %s, which does not exist", page, match[1])
				continue
			}
			if info.IsDir() {
				file = path.Join(file, "README.md")
			}
			if anchor != "" && !slices.Contains(anchors(readText(t, file)), anchor) {
				t.Errorf("%s has a link to %s, and %s has no such heading", page, match[1], file)
			}
		}
	}
}

// anchors returns the anchors of a page's headings, as GitHub makes them.
func anchors(text string) (names []string) {
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, match[1])
		names = append(names, name)
	}
	return names
}

// TestPathsOfArchitecture checks that the packages and files in docs/architecture.md exist. In paths
// with NAME or NAMES, that is the name of a kind.
func TestPathsOfArchitecture(t *testing.T) {
	found := inCode.FindAllStringSubmatch(readText(t, "docs/architecture.md"), -1)
	for _, match := range found {
		file := match[1]
		if strings.Contains(file, "NAME") {
			continue
		}
		if _, err := os.Stat(filepath.Join(repository, file)); err != nil {
			t.Errorf("docs/architecture.md names %s, which does not exist", file)
		}
	}
	if len(found) < 100 {
		t.Errorf("%d paths were found", len(found))
	}
}
