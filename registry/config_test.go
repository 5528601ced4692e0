package registry_test

import (
	"io"
	"strings"
	"testing"

	"portolan.dev/registry"
	"portolan.dev/services/kit/config"
)

func none(string) (string, bool) { return "", false }

func TestConfig(t *testing.T) {
	var good registry.Config
	if err := config.Load("registry", &good, []string{"-store", "postgres://registry@db/portolan", "-service-cidr", "fd00:96::/112,10.96.0.0/16"}, none, io.Discard); err != nil {
		t.Error(err)
	}
	var bad registry.Config
	err := config.Load("registry", &bad, []string{
		"-store", "mysql://x", "-service-cidr", "", "-zone", "Cluster Local", "-max-events", "0", "-log-retention", "-1",
	}, none, io.Discard)
	if err == nil {
		t.Fatal("a bad configuration was accepted")
	}
	for _, name := range []string{"store", "service-cidr", "zone", "max-events", "log-retention"} {
		if !strings.Contains(err.Error(), name+":") {
			t.Errorf("nothing is said about %s:\n%v", name, err)
		}
	}
}
