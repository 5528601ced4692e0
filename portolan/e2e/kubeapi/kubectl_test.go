package kubeapi

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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
	k := &kubectl{installation: i, program: program, home: i.TempDir()}
	k.config = filepath.Join(k.home, "config")
	cluster, user := "server: "+i.url, "{}"
	if i.certs != nil {
		files := i.certs.Issue(who, lifetime)
		cluster += ", certificate-authority: " + files.CA
		user = fmt.Sprintf("{client-certificate: %s, client-key: %s}", files.Cert, files.Key)
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: test\nclusters: [{name: test, cluster: {%s}}]\nusers: [{name: test, user: %s}]\n"+
		"contexts: [{name: test, context: {cluster: test, user: test}}]\n", cluster, user)
	if err := os.WriteFile(k.config, []byte(text), 0o600); err != nil {
		i.Fatal(err)
	}
	return k
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

func TestKubectl(t *testing.T) {
	i := install(t, true)
	k := kubectlOf(i, "operator")
	for _, args := range [][]string{
		{"version"}, {"api-resources"}, {"get", "namespaces"}, {"apply", "--validate=false", "-f", "-"}, {"apply", "--validate=false", "-f", "-"}, {"get", "services", "-o", "wide"}, {"describe", "service", "web"},
		{"get", "svc", "web", "-o", "yaml"}, {"get", "all", "-A"}, {"label", "service", "web", "x=y"}, {"annotate", "service", "web", "x=y"}, {"patch", "service", "web", "-p", `{"spec":{"type":"NodePort"}}`},
		{"get", "events"}, {"wait", "--for=delete", "service/nope", "--timeout=2s"}, {"create", "namespace", "shop"}, {"get", "ns", "shop", "-o", "jsonpath={.status.phase}"}, {"delete", "namespace", "shop", "--timeout=20s"},
		{"get", "nodes"}, {"get", "endpointslices,endpoints,leases,pods", "-A"}, {"delete", "service", "web"}, {"get", "service", "web"}, {"get", "configmaps"}, {"create", "configmap", "x"}, {"auth", "can-i", "get", "pods"},
	} {
		out, err := k.try(web, args...)
		t.Log(args, err, "\n"+out)
	}
}
