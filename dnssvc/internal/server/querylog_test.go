package server_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/server"
)

// buffer is a bytes.Buffer that several goroutines may write to.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestQueryLog checks that each question is logged before its answer is sent, on either path, and
// that nothing is logged without the option.
func TestQueryLog(t *testing.T) {
	table := dnstest.Table(t, zoneConfig(), world()...)
	for _, on := range []bool{true, false} {
		for _, ordinary := range []bool{true, false} {
			var lines buffer
			addr, _ := serve(t, table, func(c *server.Config) {
				c.Log, c.LogQueries, c.OrdinaryOnly = slog.New(slog.NewTextHandler(&lines, nil)), on, ordinary
			})
			for _, network := range []string{"udp", "tcp"} {
				dnstest.Ask(t, dnstest.Transport{Net: network}, addr, "web.default"+loc, dns.TypeA)
				dnstest.Ask(t, dnstest.Transport{Net: network}, addr, "nosuch.default"+loc, dns.TypeSRV)
				for _, want := range []string{
					"name=web.default.svc.cluster.local. type=A rcode=NOERROR", "name=nosuch.default.svc.cluster.local. type=SRV rcode=NXDOMAIN",
				} {
					logged := false
					for line := range strings.Lines(lines.String()) {
						logged = logged || strings.Contains(line, "transport="+network) && strings.Contains(line, want) && strings.Contains(line, "client=127.0.0.1:")
					}
					if logged != on {
						t.Errorf("ordinary %v, log %v: by %s %q is in\n%s", ordinary, on, network, want, lines.String())
					}
				}
			}
		}
	}
}
