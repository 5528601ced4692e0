package dnssvc_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"google.golang.org/grpc"

	dnsv1 "portolan.dev/api/dns/v1"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"

	"portolan.dev/dnssvc"
	"portolan.dev/dnssvc/internal/dnstest"
)

const loc = ".svc.cluster.local."

// testConfig returns the default configuration, listening on the given host address.
func testConfig(t *testing.T, host string) dnssvc.Config {
	t.Helper()
	var cfg dnssvc.Config
	config.Defaults(&cfg)
	cfg.Addr, cfg.Listen, cfg.LameDuck = "127.0.0.1:0", []string{host + ":0"}, 0
	cfg.PodCIDR = []netip.Prefix{netip.MustParsePrefix("10.64.0.0/16")}
	return cfg
}

// registry serves a log as the registry does, and returns its address.
func registry(t *testing.T, log *changestest.Log, network rpc.Network, host app.Host) string {
	t.Helper()
	lis, err := network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := rpc.NewServer(rpc.ServerOptions{Log: host.Log, Metrics: host.Metrics, Health: host.Health})
	log.Register(srv)
	kittest.Run(t, "registry", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	return lis.Addr().String()
}

type testDaemon struct {
	addr string // of the DNS server
	api  dnsv1.DNSServiceClient
	host app.Host
	stop func()
}

// start runs the daemon against a log, on a host that was passed to the prepare functions.
func start(t *testing.T, cfg dnssvc.Config, log *changestest.Log, prepare ...func(app.Host)) testDaemon {
	t.Helper()
	url := "nats://127.0.0.1:1"
	network := rpc.Memory()
	if log != nil {
		url, cfg.NATSPrefix = log.URL(), changestest.Prefix
		cfg.Registry = registry(t, log, network, kittest.Host(t, network, ""))
	} else {
		cfg.Registry = kittest.Listen(t).Addr().String() // accepts connections and never answers
	}
	host := kittest.Host(t, network, url)
	for _, f := range prepare {
		f(host)
	}
	d, err := dnssvc.New(t.Context(), cfg, host)
	if err != nil {
		t.Fatal(err)
	}
	stop := kittest.Run(t, "dnssvc", d.Run)
	conn, err := network.Dial(d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return testDaemon{addr: d.DNSAddrs()[0], api: dnsv1.NewDNSServiceClient(conn), host: host, stop: stop}
}

func (r testDaemon) query(t *testing.T, req *dnsv1.QueryRequest) *dnsv1.QueryResponse {
	t.Helper()
	resp, err := r.api.Query(t.Context(), req, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// metric returns the value of a gauge.
func (r testDaemon) metric(t *testing.T, name string) float64 {
	t.Helper()
	families, err := r.host.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// synced waits for the first complete view.
func (r testDaemon) synced(t *testing.T) {
	t.Helper()
	kittest.Eventually(t, "the first snapshot", func() error {
		status, err := r.api.GetStatus(t.Context(), &dnsv1.GetStatusRequest{})
		if err == nil && !status.GetSynced() {
			err = errors.New("not yet")
		}
		return err
	})
}

// ready waits until the daemon reports that it is ready. It publishes the names of the first
// snapshot before that.
func (r testDaemon) ready(t *testing.T) {
	t.Helper()
	kittest.Eventually(t, "ready", r.host.Health.Ready)
}

// eventually waits for the given answer.
func (r testDaemon) eventually(t *testing.T, name string, qtype uint16, want string) {
	t.Helper()
	kittest.Eventually(t, name, func() error {
		m := dnstest.Ask(t, dnstest.Transports[0], r.addr, name, qtype)
		if got := dnstest.Describe(m); got != want {
			return fmt.Errorf("got %s, want %s", got, want)
		}
		return nil
	})
}

// TestFollowsTheLog checks that a committed name is answered and a deleted one is not.
func TestFollowsTheLog(t *testing.T) {
	log := changestest.New(t)
	log.Put(dnstest.Namespace("default"), dnstest.Service("default/web", "10.96.0.1", "80:http"))
	r := start(t, testConfig(t, "127.53.240.1"), log)
	name := "web.default" + loc
	r.eventually(t, name, dns.TypeA, "NOERROR\n  "+name+" 5 IN A 10.96.0.1")
	r.ready(t)
	log.Put(dnstest.Service("default/web", "10.96.0.2", "80:http"))
	r.eventually(t, name, dns.TypeA, "NOERROR\n  "+name+" 5 IN A 10.96.0.2")
	log.Delete(object.Key{Kind: "Service", Namespace: "default", Name: "web"})
	r.eventually(t, name, dns.TypeA, "NXDOMAIN")
	kittest.Eventually(t, "the revision", func() error {
		status, err := r.api.GetStatus(t.Context(), &dnsv1.GetStatusRequest{})
		if err == nil && (!status.GetSynced() || status.GetRevision() != log.Revision() || status.GetZones()[0] != "cluster.local." || status.GetListen()[0] != r.addr) {
			err = fmt.Errorf("status %v", status)
		}
		return err
	})
	families, err := r.host.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	for _, want := range []string{"portolan_dnssvc_queries_total", "portolan_dnssvc_revision", "portolan_dnssvc_data_age_seconds"} {
		if !slices.Contains(names, want) {
			t.Errorf("no metric %s", want)
		}
	}
}

// TestRangesThatEndWithinALabelOfAnAddress checks that the daemon answers PTR questions, and goes on, when
// addresses of ranges longer than /24 get a name and lose it. Such an address is the apex of a zone.
func TestRangesThatEndWithinALabelOfAnAddress(t *testing.T) {
	log := changestest.New(t)
	log.Put(dnstest.Namespace("default"), dnstest.Service("default/web", "127.96.0.5", "80:http"), dnstest.Service("default/db", "None"),
		dnstest.Slice("default/db/db-1", "80:http/tcp", "10.64.0.9=a"))
	cfg := testConfig(t, "127.53.240.11")
	cfg.ServiceCIDR, cfg.PodCIDR = []netip.Prefix{netip.MustParsePrefix("127.96.0.0/27")}, []netip.Prefix{netip.MustParsePrefix("10.64.0.9/32")}
	r := start(t, cfg, log)
	service, pod := "5.0.96.127.in-addr.arpa.", "9.0.64.10.in-addr.arpa."
	r.eventually(t, service, dns.TypePTR, "NOERROR\n  "+service+" 5 IN PTR web.default"+loc)
	r.eventually(t, pod, dns.TypePTR, "NOERROR\n  "+pod+" 5 IN PTR a.db.default"+loc)
	log.Delete(object.Key{Kind: "Service", Namespace: "default", Name: "web"})
	log.Delete(object.Key{Kind: "EndpointSlice", Namespace: "default", Name: "db-1"})
	for _, name := range []string{service, pod} {
		r.eventually(t, name, dns.TypePTR, "NOERROR")
		r.eventually(t, name, dns.TypeNS, "NOERROR\n  "+name+" 5 IN NS ns.dns.cluster.local.")
	}
}

// TestWithoutRegistry checks that without a registry names are unknown rather than absent, and that
// the daemon is not ready.
func TestWithoutRegistry(t *testing.T) {
	r := start(t, testConfig(t, "127.53.240.2"), nil)
	m := dnstest.Ask(t, dnstest.Transports[0], r.addr, "web.default"+loc, dns.TypeA)
	if m.Rcode != dns.RcodeServerFailure {
		t.Errorf("got %s", dnstest.Describe(m))
	}
	if r.host.Health.Ready() == nil {
		t.Error("ready without names")
	}
	resp := r.query(t, &dnsv1.QueryRequest{Name: "web"})
	if resp.GetRcode() != "SERVFAIL" || !strings.Contains(strings.Join(resp.GetExplanation(), "\n"), "not yet seen all objects") {
		t.Errorf("got %v", resp)
	}
}

// TestRestartsWithoutRegistry restarts the daemon from the view on disk. Names in the view are
// answered at once, other names are NXDOMAIN a little later, and a metric and the age show that the
// view is from disk. When the registry is back, names of objects that it lacks are gone.
func TestRestartsWithoutRegistry(t *testing.T) {
	log := changestest.New(t)
	log.Put(dnstest.Namespace("default"), dnstest.Service("default/web", "10.96.0.1", "80:http"))
	cfg := testConfig(t, "127.53.240.9")
	cfg.DataDir = filepath.Join(t.TempDir(), "dnssvc")
	r := start(t, cfg, log)
	r.synced(t)
	if got := r.metric(t, "portolan_dnssvc_view_from_disk"); got != 0 {
		t.Errorf("view_from_disk is %v with a registry", got)
	}
	r.stop()
	current := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(filepath.Join(cfg.DataDir, "view.pb"), current, current); err != nil {
		t.Fatal(err)
	}

	r = start(t, cfg, nil)
	name, other := "web.default"+loc, "api.default"+loc
	if got, want := dnstest.Describe(dnstest.Ask(t, dnstest.Transports[0], r.addr, name, dns.TypeA)), "NOERROR\n  "+name+" 5 IN A 10.96.0.1"; got != want {
		t.Errorf("at once: %s, want %s", got, want)
	}
	if got := r.metric(t, "portolan_dnssvc_view_from_disk"); got != 1 {
		t.Errorf("view_from_disk is %v without a registry", got)
	}
	if got := r.metric(t, "portolan_dnssvc_data_age_seconds"); got < 3600 || got > 3900 {
		t.Errorf("the age is %v s, want that of the file", got)
	}
	if err := r.host.Health.Ready(); err == nil {
		t.Error("ready without a registry")
	}
	r.eventually(t, other, dns.TypeA, "NXDOMAIN")
	r.eventually(t, name, dns.TypeA, "NOERROR\n  "+name+" 5 IN A 10.96.0.1")
	r.stop()
	if info, err := os.Stat(filepath.Join(cfg.DataDir, "view.pb")); err != nil || !info.ModTime().Equal(current) {
		t.Errorf("the view was current at %s, it says %v: %v", current, info.ModTime(), err)
	}

	log.Put(dnstest.Service("default/api", "10.96.0.2", "80"))
	log.Delete(object.Key{Kind: "Service", Namespace: "default", Name: "web"})
	r = start(t, cfg, log)
	r.eventually(t, name, dns.TypeA, "NXDOMAIN")
	r.eventually(t, other, dns.TypeA, "NOERROR\n  "+other+" 5 IN A 10.96.0.2")
	r.ready(t)
	if got := r.metric(t, "portolan_dnssvc_view_from_disk"); got != 0 {
		t.Errorf("view_from_disk is %v after the first snapshot", got)
	}
}

// TestOldViewsAreNotAnsweredFrom checks that the daemon does not use a view that is too old at the
// start, that gets too old while the registry stays away, or that is damaged.
func TestOldViewsAreNotAnsweredFrom(t *testing.T) {
	log := changestest.New(t)
	log.Put(dnstest.Namespace("default"), dnstest.Service("default/web", "10.96.0.1", "80:http"))
	cfg := testConfig(t, "127.53.240.10")
	cfg.DataDir, cfg.DataMaxAge = t.TempDir(), time.Hour
	r := start(t, cfg, log)
	r.synced(t)
	r.stop()
	path := filepath.Join(cfg.DataDir, "view.pb")
	for what, age := range map[string]time.Duration{"too old": time.Hour + time.Second, "getting too old": time.Hour - time.Second} {
		current := time.Now().Add(-age)
		if err := os.Chtimes(path, current, current); err != nil {
			t.Fatal(err)
		}
		r = start(t, cfg, nil)
		r.eventually(t, "web.default"+loc, dns.TypeA, "SERVFAIL")
		kittest.Eventually(t, what, func() error {
			if got := r.metric(t, "portolan_dnssvc_view_from_disk"); got != 0 {
				return fmt.Errorf("view_from_disk is %v", got)
			}
			return nil
		})
		r.stop()
	}
	if err := os.WriteFile(path, []byte("portolan-view 1 dnssvc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = start(t, cfg, nil)
	r.eventually(t, "web.default"+loc, dns.TypeA, "SERVFAIL")
}

// TestLameDuck checks that a daemon that was told to stop reports not ready before it stops, so
// that clients can use another name server.
func TestLameDuck(t *testing.T) {
	log := changestest.New(t)
	log.Put(dnstest.Namespace("default"), dnstest.Service("default/web", "10.96.0.1", "80:http"))
	name := "web.default" + loc
	// The longer times are for a very busy machine.
	for i, duck := range []time.Duration{time.Second, 5 * time.Second, 25 * time.Second} {
		cfg := testConfig(t, fmt.Sprintf("127.53.240.%d", 10+i))
		cfg.LameDuck = duck
		r := start(t, cfg, log)
		r.eventually(t, name, dns.TypeA, "NOERROR\n  "+name+" 5 IN A 10.96.0.1")
		r.ready(t)
		stopped := make(chan bool, 1)
		go func() {
			r.stop()
			stopped <- true
		}()
		kittest.Eventually(t, "not ready", func() error {
			if r.host.Health.Ready() == nil {
				return errors.New("still ready")
			}
			return nil
		})
		client := &dns.Client{Timeout: duck}
		_, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), r.addr)
		kittest.Receive(t, "the end", stopped)
		if err == nil {
			return
		}
	}
	t.Error("it never answered after it was told to stop")
}

func TestQueryExplains(t *testing.T) {
	log := changestest.New(t)
	log.Put(
		dnstest.Namespace("default"), dnstest.Namespace("prod"),
		dnstest.Service("default/web", "10.96.0.1", "80:http", "81:admin"),
		dnstest.Service("prod/db", "None", "5432:pg"),
		dnstest.Slice("prod/db/db-1", "5432:pg/tcp", "10.64.0.1=db-0", "!10.64.0.2=db-1"),
		dnstest.Service("prod/down", "None", "1:x"),
		dnstest.Slice("prod/down/down-1", "1:x/tcp", "!10.64.0.9"),
		dnstest.Service("prod/alias", "=web.default.svc.cluster.local"),
	)
	r := start(t, testConfig(t, "127.53.240.3"), log)
	r.eventually(t, "web.default"+loc, dns.TypeA, "NOERROR\n  web.default"+loc+" 5 IN A 10.96.0.1")
	tests := []struct{ name, namespace, qtype, full, rcode, explains string }{
		{"web", "", "", "web.default" + loc, "NOERROR", "Service default/web, clusterIP 10.96.0.1"},
		{"web", "prod", "", "web.prod" + loc, "NXDOMAIN", "there is a Service of that name in: default"},
		{"web.default", "prod", "a", "web.default" + loc, "NOERROR", "clusterIP"},
		{"web.default.svc", "prod", "A", "web.default" + loc, "NOERROR", "clusterIP"},
		{"web.default.svc.cluster.local", "", "A", "web.default" + loc, "NOERROR", "clusterIP"},
		{"_https._tcp.web", "", "SRV", "_https._tcp.web.default" + loc, "NXDOMAIN", "Service default/web exists and has no port named https/tcp"},
		{"_https._tcp.web", "", "SRV", "_https._tcp.web.default" + loc, "NXDOMAIN", "its named ports: http/tcp, admin/tcp"},
		{"_admin._tcp.web", "", "SRV", "_admin._tcp.web.default" + loc, "NOERROR", "port admin: 81/tcp"},
		{"web", "", "MX", "web.default" + loc, "NOERROR", "records of the types A, AAAA and SRV, not MX"},
		{"db", "prod", "", "db.prod" + loc, "NOERROR", "1 ready endpoints (1 more are not ready) in EndpointSlices db-1"},
		{"db-0.db.prod", "", "", "db-0.db.prod" + loc, "NOERROR", "EndpointSlice prod/db-1 of Service prod/db: endpoint 10.64.0.1 is ready"},
		{"db-1.db.prod", "", "", "db-1.db.prod" + loc, "NXDOMAIN", "none of its 1 ready endpoints is named db-1"},
		{"down", "prod", "", "down.prod" + loc, "NXDOMAIN", "headless and none of its 1 endpoints is ready"},
		{"alias", "prod", "", "alias.prod" + loc, "NOERROR", "Service default/web, clusterIP"},
		{"x", "nosuch", "", "x.nosuch" + loc, "NXDOMAIN", "there is no Namespace nosuch"},
		{"default.svc.cluster.local", "", "", "default" + loc, "NOERROR", "default is a namespace"},
		{"a.pod.cluster.local", "", "", "a.pod.cluster.local", "NXDOMAIN", "pod records are disabled"},
		{"nonsense.cluster.local.", "", "", "nonsense.cluster.local.", "NXDOMAIN", "svc, pod, dns and dns-version only"},
		{"cluster.local.", "", "SOA", "cluster.local.", "NOERROR", "apex of a zone"},
		{"dns-version.cluster.local.", "", "TXT", "dns-version.cluster.local.", "NOERROR", "version of the DNS specification"},
		{"10.96.0.1", "", "", "1.0.96.10.in-addr.arpa.", "NOERROR", "web.default" + loc + " has the address as a cluster IP"},
		{"10.64.0.1", "", "", "1.0.64.10.in-addr.arpa.", "NOERROR", "db-0.db.prod" + loc + " is a ready endpoint"},
		{"10.64.0.2", "", "PTR", "2.0.64.10.in-addr.arpa.", "NXDOMAIN", "no Service has this address"},
		{"www.example.com.", "", "", "www.example.com.", "REFUSED", "in none of the zones"},
	}
	for _, tt := range tests {
		resp := r.query(t, &dnsv1.QueryRequest{Name: tt.name, Namespace: tt.namespace, Type: tt.qtype})
		why := strings.Join(resp.GetExplanation(), "\n")
		if !strings.EqualFold(strings.TrimSuffix(resp.GetName(), "."), strings.TrimSuffix(tt.full, ".")) || resp.GetRcode() != tt.rcode || !strings.Contains(why, tt.explains) {
			t.Errorf("%s in %q: %s %s\n%s\nwant %s %s\n%s", tt.name, tt.namespace, resp.GetName(), resp.GetRcode(), why, tt.full, tt.rcode, tt.explains)
		}
	}
	for _, bad := range []*dnsv1.QueryRequest{{}, {Name: "a..b"}, {Name: "web", Type: "NONSENSE"}, {Name: "web", Type: "AXFR"}} {
		if _, err := r.api.Query(t.Context(), bad); apierr.ReasonOf(err) != apierr.ReasonInvalidArgument || len(apierr.ViolationsOf(err)) == 0 {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestRecordsAreCappedByFlags asks a daemon that bounds the records of an answer, and checks that
// the API explains why there are no more.
func TestRecordsAreCappedByFlags(t *testing.T) {
	log := changestest.New(t)
	log.Put(dnstest.Namespace("default"), dnstest.Service("default/peers", "None"),
		dnstest.Slice("default/peers/p-1", "80:/tcp", "10.64.0.1", "10.64.0.2", "10.64.0.3", "10.64.0.4"))
	cfg := testConfig(t, "127.53.240.8")
	cfg.MaxRecordsUDP, cfg.MaxRecordsTCP = 1, 3
	r := start(t, cfg, log)
	r.synced(t)
	for network, want := range map[string]int{"udp": 1, "tcp": 3} {
		m := dnstest.Ask(t, dnstest.Transport{Net: network}, r.addr, "peers.default"+loc, dns.TypeA)
		if len(m.Answer) != want || m.Truncated {
			t.Errorf("%s: %d records, want %d: %s", network, len(m.Answer), want, dnstest.Describe(m))
		}
	}
	resp := r.query(t, &dnsv1.QueryRequest{Name: "peers"})
	if got := strings.Join(resp.GetExplanation(), "; "); !strings.Contains(got, "3 of the 4 records") {
		t.Errorf("explained as %s", got)
	}
}

func TestBadConfig(t *testing.T) {
	for flag, what := range map[string]string{
		"-ttl=3601": "ttl", "-max-udp=100": "max-udp", "-zones=a..b": "a..b", "-zones=": "zone", "-listen=nowhere": "listen",
		"-workers=0": "workers", "-pod-records=some": "pod-records", "-upstreams=8.8.8.8": "upstreams", "-lame-duck=-1s": "lame-duck",
		"-data-max-age=0s": "data-max-age", "-max-records-udp=-1": "max-records-udp", "-max-records-tcp=-1": "max-records-tcp",
	} {
		var cfg dnssvc.Config
		var out strings.Builder
		err := config.Load("dnssvc", &cfg, []string{flag}, func(string) (string, bool) { return "", false }, &out)
		if err == nil || errors.Is(err, config.ErrDone) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v, want something about %s", flag, err, what)
		}
	}
}

// TestAddressInUse checks that New fails at once for an address in use, with that address in the
// error.
func TestAddressInUse(t *testing.T) {
	r := start(t, testConfig(t, "127.53.240.4"), changestest.New(t))
	cfg := testConfig(t, "127.53.240.4")
	cfg.Listen = []string{r.addr}
	if _, err := dnssvc.New(t.Context(), cfg, kittest.Host(t, rpc.Memory(), "nats://127.0.0.1:1")); err == nil || !strings.Contains(err.Error(), r.addr) {
		t.Errorf("got %v", err)
	}
}
