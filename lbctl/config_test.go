package lbctl

import (
	"io"
	"strings"
	"testing"

	"portolan.dev/services/kit/config"
)

// load reads a configuration from flags.
func load(args ...string) (Config, error) {
	var c Config
	err := config.Load("lbctl", &c, args, func(string) (string, bool) { return "", false }, io.Discard)
	return c, err
}

func TestConfig(t *testing.T) {
	c, err := load("-providers=example.com/metal=10.0.0.9:9000,own=127.0.0.1:1", "-pool-namespaces=a=shop+stage,b=shop", "-manual-pools=a,b")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Providers) != 2 || c.Providers[0] != (ProviderAddress{"example.com/metal", "10.0.0.9:9000"}) ||
		len(c.PoolNamespaces) != 2 || strings.Join(c.PoolNamespaces[0].Namespaces, " ") != "shop stage" || len(c.ManualPools) != 2 {
		t.Errorf("read %+v", c)
	}
	for args, want := range map[string]string{
		"-providers=10.0.0.9:9000":                "CLASS=host:port",
		"-providers=a=x:1,a=y:2":                  "has a provider already",
		"-providers=portolan.dev/pool=x:1":        "has a provider already",
		"-providers=portolan.dev/edge=x:1":        "has a provider already",
		"-providers=a/b/c=x:1":                    "is no class",
		"-pool-namespaces=a":                      "POOL=NAMESPACE",
		"-pool-namespaces=a=x,a=y":                "is there twice",
		"-provider-timeout=0s":                    "provider-timeout",
		"-pools-interval=0s":                      "pools-interval",
		"-workers=0":                              "workers",
		"-retry-min=1m -retry-max=1s":             "retry-min",
		"-lease-duration=10ms":                    "lease-duration",
		"-lease-name=endpointctl":                 "lease-name",
		"-lease-name=lbctl-offers":                "lease-name: may not end",
		"-lease-name=lbctl-b -workers=0 -addr=:1": "addr: other machines reach",
	} {
		if _, err := load(strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
