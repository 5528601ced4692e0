package kubeapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"portolan.dev/lbctl"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
)

// TestAProtocolThatNoProviderOffersIsRefused has an lbctl, with its certificate, that reports what its providers
// forward. A client of Kubernetes gets the field that it knows from Kubernetes, with a create, an update, a patch and a
// dry run.
func TestAProtocolThatNoProviderOffersIsRefused(t *testing.T) {
	i := install(t, true)
	var cfg lbctl.Config
	config.Defaults(&cfg)
	cfg.Addr, cfg.Registry, cfg.Allocator = "127.0.0.1:0", i.registry, kittest.Listen(t).Addr().String()
	run(i, "lbctl", i.network, cfg, lbctl.New)
	const ports = `"ports": [{"name": "sip", "port": 5060}, {"name": "m2ua", "port": 2904, "protocol": "SCTP"}]`
	phone := func(name, kind string) string {
		return fmt.Sprintf(`{"metadata": {"name": %q}, "spec": {"type": %q, %s}}`, name, kind, ports)
	}
	kittest.Eventually(t, "the capabilities of lbctl", func() error {
		return wantOffer(i.send("POST", services+"?dryRun=All", phone("try", "LoadBalancer")))
	})
	i.must("POST", services, phone("phone", "ClusterIP"))
	for name, answer := range map[string]answer{
		"create": i.send("POST", services, phone("other", "LoadBalancer")),
		"update": i.send("PUT", services+"/phone", phone("phone", "LoadBalancer")),
		"patch":  i.send("PATCH", services+"/phone", `{"spec": {"type": "LoadBalancer"}}`, "Content-Type", "application/merge-patch+json"),
		"apply": i.send("PATCH", services+"/other?fieldManager=test", `{"apiVersion": "v1", "kind": "Service", `+phone("other", "LoadBalancer")[1:],
			"Content-Type", "application/apply-patch+yaml"),
	} {
		if err := wantOffer(answer); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	i.must("POST", services, strings.ReplaceAll(phone("other", "LoadBalancer"), "SCTP", "UDP"))
}

// wantOffer wants the refusal of a protocol that the class does not offer.
func wantOffer(got answer) error {
	for _, text := range []string{
		`"reason":"Invalid"`, `"reason":"FieldValueNotSupported"`, `"field":"spec.ports[1].protocol"`, `Unsupported value: \"SCTP\"`, `the class \"portolan.dev/pool\" forward only TCP, UDP`,
	} {
		if got.code != http.StatusUnprocessableEntity || !strings.Contains(got.body, text) {
			return fmt.Errorf("%d: %s lacks %s", got.code, got.body, text)
		}
	}
	return nil
}
