package walls

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"portolan.dev/services/kit/config"
)

// promtool runs promtool in deploy/prometheus.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	found, err := exec.LookPath("promtool")
	if err != nil {
		const msg = "no promtool here: install it (Debian: apt-get install prometheus)"
		if os.Getenv("PORTOLAN_REQUIRE_REAL") == "1" {
			t.Fatal(msg)
		}
		t.Skip(msg)
	}
	command := exec.CommandContext(t.Context(), found, args...)
	command.Dir = deployed("prometheus")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// TestPrometheusRules has promtool check the files, and check that each alert fires when it should
// and only then.
func TestPrometheusRules(t *testing.T) {
	promtool(t, "check", "config", "--syntax-only", "prometheus.yml") // the certificates are in the stack only
	promtool(t, "test", "rules", "rules_test.yml")
}

// TestPrometheusScrapesTheStack checks that each target is a service of docker-compose.yml at its
// daemon's default port, and that no daemon is missing.
func TestPrometheusScrapesTheStack(t *testing.T) {
	var compose struct{ Services map[string]any }
	decode(t, filepath.Join(repository, "docker-compose.yml"), yaml.Unmarshal, &compose)
	var scrape struct {
		Jobs []struct {
			Name   string                       `yaml:"job_name"`
			Static []struct{ Targets []string } `yaml:"static_configs"`
			DNS    []struct {
				Names []string
				Port  string
			} `yaml:"dns_sd_configs"` // of daemons that a profile of the stack starts
			Scheme string
			TLS    struct {
				Cert string `yaml:"cert_file"`
			} `yaml:"tls_config"`
		} `yaml:"scrape_configs"`
	}
	decode(t, deployed("prometheus", "prometheus.yml"), yaml.Unmarshal, &scrape)
	ports := map[string]string{}
	for name, cfg := range configurations {
		for _, flag := range config.Flags(name, cfg) {
			if flag.Name == "http-addr" {
				_, ports[name], _ = strings.Cut(flag.Default, ":")
			}
		}
	}
	issued := hostsOfStack(t)
	for _, job := range scrape.Jobs {
		if job.Scheme != "https" || job.TLS.Cert != "/certs/monitor.crt" {
			t.Errorf("job %s: scheme %s with the certificate %q", job.Name, job.Scheme, job.TLS.Cert)
		}
		var targets []string
		for _, one := range job.Static {
			targets = append(targets, one.Targets...)
		}
		for _, one := range job.DNS {
			for _, name := range one.Names {
				targets = append(targets, name+":"+one.Port)
			}
		}
		for _, target := range targets {
			host, port, _ := strings.Cut(target, ":")
			if _, ok := compose.Services[host]; !ok || port != ports[job.Name] {
				t.Errorf("job %s: %s is no service of docker-compose.yml with port %s", job.Name, target, ports[job.Name])
			}
			if !slices.Contains(issued[job.Name], host) {
				t.Errorf("job %s: no certificate of deploy/compose/certs.yaml has the host %s, by which Prometheus verifies it", job.Name, host)
			}
		}
		delete(ports, job.Name)
	}
	for name := range ports {
		t.Errorf("%s is not scraped", name)
	}
}

// hostsOfStack returns the hosts in the certificates of the stack, by role.
func hostsOfStack(t *testing.T) map[string][]string {
	t.Helper()
	var list struct {
		Certificates []struct {
			Who   string
			Hosts []string
		}
	}
	decode(t, deployed("compose", "certs.yaml"), yaml.Unmarshal, &list)
	hosts := map[string][]string{}
	for _, c := range list.Certificates {
		role, _, _ := strings.Cut(c.Who, "/")
		hosts[role] = append(hosts[role], c.Hosts...)
	}
	return hosts
}

type rule struct{ Record, Alert, Expr string }

func rules(t *testing.T, file string) []rule {
	t.Helper()
	var parsed struct{ Groups []struct{ Rules []rule } }
	decode(t, deployed("prometheus", file), yaml.Unmarshal, &parsed)
	var all []rule
	for _, g := range parsed.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

func decode(t *testing.T, file string, unmarshal func([]byte, any) error, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// TestEveryAlertIsTested checks that each alert has a test in which it fires.
func TestEveryAlertIsTested(t *testing.T) {
	type expectation struct {
		Expr    string
		Samples []any `yaml:"exp_samples"`
	}
	var parsed struct {
		Tests []struct {
			Expectations []expectation `yaml:"promql_expr_test"`
		}
	}
	decode(t, deployed("prometheus", "rules_test.yml"), yaml.Unmarshal, &parsed)
	fires := func(alert string) bool {
		for _, test := range parsed.Tests {
			for _, e := range test.Expectations {
				if strings.Contains(e.Expr, `alertname="`+alert+`"`) && len(e.Samples) > 0 {
					return true
				}
			}
		}
		return false
	}
	for _, r := range rules(t, "rules.yml") {
		if !fires(r.Alert) {
			t.Errorf("deploy/prometheus/rules_test.yml has nothing that sets off %s", r.Alert)
		}
	}
}

// dashboard holds the parts of Grafana's format that the tests check.
type dashboard struct {
	Annotations struct{ List []struct{ Expr string } }
	Panels      []struct {
		ID          int
		Type, Title string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ Expr string }
	}
}

func (d *dashboard) queries() []string {
	var all []string
	for _, a := range d.Annotations.List {
		all = append(all, a.Expr)
	}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all = append(all, strings.ReplaceAll(target.Expr, "$__rate_interval", "5m"))
		}
	}
	return all
}

func readDashboard(t *testing.T) *dashboard {
	t.Helper()
	d := &dashboard{}
	decode(t, deployed("grafana", "portolan.json"), json.Unmarshal, d)
	return d
}

// TestDashboard checks that each daemon has a row, that every panel has a query, that no panels
// overlap, and that Prometheus can parse the queries.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	var rows []string
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("panel %s: its id, %d, is that of another one", p.Title, p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("panel %s covers %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			rows = append(rows, p.Title)
		} else if len(p.Targets) == 0 || p.Targets[0].Expr == "" {
			t.Errorf("panel %s asks nothing", p.Title)
		}
	}
	for _, daemon := range daemons {
		if !slices.Contains(rows, daemon) {
			t.Errorf("there is no row of %s", daemon)
		}
	}
	var file strings.Builder
	file.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, query := range d.queries() {
		fmt.Fprintf(&file, "  - {record: 'query_%d', expr: %q}\n", i, query)
	}
	path := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "check", "rules", path)
}

var (
	metricName   = regexp.MustCompile(`\bportolan_[a-z0-9_]+`)
	recordedName = regexp.MustCompile(`\bportolan:[a-z0-9_:]+`)
	listedMetric = regexp.MustCompile("(?m)^\\| `(portolan_[a-z0-9_]+)` \\| ([a-z]+) \\|")
)

// TestMonitoringUsesWhatThereIs checks that rules and dashboard name only metrics of
// docs/metrics.md and of the recording rules.
func TestMonitoringUsesWhatThereIs(t *testing.T) {
	text, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, match := range listedMetric.FindAllStringSubmatch(string(text), -1) {
		if match[2] != "histogram" {
			known[match[1]] = true
			continue
		}
		for _, series := range []string{"_bucket", "_sum", "_count"} {
			known[match[1]+series] = true
		}
	}
	queries := map[string][]string{"deploy/grafana/portolan.json": readDashboard(t).queries()}
	for _, file := range []string{"recording.yml", "rules.yml"} {
		for _, r := range rules(t, file) {
			queries["deploy/prometheus/"+file] = append(queries["deploy/prometheus/"+file], r.Expr)
			if r.Record != "" {
				known[r.Record] = true
			}
		}
	}
	for file, list := range queries {
		for _, query := range list {
			for _, name := range append(metricName.FindAllString(query, -1), recordedName.FindAllString(query, -1)...) {
				if !known[name] {
					t.Errorf("%s: there is no %s, in %s", file, name, query)
				}
			}
		}
	}
}
