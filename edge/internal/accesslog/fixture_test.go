package accesslog

import (
	"bytes"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// edge is an edge that writes access logs below a directory.
type edge struct {
	t    *testing.T
	dir  string
	logs *Logs
	said *bytes.Buffer // the text of the program's own log; read it after Close
}

// restart starts the logs of an edge on node n1, in a directory that may have files of its
// predecessor. The caller closes them.
func restart(t *testing.T, dir string) *edge {
	t.Helper()
	said := &bytes.Buffer{}
	logs, err := New(Options{Dir: dir, Node: "n1", Log: slog.New(slog.NewTextHandler(said, nil)), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return &edge{t: t, dir: dir, logs: logs, said: said}
}

// web is the target of most tests.
func web() Target {
	return Target{Namespace: "shop", Service: "web", Directory: "logs", Prefix: "a/b", Interval: 5 * time.Minute}
}

func (e *edge) open(target Target) *Log {
	e.t.Helper()
	log, err := e.logs.Open(target)
	if err != nil {
		e.t.Fatal(err)
	}
	return log
}

// record records a request to a path.
func record(log *Log, uri string) {
	r := request()
	r.Request.URI = uri
	log.Record(&r)
}

// wantFiles compares the files below a directory with the paths of the requests in them.
func wantFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		got[filepath.ToSlash(name)] = uris(string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, uris := range want {
		if found, ok := got[name]; !ok || found != uris {
			t.Errorf("%s has %q, want %q", name, found, uris)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("unexpected files: %v", got)
	}
}

// uris returns the paths of the requests in lines of ELB.
func uris(text string) string {
	var all []string
	for line := range strings.Lines(text) {
		_, rest, _ := strings.Cut(line, "www.example.com:443")
		uri, _, _ := strings.Cut(rest, " ")
		all = append(all, uri)
	}
	return strings.Join(all, " ")
}

func (e *edge) wantDropped(c cause, want float64) {
	e.t.Helper()
	if got := testutil.ToFloat64(e.logs.metrics.dropped[c]); got != want {
		e.t.Errorf("%v lines dropped by cause %s, want %v", got, c, want)
	}
}
