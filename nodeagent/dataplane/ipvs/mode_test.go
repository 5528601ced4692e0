package ipvs_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	google "github.com/google/nftables"

	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/ipvs"
	"portolan.dev/nodeagent/kerneltest"
	"portolan.dev/nodeagent/program"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// TestModeChangesUnderLoad replaces agents by agents in other modes while clients connect. Every
// client must be served, nothing may be left of the previous mode, and connections that the kernel
// tracks must continue.
func TestModeChangesUnderLoad(t *testing.T) {
	w := newAgentWorld(t)
	at := fresh(t, w.Network)
	w.log.Put(service("web", at), endpoints("web", echo(t, w.Network), echo(t, w.Network)))
	agent := w.spawn("ipvs")
	w.applied(w.client())
	stop := w.knock(at)
	var kept *conversation
	for _, mode := range []string{"nftables", "ipvs", "iptables"} {
		agent.end(syscall.SIGTERM)
		agent = w.spawn(mode)
		want := strings.Replace(mode, "iptables", "nftables", 1)
		if s := w.applied(w.client()); s.GetProxyMode() != want || len(s.GetFailures()) > 0 || s.GetFallbackReason() != "" {
			t.Errorf("%s: status %v", mode, s)
		}
		w.only(want)
		if kept != nil && want == "ipvs" {
			if _, err := kept.ask(); err != nil {
				t.Errorf("a connection from before mode %s: %v", mode, err)
			}
		}
		var err error
		if kept, err = talk(t, w.Network, dataplanetest.Inside, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	agent.end(syscall.SIGTERM)
	w.cleanup()
	w.only("")
}

// knock runs clients that connect again and again until stop is called. stop returns the errors of
// clients that were not served.
func (w *agentWorld) knock(at netip.AddrPort) (stop func() error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var clients sync.WaitGroup
	locations := []dataplanetest.ClientLocation{dataplanetest.Inside, dataplanetest.Node, dataplanetest.Outside}
	lost := make([]error, len(locations))
	for i, from := range locations {
		clients.Go(func() {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ctx.Err() == nil; n++ {
				<-tick.C
				c, err := w.connect(from, at)
				if err != nil {
					lost[i] = fmt.Errorf("client %d from %s: %w", n, from, err)
					return
				}
				c.Close()
			}
		})
	}
	return func() error {
		cancel()
		clients.Wait()
		return errors.Join(lost...)
	}
}

// only checks that nothing is there but the state that a mode needs.
func (w *agentWorld) only(mode string) {
	w.t.Helper()
	journals, err := filepath.Glob(filepath.Join(w.cfg.DataDir, "*.journal"))
	if err != nil {
		w.t.Fatal(err)
	}
	if want := filepath.Join(w.cfg.DataDir, mode+".journal"); mode != "" && !slices.Equal(journals, []string{want}) {
		w.t.Errorf("mode %s: journals %v", mode, journals)
	}
	conn, err := google.New()
	if err != nil {
		w.t.Fatal(err)
	}
	tables, err := conn.ListTables()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, table := range tables {
		allowed := mode != "" && table.Name == "portolan" || mode == "nftables" && table.Name == "portolan-balancer"
		if !allowed {
			w.t.Errorf("mode %q: table %s", mode, table.Name)
		}
	}
	if left := table(w.t, w.Network); mode != "ipvs" && strings.Contains(left, "TCP ") {
		w.t.Errorf("mode %q: virtual servers\n%s", mode, left)
	}
}

// TestWithoutIPVS checks that nftables replaces IPVS if the kernel lacks it, with an event, and
// that a strict agent does not start.
func TestWithoutIPVS(t *testing.T) {
	w := newAgentWorld(t)
	loaded := kerneltest.WithoutModules(t,
		"ip_vs_mh", "ip_vs_nq", "ip_vs_sed", "ip_vs_sh", "ip_vs_fo", "ip_vs_dh", "ip_vs_wlc", "ip_vs_lc", "ip_vs_wrr", "ip_vs_rr", "ip_vs")
	w.cfg.Strict = true
	if _, err := program.New(t.Context(), w.cfg, kittest.Host(t, rpc.TCP(), w.log.URL())); err == nil {
		t.Error("a strict agent runs")
	}
	w.cfg.Strict = false
	at := fresh(t, w.Network)
	w.log.Put(service("web", at), endpoints("web", echo(t, w.Network)))
	client, stop := w.start()
	if s := w.applied(client); s.GetProxyMode() != "nftables" || !strings.Contains(s.GetFallbackReason(), "ip_vs") {
		t.Errorf("status %v", s)
	}
	if e := w.event("ProxyModeFallback"); !strings.Contains(e.GetMessage(), "proxy mode nftables is used") {
		t.Errorf("event %s", e.GetMessage())
	}
	if err := w.reach(dataplanetest.Inside, at); err != nil {
		t.Error(err)
	}
	stop()
	loaded() // restores IPVS for the next agent
	if err := ipvs.Reloaded(); err != nil {
		t.Fatal(err)
	}
	client, stop = w.start()
	if s := w.applied(client); s.GetProxyMode() != "ipvs" || s.GetFallbackReason() != "" {
		t.Errorf("status %v", s)
	}
	w.only("ipvs")
	if err := w.reach(dataplanetest.Inside, at); err != nil {
		t.Error(err)
	}
	stop()
	w.cleanup()
}
