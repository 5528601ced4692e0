package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// run runs the command line like a process. No server listens at its address.
func run(t *testing.T, stdin string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(context.Background(), append([]string{"--server", "127.0.0.1:1", "--timeout", "5s"}, args...), strings.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

// TestMisuse checks that every command that is not understood has exit code 2, and prints the
// mistake and where to find help.
func TestMisuse(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":          {[]string{"get", "services", "--colour"}, "--colour"},
		"unknown kind":          {[]string{"get", "deployments"}, `kind "deployments" is not known; kinds are namespaces (ns)`},
		"no kind":               {[]string{"get"}, "KIND [NAME]"},
		"unknown output":        {[]string{"get", "services", "-o", "xml"}, "outputs are table, wide, yaml, json, name"},
		"name twice":            {[]string{"get", "svc/web", "web"}, "one name too many"},
		"name in all":           {[]string{"get", "svc", "web", "-A"}, "leave out -A"},
		"describe without name": {[]string{"describe", "svc"}, "KIND NAME"},
		"explain a pod":         {[]string{"explain", "pod", "web"}, "explain service NAME"},
		"delete nothing":        {[]string{"delete"}, "or -f FILE"},
		"delete both":           {[]string{"delete", "svc", "web", "-f", "x"}, "not both"},
		"delete a kind":         {[]string{"delete", "pods"}, "KIND -l SELECTOR, KIND --all"},
		"delete no kind":        {[]string{"delete", "--all"}, "of which kind"},
		"delete named selected": {[]string{"delete", "pod", "web", "-l", "app=web"}, "not both"},
		"delete all selected":   {[]string{"delete", "pods", "--all", "-l", "app=web"}, "--all deletes every object"},
		"delete everywhere":     {[]string{"delete", "pod", "web", "-A"}, "leave out -A"},
		"delete files selected": {[]string{"delete", "-f", "x", "--all"}, "leave out -l"},
		"grace of a service":    {[]string{"delete", "svc", "web", "--grace-period", "3"}, "--grace-period is for pods"},
		"run bad label":         {[]string{"run", "-l", "app", "--", "true"}, "KEY=VALUE"},
		"run nothing":           {[]string{"run", "-l", "a=b"}, "COMMAND"},
		"run bad nameserver":    {[]string{"run", "--nameserver", "dns.example", "--", "true"}, "--nameserver"},
		"unknown resolver":      {[]string{"dns", "system", "--resolver", "bind"}, "resolvers are resolved, dnsmasq, unbound"},
		"bad name server":       {[]string{"dns", "system", "--nameserver", "127.0.0.1"}, "ADDRESS:PORT"},
		"wait for what":         {[]string{"wait", "svc/web"}, "say what to wait for: --applied"},
		"wait for a pod":        {[]string{"wait", "pod/web", "--applied"}, "wait service NAME --applied"},
		"wait for bad labels":   {[]string{"wait", "svc/web", "--applied", "--nodes", "a in"}, "--nodes: "},
		"plan of no node":       {[]string{"node", "plan"}, "NODE [SERVICE]"},
		"node unknown output":   {[]string{"node", "status", "-o", "xml"}, "outputs are text, json, yaml"},
		"drain two nodes":       {[]string{"node", "drain", "a", "b"}, "NODE"},
		"pass of no pod":        {[]string{"check", "pass"}, "[NAMESPACE/]POD"},
		"pass backwards":        {[]string{"check", "pass", "web", "--every", "-1s"}, "--every"},
		"no check":              {[]string{"check", "probe", "web"}, "write http://:8000/healthz"},
		"check of a script":     {[]string{"check", "probe", "exec:x"}, "only the node agent"},
		"dev bad address":       {[]string{"dev", "--bind", "localhost"}, "--bind"},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, errOut := run(t, "", c.args...)
			if code != 2 || !strings.Contains(errOut, c.want) || !strings.Contains(errOut, "--help") {
				t.Errorf("exit code %d, want 2 and %q:\n%s", code, c.want, errOut)
			}
		})
	}
}

// TestBadManifestsAreRefusedBeforeAnythingIsSent checks, without a server, that no document is
// applied if one is bad.
func TestBadManifestsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	dir := t.TempDir()
	good := "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n"
	for name, content := range map[string]string{"1.yaml": good, "2.yml": good + "spec: {colour: red}\n", "ignored.txt": ":"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errOut := run(t, "", "apply", "-f", dir)
	if code != 1 || out != "" || !strings.Contains(errOut, "2.yml") || !strings.Contains(errOut, "spec.colour") {
		t.Errorf("exit code %d, %q\n%s", code, out, errOut)
	}
	for stdin, want := range map[string]string{"": "no documents", "kind: [": "standard input:1:7"} {
		if code, _, errOut := run(t, stdin, "apply", "-f", "-"); code != 1 || !strings.Contains(errOut, want) {
			t.Errorf("%q: exit code %d, want %q:\n%s", stdin, code, want, errOut)
		}
	}
}

func TestServerThatIsAway(t *testing.T) {
	code, _, errOut := run(t, "", "get", "services")
	if code != 1 || !strings.Contains(errOut, "127.0.0.1:1") {
		t.Errorf("exit code %d; the message should say which server:\n%s", code, errOut)
	}
}

// TestEveryCommandExplainsItself checks the help of every command: a line, and an example if one is
// useful.
func TestEveryCommandExplainsItself(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(command *cobra.Command) {
		if command.Short == "" {
			t.Errorf("%s has no description", command.CommandPath())
		}
		if command.Runnable() && command.Example == "" && command.Name() != "version" {
			t.Errorf("%s has no example", command.CommandPath())
		}
		for _, child := range command.Commands() {
			walk(child)
		}
	}
	walk(Root())
}

// TestListsAreLists checks that objects selected by kind are printed as a List, even if there is only
// one, and that named or watched objects are not.
func TestListsAreLists(t *testing.T) {
	web := &corev1.Service{Metadata: &corev1.ObjectMeta{Name: "web"}}
	kind, _ := kinds.Named("svc")
	for name, c := range map[string]struct {
		named string
		watch bool
		found []object.Object
		want  []string
	}{
		"none":     {"", false, nil, []string{"List"}},
		"one":      {"", false, []object.Object{web}, []string{"List"}},
		"named":    {"web", false, []object.Object{web}, []string{"Service"}},
		"followed": {"", true, []object.Object{web, web}, []string{"Service", "Service", "Service"}},
	} {
		t.Run(name, func(t *testing.T) {
			command := &cobra.Command{}
			var out bytes.Buffer
			command.SetOut(&out)
			s := newObjectPrinter(command, objectRef{kind, c.named}, &getOptions{output: "json", watch: c.watch})
			if err := s.show(c.found); err != nil {
				t.Fatal(err)
			}
			if c.watch {
				if err := s.change(client.Change{Object: web}); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for decoder := json.NewDecoder(&out); decoder.More(); {
				var document struct{ Kind string }
				if err := decoder.Decode(&document); err != nil {
					t.Fatal(err)
				}
				got = append(got, document.Kind)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
