package audit_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/kittest"
)

// fixture is an open log.
type fixture struct {
	*audit.Log
	t       testing.TB
	path    string
	metrics *prometheus.Registry
}

// open opens a log in a new folder. change changes its options.
func open(t testing.TB, change func(*audit.Options)) *fixture {
	t.Helper()
	o := audit.Options{
		Path: filepath.Join(t.TempDir(), "audit.log"), MaxBytes: 64 << 20, Keep: 5,
		Daemon: "registry", Log: kittest.Logger(t), Metrics: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&o)
	}
	log, err := audit.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	return &fixture{Log: log, t: t, path: o.Path, metrics: o.Metrics.(*prometheus.Registry)}
}

// line is a line of either kind, Entry or Missing.
type line struct {
	audit.Entry
	Dropped int64  `json:"dropped"`
	Cause   string `json:"cause"`
}

// read returns the lines of a file. Each must be valid JSON.
func read(t testing.TB, path string) (lines []line) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, content)
}

func parse(t testing.TB, content []byte) (lines []line) {
	t.Helper()
	for text := range bytes.Lines(content) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		lines = append(lines, l)
	}
	return lines
}

// dropped returns the metric of missing lines of a cause.
func (f *fixture) dropped(cause string) int {
	f.t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "portolan_audit_dropped_total" && m.GetLabel()[0].GetValue() == cause {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	f.t.Fatalf("no metric of %s", cause)
	return 0
}

// sample returns an entry as a create makes it.
func sample(name string) *audit.Entry {
	return &audit.Entry{
		Time: time.Now(), Identity: "operator", Serial: "2fd4e1c67a2d28fced849ee1bb76e7391b93eb12", Peer: "10.0.0.7:41234",
		Method: "/portolan.registry.v1.ServiceService/CreateService", Code: "OK", Seconds: 0.0021,
		Object: audit.Object{Kind: "Service", Namespace: "default", Name: name, UID: "6b0f6fd0-93b3-4c5c-9d3b-3b1a3f0c9f55", Revision: 4711},
	}
}

// TestMetricsAreCounters keeps the names that alerts use.
func TestMetricsAreCounters(t *testing.T) {
	problems, err := testutil.GatherAndLint(open(t, nil).metrics)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
