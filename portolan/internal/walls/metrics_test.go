package walls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"portolan.dev/allocator"
	"portolan.dev/dnssvc"
	"portolan.dev/edge"
	"portolan.dev/endpointctl"
	"portolan.dev/kubeapi"
	"portolan.dev/lbctl"
	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/program"
	"portolan.dev/registrar"
	"portolan.dev/registry"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/authority"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// metric is one metric family of a daemon.
type metric struct {
	name, kind, labels, help string
	daemons                  []string
}

const (
	metricsFile   = repository + "/docs/metrics.md"
	metricsMarker = "<!-- written by: go test ./portolan/internal/walls -run Metrics -update -->\n"
)

// TestMetrics compares docs/metrics.md and the READMEs with the metrics that the daemons register.
func TestMetrics(t *testing.T) {
	all := registered(t)
	text, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	intro, have, ok := strings.Cut(string(text), metricsMarker)
	if !ok {
		t.Fatalf("%s: there is no line %q", metricsFile, metricsMarker)
	}
	if want := metricsText(all); have != want {
		outdated(t, metricsFile, intro+metricsMarker+want, have, want)
	}
	for _, module := range append([]string{"services"}, daemons...) {
		want := metricsTable(ofModule(all, module))
		found := metricsRows.FindAllString(readme(t, module), -1)
		if len(found) != 1 {
			t.Errorf("%s/README.md has %d tables that begin with %q, want one", module, len(found), metricsHead)
		} else if found[0] != want {
			outdated(t, readmeOf(module), strings.Replace(readme(t, module), found[0], want, 1), found[0], want)
		}
	}
}

func outdated(t *testing.T, file, text, have, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	var differences []string
	for line := range strings.Lines(want) {
		if !strings.Contains(have, line) {
			differences = append(differences, "+ "+line)
		}
	}
	for line := range strings.Lines(have) {
		if !strings.Contains(want, line) {
			differences = append(differences, "- "+line)
		}
	}
	t.Errorf("%s: the metrics are others; write them by\n\tgo test ./portolan/internal/walls -run Metrics -update\n%s", file, strings.Join(differences, ""))
}

const metricsHead = "| metric | type | labels | meaning |\n|---|---|---|---|\n"

var metricsRows = regexp.MustCompile(regexp.QuoteMeta(metricsHead) + `(?:\|.*\n)*`)

func metricsTable(list []metric) string {
	var out strings.Builder
	out.WriteString(metricsHead)
	for _, m := range list {
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", m.name, m.kind, m.labels, strings.ReplaceAll(m.help, "|", `\|`))
	}
	return out.String()
}

// ofModule returns the metrics for a module's README: a daemon's own metrics, or for services the
// shared ones.
func ofModule(all []metric, module string) []metric {
	own := func(m metric) bool { return strings.HasPrefix(m.name, "portolan_"+module+"_") }
	if module == "services" {
		own = func(m metric) bool {
			return !slices.ContainsFunc(daemons, func(d string) bool { return strings.HasPrefix(m.name, "portolan_"+d+"_") })
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(m metric) bool { return !own(m) })
}

func metricsText(all []metric) string {
	var out strings.Builder
	out.WriteString("\n## Common\n\n")
	common := ofModule(all, "services")
	for i := range common {
		common[i].help += " Of: " + joinNames(common[i].daemons) + "."
	}
	out.WriteString(metricsTable(common))
	for _, d := range daemons {
		fmt.Fprintf(&out, "\n## %s\n\n%s", d, metricsTable(ofModule(all, d)))
	}
	return out.String()
}

func joinNames(list []string) string {
	if len(list) >= len(daemons) {
		return "every daemon"
	}
	return strings.Join(list, ", ")
}

// registered builds all daemons and returns their metrics, ordered by name.
func registered(t *testing.T) []metric {
	t.Helper()
	found := map[string]*metric{}
	for daemon, reg := range registries(t) {
		for _, m := range metricsOf(t, reg) {
			if have := found[m.name]; have == nil {
				found[m.name] = &m
			} else if have.kind != m.kind || have.labels != m.labels || have.help != m.help {
				t.Errorf("%s is not the same in all daemons: %+v, %+v", m.name, *have, m)
			}
			found[m.name].daemons = append(found[m.name].daemons, daemon)
		}
	}
	var all []metric
	for _, m := range found {
		slices.Sort(m.daemons)
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return all
}

// description matches the text of a prometheus.Desc, which cannot be read in another way.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// metricsOf reads a registry. It takes the types from samples. A family without samples is a
// counter if its name says so.
func metricsOf(t *testing.T, reg *prometheus.Registry) []metric {
	t.Helper()
	kinds := map[string]string{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		kinds[f.GetName()] = strings.ToLower(dto.MetricType_name[int32(f.GetType())])
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		reg.Describe(descs)
	}()
	var all []metric
	for d := range descs {
		parts := description.FindStringSubmatch(d.String())
		if parts == nil {
			t.Errorf("%s is not understood", d)
			continue
		}
		if !strings.HasPrefix(parts[1], "portolan_") {
			continue // of the Go runtime and the process
		}
		m := metric{name: parts[1], help: strings.ReplaceAll(parts[2], `\"`, `"`), labels: labelNames(parts[3], parts[4])}
		if m.kind = kinds[m.name]; m.kind == "" && strings.HasSuffix(m.name, "_total") {
			m.kind = "counter"
		}
		if m.kind == "" {
			t.Errorf("%s has no sample in this test, so its type is not known", m.name)
		}
		if !strings.HasSuffix(m.help, ".") {
			t.Errorf("%s: its help, %q, is no sentence", m.name, m.help)
		}
		all = append(all, m)
	}
	return all
}

func labelNames(constant, variable string) string {
	var names []string
	for _, pair := range strings.Split(constant, ",") {
		if name, _, ok := strings.Cut(pair, "="); ok {
			names = append(names, "`"+name+"`")
		}
	}
	for _, name := range strings.Split(variable, ",") {
		if name != "" {
			names = append(names, "`"+name+"`")
		}
	}
	return strings.Join(names, ", ")
}

// registries builds and runs each daemon with all settings that add metrics, and returns their
// registries by daemon.
func registries(t *testing.T) map[string]*prometheus.Registry {
	t.Helper()
	s := &allDaemons{t: t, network: rpc.Memory(), all: map[string]*prometheus.Registry{}, addrs: map[string]string{}}
	for i, name := range daemons {
		s.addrs[name] = fmt.Sprint("127.0.0.1:", 7400+i)
	}
	data := t.TempDir()

	var a allocator.Config
	config.Defaults(&a)
	a.Addr, a.Registry, a.DataDir = s.addrs["allocator"], s.addrs["registry"], filepath.Join(data, "allocator")
	start(s, "allocator", a, allocator.New)

	var r registry.Config
	config.Defaults(&r)
	r.Addr, r.Store, r.Allocator = s.addrs["registry"], "sqlite:"+filepath.Join(data, "registry"), s.addrs["allocator"]
	r.NamespaceQuotas = []registry.NamespaceQuota{{Namespace: "default", Resource: "pods", Limit: 10}} // has metrics
	start(s, "registry", r, registry.New)

	var e endpointctl.Config
	config.Defaults(&e)
	e.Addr, e.Registry = s.addrs["endpointctl"], s.addrs["registry"]
	start(s, "endpointctl", e, endpointctl.New)

	var l lbctl.Config
	config.Defaults(&l)
	l.Addr, l.Registry, l.Allocator = s.addrs["lbctl"], s.addrs["registry"], s.addrs["allocator"]
	start(s, "lbctl", l, lbctl.New)

	var d dnssvc.Config
	none := func(string) (string, bool) { return "", false }
	if err := config.Load("dnssvc", &d, []string{"-upstreams=127.0.0.1:1"}, none, io.Discard); err != nil {
		t.Fatal(err)
	}
	d.Addr, d.Registry, d.Listen, d.LameDuck = s.addrs["dnssvc"], s.addrs["registry"], []string{"127.0.0.1:0"}, 0
	files := kittest.NewCertificates(t).Issue("dnssvc", time.Hour, "127.0.0.1")
	d.ListenTLS, d.ListenTLSCert, d.ListenTLSKey = []string{"127.0.0.1:0"}, files.Cert, files.Key
	start(s, "dnssvc", d, dnssvc.New)

	var k kubeapi.Config
	config.Defaults(&k)
	k.Addr, k.Registry = s.addrs["kubeapi"], s.addrs["registry"]
	start(s, "kubeapi", k, kubeapi.New)

	var n nodeagent.Config
	config.Defaults(&n)
	n.Addr, n.Registry, n.NodeName, n.ProxyMode = s.addrs["nodeagent"], s.addrs["registry"], "n1", "userspace"
	n.NodeAddresses, n.DataDir, n.HealthzAddr = []string{"127.0.0.1"}, filepath.Join(data, "nodeagent"), ""
	n.BGPPeers, n.BGPAS = []string{"127.0.0.1:1@64513"}, 64512 // a peer has metrics
	start(s, "nodeagent", n, program.New)

	var g edge.Config
	config.Defaults(&g)
	g.Addr, g.Registry, g.NodeName, g.Agent, g.AccessLogDir = s.addrs["edge"], s.addrs["registry"], "n1", "", filepath.Join(data, "access-logs")
	start(s, "edge", g, edge.New)

	var m registrar.Config
	config.Defaults(&m)
	m.Addr, m.Registry, m.NodeName = s.addrs["registrar"], s.addrs["registry"], "n1"
	m.Docker, m.DockerSocket, m.Systemd, m.Dir = true, filepath.Join(data, "no-engine.sock"), true, data
	start(s, "registrar", m, registrar.New)

	for _, name := range daemons {
		if name != "kubeapi" {
			s.call(name)
		}
	}
	s.request("/api/v1/nodes")
	s.request("/api/v1/nodes?watch=1&timeoutSeconds=1")
	return s.all
}

// allDaemons holds all daemons in one process.
type allDaemons struct {
	t       *testing.T
	network rpc.Network
	all     map[string]*prometheus.Registry
	addrs   map[string]string
}

// start runs a daemon until the test ends. It has a certificate only for the sake of its metrics;
// calls within one process do not need it.
func start[C any, D app.Daemon](s *allDaemons, name string, cfg C, build func(context.Context, C, app.Host) (D, error)) {
	s.t.Helper()
	host := kittest.Host(s.t, s.network, "nats://127.0.0.1:1")
	host.Metrics = obs.NewMetrics()
	host.Guard = guard.New(host.Log, host.Metrics, host.Health)
	s.certificate(name, host.Metrics)
	var err error
	host.Audit, err = audit.Open(audit.Options{
		Path: filepath.Join(s.t.TempDir(), "audit.log"), MaxBytes: 1 << 20, Daemon: name, Log: host.Log, Metrics: host.Metrics,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(host.Audit.Close)
	d, err := build(s.t.Context(), cfg, host)
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	s.all[name] = host.Metrics
	kittest.Run(s.t, name, d.Run)
}

func (s *allDaemons) certificate(name string, metrics prometheus.Registerer) {
	s.t.Helper()
	ca, err := authority.New("example.org", time.Hour)
	if err != nil {
		s.t.Fatal(err)
	}
	id := identity.ID{TrustDomain: "example.org", Role: identity.Role(name)}
	if id.Role.OfNode() {
		id.Name = "n1"
	}
	pair, err := ca.Issue(authority.Request{ID: id, Lifetime: time.Hour})
	if err != nil {
		s.t.Fatal(err)
	}
	files := identity.Files{}
	dir := s.t.TempDir()
	for file, content := range map[*string][]byte{&files.Cert: pair.Cert, &files.Key: pair.Key, &files.CA: ca.Pair().Cert} {
		*file = filepath.Join(dir, fmt.Sprint(len(content)))
		if err := os.WriteFile(*file, content, 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := identity.Open(identity.Options{Files: files, Log: kittest.Logger(s.t), Metrics: metrics}); err != nil {
		s.t.Fatal(err)
	}
}

// request makes one request of kubeapi, which serves no gRPC, so that there are samples of requests.
func (s *allDaemons) request(path string) {
	s.t.Helper()
	kittest.Eventually(s.t, path, func() error {
		answer, err := http.Get("http://" + s.addrs["kubeapi"] + path) //nolint:noctx // it ends by itself
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return errors.Join(err, answer.Body.Close())
	})
}

// call makes one call of each type, so that there are samples of calls.
func (s *allDaemons) call(name string) {
	s.t.Helper()
	conn, err := s.network.Dial(s.addrs[name])
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	client := healthpb.NewHealthClient(conn)
	if _, err := client.Check(s.t.Context(), &healthpb.HealthCheckRequest{}, grpc.WaitForReady(true)); err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
	watch, err := client.Watch(s.t.Context(), &healthpb.HealthCheckRequest{})
	if err == nil {
		_, err = watch.Recv()
	}
	if err != nil {
		s.t.Fatalf("%s: %v", name, err)
	}
}
