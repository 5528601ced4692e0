package nodeagent_test

import (
	"errors"
	"strings"
	"testing"

	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/program"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// TestNameIsThatOfTheCertificate checks that the certificate determines the node's name, because an agent with
// another name would have no permissions.
func TestNameIsThatOfTheCertificate(t *testing.T) {
	var cfg nodeagent.Config
	config.Defaults(&cfg)
	cfg.NodeName = "n2"
	host := kittest.Host(t, rpc.TCP(), "")
	host.Identity = kittest.NewCertificates(t).Source("nodeagent/n1")
	_, err := program.New(t.Context(), cfg, host)
	if !errors.Is(err, config.ErrInvalid) || !strings.Contains(err.Error(), "node-name is n2 and the certificate is spiffe://portolan/nodeagent/n1: leave out node-name, or make a certificate by portolan certs issue nodeagent/n2") {
		t.Errorf("got %v", err)
	}
}
