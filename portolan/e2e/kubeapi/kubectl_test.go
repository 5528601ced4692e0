package kubeapi

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// kubectl runs kubectl against an installation.
type kubectl struct {
	*installation
	program, config string
	home            string // of its cache of discovery
}

// kubectlOf returns kubectl with the certificate of a role, or without one if there is no TLS.
func kubectlOf(i *installation, who string) *kubectl {
	i.Helper()
	program := os.Getenv("PORTOLAN_TEST_KUBECTL")
	if program == "" {
		var err error
		if program, err = exec.LookPath("kubectl"); err != nil {
			i.Skip("kubectl is not here; it comes with Debian's kubernetes-client")
		}
	}
	return &kubectl{installation: i, program: program, home: i.TempDir(), config: i.kubeconfig(who, i.url)}
}

// try runs kubectl with a text as its input.
func (k *kubectl) try(input string, args ...string) (output string, err error) {
	k.Helper()
	command := exec.CommandContext(k.Context(), k.program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+k.config, "HOME="+k.home)
	command.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err = command.Run()
	return out.String(), err
}

// run runs kubectl and fails the test if it fails.
func (k *kubectl) run(input string, args ...string) string {
	k.Helper()
	out, err := k.try(input, args...)
	if err != nil {
		k.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TestKubectl runs the commands that people use. The server has no schemas, so apply does not validate.
func TestKubectl(t *testing.T) {
	k := kubectlOf(install(t, true), "operator")
	for _, c := range []struct {
		args []string
		has  string
	}{
		{[]string{"version"}, "v1.37"},
		{[]string{"api-resources"}, "discovery.k8s.io/v1"},
		{[]string{"get", "namespaces"}, "Active"},
		{[]string{"apply", "--validate=false", "-f", "-"}, "service/web created"},
		{[]string{"apply", "--validate=false", "-f", "-"}, "service/web unchanged"},
		{[]string{"get", "services", "-o", "wide"}, "app=web"},
		{[]string{"get", "svc", "web", "-o", "jsonpath={.spec.ports[0].targetPort}"}, "8080"},
		{[]string{"describe", "service", "web"}, "TargetPort:"},
		{[]string{"get", "all", "-A"}, "service/web"},
		{[]string{"label", "service", "web", "x=y"}, "labeled"},
		{[]string{"annotate", "service", "web", "x=y"}, "annotated"},
		{[]string{"patch", "service", "web", "-p", `{"spec":{"type":"NodePort"}}`}, "patched"},
		{[]string{"get", "service", "web"}, "NodePort"},
		{[]string{"create", "namespace", "shop"}, "created"},
		{[]string{"delete", "namespace", "shop", "--timeout=60s"}, "deleted"},
		{[]string{"get", "configmaps"}, "No resources found"},
		{[]string{"get", "endpointslices,endpoints,pods,events,nodes", "-A"}, "No resources found"},
		{[]string{"delete", "service", "web", "--timeout=60s"}, "deleted"},
	} {
		if out := k.run(web, c.args...); !strings.Contains(out, c.has) {
			t.Errorf("kubectl %s: no %q in\n%s", strings.Join(c.args, " "), c.has, out)
		}
	}
	for _, c := range []struct {
		args []string
		has  string
	}{
		{[]string{"get", "service", "web"}, "(NotFound)"},
		{[]string{"create", "configmap", "x"}, "Portolan has no configmaps"},
	} {
		if out, err := k.try("", c.args...); err == nil || !strings.Contains(out, c.has) {
			t.Errorf("kubectl %s: %v, no %q in\n%s", strings.Join(c.args, " "), err, c.has, out)
		}
	}
}
