package cli

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"portolan.dev/portolan/internal/certs"
)

// TestCertificateOfAFolder checks which certificate of a folder a command uses, and that it has the
// namespace of that certificate unless the user names another.
func TestCertificateOfAFolder(t *testing.T) {
	tests := map[string]struct {
		have        []string
		forPrograms bool
		args        []string
		want        string
		namespace   string
	}{
		"operator before workload":         {[]string{"operator", "workload/n1/shop"}, false, nil, "operator", "default"},
		"a program's workload first":       {[]string{"operator", "workload/n1/shop"}, true, nil, "workload/n1/shop", "shop"},
		"all namespaces before one":        {[]string{"operator/shop", "viewer"}, false, nil, "viewer", "default"},
		"one namespace":                    {[]string{"operator/shop", "viewer/shop"}, false, nil, "operator/shop", "shop"},
		"one namespace, and another named": {[]string{"viewer/shop"}, false, []string{"-n", "b"}, "viewer/shop", "b"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "certs")
			var requests []certs.Request
			for _, who := range test.have {
				requests = append(requests, certs.Request{Role: who, Lifetime: time.Hour})
			}
			if _, err := certs.Init(dir, "portolan", time.Hour, requests, false); err != nil {
				t.Fatal(err)
			}
			flags := &connection{certs: dir, forPrograms: test.forPrograms}
			source, err := flags.identity()
			if err != nil {
				t.Fatal(err)
			}
			if got := source.ID().Path(); got != test.want {
				t.Errorf("the command is %s, want %s", got, test.want)
			}
			command, namespace := &cobra.Command{}, &namespaceFlags{}
			namespace.register(command, true)
			if err := command.ParseFlags(test.args); err != nil {
				t.Fatal(err)
			}
			flags.setNamespace(command)
			if namespace.namespace != test.namespace {
				t.Errorf("the namespace is %s, want %s", namespace.namespace, test.namespace)
			}
		})
	}
}
