package manual

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

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

// daemon holds the content of a daemon's page besides its settings.
type daemon struct {
	name, description string
	settings          any
	also              []string // other commands of the program
}

var daemons = []daemon{
	{"registry", "keeps the objects of Portolan", &registry.Config{}, []string{
		"registry export -h", "registry import -h", "registry installation -h",
	}},
	{"allocator", "hands out virtual IPs and ports", &allocator.Config{}, nil},
	{"endpointctl", "says which backends of a service are ready", &endpointctl.Config{}, nil},
	{"lbctl", "gives load-balancer services their addresses", &lbctl.Config{}, nil},
	{"dnssvc", "answers for the names of services", &dnssvc.Config{}, nil},
	{"edge", "is the proxy of layers 4 and 7 for load-balancer services", &edge.Config{}, nil},
	{"kubeapi", "serves the API of Kubernetes", &kubeapi.Config{}, nil},
	{"nodeagent", "makes a node forward to services", &nodeagent.Config{}, []string{"nodeagent cleanup -h"}},
	{"registrar", "registers containers, units and manifests of a node", &registrar.Config{}, nil},
}

// Write writes all pages into a folder: portolan*.1, and one page in section 8 for each daemon. It
// makes the folder if it does not exist.
func Write(folder string, root *cobra.Command) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { // #nosec G301 -- all users read the manual
		return err
	}
	root.DisableAutoGenTag = true // pages of one version are identical
	errs := []error{doc.GenManTree(root, &doc.GenManHeader{Title: "PORTOLAN", Section: "1", Source: "Portolan", Manual: "Portolan"}, folder)}
	for _, d := range daemons {
		errs = append(errs, os.WriteFile(filepath.Join(folder, d.name+".8"), md2man.Render([]byte(d.page())), 0o644)) // #nosec G306 -- all users read the manual
	}
	return errors.Join(errs...)
}

// page returns a daemon's page in the Markdown that md2man accepts.
func (d daemon) page() string {
	var out strings.Builder
	upper := strings.ToUpper(d.name)
	fmt.Fprintf(&out, "%% %s 8 \"\" \"Portolan\" \"Portolan\"\n\n# NAME\n\n%s - %s\n\n# SYNOPSIS\n\n", upper, d.name, d.description)
	for _, call := range append([]string{d.name + " [flags]", d.name + " ready [flags]"}, d.also...) {
		fmt.Fprintf(&out, "**%s**\n\n", escape(call))
	}
	fmt.Fprintf(&out, "# DESCRIPTION\n\nRuns until SIGTERM. A flag wins over its environment variable, that over the file, that over the default. "+
		"With **ready** it asks the daemon that runs with these settings whether it is ready.\n\n# OPTIONS\n\n")
	option(&out, "-config FILE", "YAML file, one key for each flag, without the dash; environment PORTOLAN_"+upper+"_CONFIG")
	option(&out, "-check-config", "check the configuration and exit")
	option(&out, "-print-config", "print the configuration in effect, with the origin of each value, and exit")
	for _, f := range config.Flags(d.name, d.settings) {
		option(&out, "-"+f.Name, fmt.Sprintf("%s (environment %s, default %q)", f.Usage, f.Env, f.Default))
	}
	fmt.Fprintf(&out, "# EXIT STATUS\n\n0: stopped as told, or ready. 1: failed, or not ready. 2: the command line cannot be understood. "+
		"78: the configuration cannot be used.\n\n# FILES\n\n/etc/portolan/%s.yaml\n", d.name)
	return out.String()
}

func option(out *strings.Builder, name, usage string) {
	fmt.Fprintf(out, "**%s**\n: %s\n\n", escape(name), escape(usage))
}

// escape escapes characters that are Markdown's markup.
func escape(text string) string {
	return strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "]", `\]`).Replace(text)
}
