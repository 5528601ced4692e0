package ipvs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	moby "github.com/moby/ipvs"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/dataplanetest/netnstest"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestTimeouts checks that timeouts are set and reported as configured, and that the others keep
// the kernel's values.
func TestTimeouts(t *testing.T) {
	kerneltest.Need(t)
	n := netnstest.NewNetwork(t)
	before, err := ipvs.Timeouts(n.Node.Path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ipvs.New(kernel.Options{
		Log: kittest.Logger(t), Journal: n.Journal, Namespace: n.Node.Path,
		Timeouts: kernelmode.Timeouts{TCP: 7500 * time.Second, UDP: 61 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if now, err := ipvs.Timeouts(n.Node.Path); err != nil || now != (moby.Config{TimeoutTCP: 7500 * time.Second, TimeoutTCPFin: before.TimeoutTCPFin, TimeoutUDP: 61 * time.Second}) {
		t.Errorf("timeouts %v, %v; they were %v", now, err, before)
	}
	var told []string
	for _, s := range p.Settings() {
		if strings.HasPrefix(s.Name, "ipvs timeout") {
			told = append(told, s.String())
		}
	}
	want := fmt.Sprintf("[ipvs timeout tcp set to 7500, was %.0f ipvs timeout udp set to 61, was %.0f]",
		before.TimeoutTCP.Seconds(), before.TimeoutUDP.Seconds())
	if fmt.Sprint(told) != want {
		t.Errorf("told %v, want %s", told, want)
	}
}

// TestTraffic checks that the counters match the traffic of each server.
func TestTraffic(t *testing.T) {
	n, p := start(t)
	backend := echo(t, n)
	busy, idle := netnstest.Server(fresh(t, n), backend), netnstest.Server(fresh(t, n), backend)
	busy.Service, busy.PortName = object.Name{Namespace: "default", Name: "busy"}, "http"
	netnstest.Program(t, p, busy, idle)
	const clients = 3
	for range clients {
		if _, err := seen(t, n, dataplanetest.Inside, busy.Addr); err != nil {
			t.Fatal(err)
		}
	}
	kittest.Eventually(t, "the counters", func() error {
		found, err := p.Traffic()
		if err != nil {
			return err
		}
		if len(found) != 2 {
			t.Fatalf("traffic %+v", found)
		}
		for _, c := range found {
			switch c.Server {
			case busy.Frontend:
				// A handshake, a line each way, and the close.
				enough := c.PacketsIn >= 4*clients && c.PacketsOut >= 3*clients && c.BytesIn > 40*c.PacketsIn && c.BytesOut > 40*c.PacketsOut
				if c.Connections != clients || !enough || c.Service != busy.Service || c.PortName != "http" {
					return fmt.Errorf("%+v", c)
				}
			default:
				if c.Traffic != (kernelmode.Traffic{}) {
					t.Errorf("%+v", c)
				}
			}
		}
		return nil
	})
}
