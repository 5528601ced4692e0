package nodeagent_test

import (
	"strings"
	"testing"
	"time"

	"portolan.dev/nodeagent"
	"portolan.dev/services/kit/config"
)

func defaults() nodeagent.Config {
	var cfg nodeagent.Config
	config.Defaults(&cfg)
	return cfg
}

func TestDefaultsAreValid(t *testing.T) {
	cfg := defaults()
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	if cfg.Addr != "127.0.0.1:7404" || cfg.HTTPAddr != "127.0.0.1:7504" {
		t.Errorf("addresses %s and %s", cfg.Addr, cfg.HTTPAddr)
	}
}

func TestEveryMistakeIsReported(t *testing.T) {
	cfg := defaults()
	cfg.NodeAddresses = []string{"10.0.0.1", "nonsense", "0.0.0.0"}
	cfg.NodeLabels = []string{"a=b", "=c", "d"}
	cfg.ProxyMode, cfg.Scheduler = "magic", "wrr"
	cfg.DrainTimeout, cfg.HeartbeatInterval = -1, 0
	cfg.IPVSTCPTimeout, cfg.IPVSTCPFinTimeout, cfg.IPVSUDPTimeout = time.Millisecond, -time.Second, 1000*time.Hour
	cfg.ConntrackEstablished, cfg.ConntrackCloseWait = -1, 1
	cfg.ConntrackMaxPerCore, cfg.ConntrackMin, cfg.TrafficMetrics = -1, 1<<30, -1
	err := cfg.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`node-addresses: "nonsense"`, `node-addresses: "0.0.0.0"`, `node-labels: "=c"`, `node-labels: "d"`,
		"proxy-mode", "scheduler", "drain-timeout", "heartbeat-interval",
		"ipvs-tcp-timeout: 1ms", "ipvs-tcpfin-timeout: -1s", "ipvs-udp-timeout: 1000h",
		"conntrack-tcp-timeout-established", "conntrack-tcp-timeout-close-wait", "conntrack-max-per-core: -1", "conntrack-min: 1073741824",
		"traffic-metrics",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("nothing about %s in %q", want, err)
		}
	}
}
