package accesslog

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"portolan.dev/services/kit/kittest"
)

// The clock of synctest begins at midnight UTC of 2000-01-01.
const (
	first  = "logs/a/b/shop_web_n1_20000101T0000Z.log"
	second = "logs/a/b/shop_web_n1_20000101T0005Z.log"
)

func TestAFileForEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := restart(t, t.TempDir())
		log := e.open(web())
		synctest.Wait()
		wantFiles(t, e.dir, map[string]string{})

		record(log, "/1")
		time.Sleep(time.Second)
		record(log, "/2")
		wantFiles(t, e.dir, map[string]string{first + ".part": "/1"})
		time.Sleep(4*time.Minute + 58*time.Second)
		wantFiles(t, e.dir, map[string]string{first + ".part": "/1 /2"})

		record(log, "/3") // 1 s before the end of the interval
		time.Sleep(900 * time.Millisecond)
		record(log, "/4") // and so late that both intervals wait at once
		time.Sleep(200 * time.Millisecond)
		record(log, "/5")
		time.Sleep(time.Second)
		wantFiles(t, e.dir, map[string]string{first: "/1 /2 /3 /4", second + ".part": "/5"})

		time.Sleep(20 * time.Minute) // intervals without records have no file
		wantFiles(t, e.dir, map[string]string{first: "/1 /2 /3 /4", second: "/5"})
		record(log, "/6")
		e.logs.Close()
		wantFiles(t, e.dir, map[string]string{first: "/1 /2 /3 /4", second: "/5", "logs/a/b/shop_web_n1_20000101T0025Z.log": "/6"})
		record(log, "/7") // is lost, and does no harm
		log.Close()
		e.logs.Close()
		if e.said.Len() > 0 {
			t.Errorf("logged: %s", e.said)
		}
	})
}

func TestARestartInTheIntervalBeginsAnotherFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		for i := range 3 {
			e := restart(t, dir)
			record(e.open(web()), fmt.Sprintf("/%d", i))
			e.logs.Close()
		}
		stem := strings.TrimSuffix(first, ".log")
		wantFiles(t, dir, map[string]string{first: "/0", stem + "_2.log": "/1", stem + "_3.log": "/2"})
	})
}

func TestAClosedLogIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := restart(t, t.TempDir())
		defer e.logs.Close()
		old := e.open(web())
		record(old, "/1")
		time.Sleep(time.Second)
		record(old, "/2")
		old.Close()
		old.Close()
		record(old, "/3")
		renewed := e.open(web())
		record(renewed, "/4")
		time.Sleep(time.Second)
		wantFiles(t, e.dir, map[string]string{first: "/1 /2", first + ".part": "/4"})
		e.wantDropped(causeQueue, 1)
		var none *Log
		none.Record(&Record{})
		none.Close()
	})
}

// TestLeftovers checks that the files of an edge that was killed are cut back to whole lines and get
// their final names, and that the files of other nodes stay.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	line, long := " www.example.com:443/1 \n", strings.Repeat("x", 100_000)
	for name, text := range map[string]string{
		first + ".part":                       line + line + "torn",
		second + ".part":                      line + long,
		second:                                line,
		"shop_web_n1_20000101T0010Z.log.part": "torn " + long,
		"shop_web_n2_20000101T0010Z.log.part": line,
		"other.part":                          line,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	restart(t, dir).logs.Close()
	wantFiles(t, dir, map[string]string{
		first: "/1 /1", second: "/1", strings.TrimSuffix(second, ".log") + "_2.log": "/1",
		"shop_web_n2_20000101T0010Z.log.part": "/1", "other.part": "/1",
	})
}

func TestFoldersStayBelowTheBase(t *testing.T) {
	e := restart(t, t.TempDir())
	defer e.logs.Close()
	for _, bad := range []string{"..", "a/../..", "/etc", "a//b", "a/", ".", "a\x00b", "a b", "ä", `a\b`, "a\n", strings.Repeat("a", 600)} {
		for _, target := range []Target{{Directory: bad, Interval: time.Hour}, {Prefix: bad, Interval: time.Hour}} {
			if _, err := e.logs.Open(target); err == nil {
				t.Errorf("the folder %q is accepted", bad)
			}
		}
	}
	if _, err := e.logs.Open(Target{}); err == nil {
		t.Error("a target without an interval is accepted")
	}
	for _, good := range []string{"", "a", "my-bucket/prod", "..a/b.."} {
		if _, err := e.logs.Open(Target{Directory: good, Prefix: good, Interval: time.Hour}); err != nil {
			t.Errorf("the folder %q: %v", good, err)
		}
	}
	if _, err := New(Options{Dir: e.dir, Node: strings.Repeat("n", 200)}); err == nil {
		t.Error("the name of the node is too long, and accepted")
	}
}

// TestALinkDoesNotLeadOut checks that lines are lost rather than written through a link that leads
// out of the base directory, and that the loss is counted and logged once.
func TestALinkDoesNotLeadOut(t *testing.T) {
	outside := t.TempDir()
	e := restart(t, t.TempDir())
	if err := os.Symlink(outside, filepath.Join(e.dir, "logs")); err != nil {
		t.Fatal(err)
	}
	log := e.open(web())
	for i := range 3 {
		record(log, "/1")
		kittest.Eventually(t, "the loss of a line", func() error {
			if n := testutil.ToFloat64(e.logs.metrics.dropped[causeDisk]); n != float64(i+1) {
				return fmt.Errorf("%v lines are lost", n)
			}
			return nil
		})
	}
	if err := os.Remove(filepath.Join(e.dir, "logs")); err != nil {
		t.Fatal(err)
	}
	record(log, "/2")
	e.logs.Close()
	wantFiles(t, outside, map[string]string{})
	if n := testutil.ToFloat64(e.logs.metrics.lines); n != 1 {
		t.Errorf("%v lines are written", n)
	}
	if n := strings.Count(e.said.String(), "cannot be written"); n != 1 {
		t.Errorf("%d warnings: %s", n, e.said)
	}
}

// TestAStuckDisk checks that records are dropped and counted, and never wait, if the writer does not
// come back from the disk.
func TestAStuckDisk(t *testing.T) {
	var said strings.Builder
	logs, err := newLogs(Options{Dir: t.TempDir(), Node: "n1", Log: slog.New(slog.NewTextHandler(&said, nil)), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	log, err := logs.Open(web())
	if err != nil {
		t.Fatal(err)
	}
	r := request()
	size := len(log.appendLine(nil, &r))
	for range maxWaiting/size + 100 {
		log.Record(&r)
	}
	if n := testutil.ToFloat64(logs.metrics.dropped[causeQueue]); n != 100 {
		t.Errorf("%v lines dropped, want 100", n)
	}
	if n := strings.Count(said.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, said.String())
	}
	logs.bytes.Store(maxWaitingTotal)
	other, err := logs.Open(Target{Namespace: "shop", Service: "other", Interval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	other.Record(&r)
	if n := testutil.ToFloat64(logs.metrics.dropped[causeQueue]); n != 101 {
		t.Errorf("%v lines dropped, want 101: the limit of all logs", n)
	}
	if n := logs.bytes.Load(); n != maxWaitingTotal {
		t.Errorf("%d bytes wait, want %d: the dropped line takes none", n, maxWaitingTotal)
	}
	logs.bytes.Store(int64(log.bytes))
	go logs.run()
	logs.Close()
	if n := logs.bytes.Load(); n != 0 || log.bytes != 0 {
		t.Errorf("%d bytes of all logs and %d of one wait after the end", n, log.bytes)
	}
	if n := testutil.ToFloat64(logs.metrics.lines); n != float64(maxWaiting/size) {
		t.Errorf("%v lines written", n)
	}
}

// TestManyAtOnce checks that no line is lost or broken if several services record at once.
func TestManyAtOnce(t *testing.T) {
	e := restart(t, t.TempDir())
	const services, writers, each = 3, 4, 1000
	var all sync.WaitGroup
	for s := range services {
		log := e.open(Target{Namespace: "shop", Service: fmt.Sprintf("s%d", s), Interval: 24 * time.Hour})
		for range writers {
			all.Go(func() {
				for range each {
					record(log, "/x")
				}
			})
		}
	}
	all.Wait()
	e.logs.Close()
	e.wantDropped(causeQueue, 0)
	files, err := filepath.Glob(filepath.Join(e.dir, "*.log"))
	if err != nil || len(files) < services {
		t.Fatalf("files %v: %v", files, err)
	}
	lines := 0
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			lines++
			if !elbLine.MatchString(line) {
				t.Fatalf("broken line %q", line)
			}
		}
	}
	if lines != services*writers*each {
		t.Errorf("%d lines, want %d", lines, services*writers*each)
	}
}

func BenchmarkRecord(b *testing.B) {
	for name, format := range map[string]Format{"elb": ELB, "json": JSON} {
		b.Run(name, func(b *testing.B) {
			logs, err := New(Options{Dir: b.TempDir(), Node: "n1", Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
			if err != nil {
				b.Fatal(err)
			}
			defer logs.Close()
			log, err := logs.Open(Target{Namespace: "shop", Service: "web", Interval: time.Hour, Format: format})
			if err != nil {
				b.Fatal(err)
			}
			r := request()
			b.ReportAllocs()
			for b.Loop() {
				log.Record(&r)
			}
			b.ReportMetric(testutil.ToFloat64(logs.metrics.dropped[causeQueue])/float64(b.N), "dropped/op")
		})
	}
}
