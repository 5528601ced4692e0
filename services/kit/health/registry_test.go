package health_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"portolan.dev/services/kit/health"
)

func TestReadyJoinsWhatIsWrong(t *testing.T) {
	r := health.New(slog.New(slog.DiscardHandler))
	if err := r.Ready(); err != nil {
		t.Errorf("without checks: %v", err)
	}
	nats := errors.New("no server")
	r.Set("store", errors.New("closed"))
	r.Set("nats", nats)
	err := r.Ready()
	if err == nil || err.Error() != "nats: no server\nstore: closed" {
		t.Errorf("got %v", err)
	}
	if !errors.Is(err, nats) {
		t.Error("the check's own error is lost")
	}
	r.Set("store", nil)
	r.Set("nats", nil)
	if err := r.Ready(); err != nil {
		t.Errorf("all well: %v", err)
	}
}

func TestOnlyTransitionsAreLogged(t *testing.T) {
	var buf bytes.Buffer
	r := health.New(slog.New(slog.NewTextHandler(&buf, nil)))
	for range 3 {
		r.Set("store", errors.New("away"))
	}
	for range 3 {
		r.Set("store", nil)
	}
	r.Set("store", errors.New("away again"))
	r.Set("quiet", nil)
	lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("got %d lines, want 3:\n%s", len(lines), buf.String())
	}
	for i, want := range []string{"level=INFO msg=\"not ready\"", "level=INFO msg=ready", "level=WARN msg=\"not ready\""} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d: got %q, want %q in it", i, lines[i], want)
		}
	}
}

func TestNotesAndWarningsLeaveADaemonReady(t *testing.T) {
	r := health.New(slog.New(slog.DiscardHandler))
	r.Warn("changes", errors.New("forged"))
	r.Note("shards", "holds none of 4")
	r.Note("shards", "holds 0, 2 of 4")
	r.Note("audit", "on")
	if notes := strings.Join(r.Notes(), "; "); r.Ready() != nil || notes != "audit: on; shards: holds 0, 2 of 4" {
		t.Errorf("ready: %v, notes %q", r.Ready(), notes)
	}
	r.Note("audit", "")
	if notes := r.Notes(); len(notes) != 1 {
		t.Errorf("a removed note stays: %q", notes)
	}
}

func TestWatchSeesEveryChangeInOrder(t *testing.T) {
	r := health.New(slog.New(slog.DiscardHandler))
	var seen []string
	stop := r.Watch(func(err error) {
		if err == nil {
			seen = append(seen, "ready")
		} else {
			seen = append(seen, err.Error())
		}
	})
	r.Set("a", errors.New("1"))
	r.Set("a", errors.New("1")) // no change
	r.Set("a", errors.New("2"))
	r.Set("a", nil)
	stop()
	r.Set("a", errors.New("3"))
	if got, want := strings.Join(seen, ","), "ready,a: 1,a: 2,ready"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestConcurrentUse(t *testing.T) {
	r := health.New(slog.New(slog.DiscardHandler))
	var last error
	defer r.Watch(func(err error) { last = err })() // calls do not overlap
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b", "c"} {
		wg.Go(func() {
			for range 200 {
				r.Set(name, errors.New("x"))
				_ = r.Ready()
				r.Set(name, nil)
			}
		})
	}
	wg.Wait()
	if err := r.Ready(); err != nil || last != nil {
		t.Errorf("ready = %v, watcher saw %v last", err, last)
	}
}
