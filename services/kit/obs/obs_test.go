package obs_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/obs"
)

func request(t *testing.T, h http.Handler, method, path, body string) (int, string) {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	data, err := io.ReadAll(rec.Body)
	if err != nil {
		t.Fatal(err)
	}
	return rec.Code, string(data)
}

func TestHandler(t *testing.T) {
	checks := health.New(slog.New(slog.DiscardHandler))
	h := obs.Handler(obs.NewMetrics(), checks)
	checks.Set("store", errors.New("away"))
	tests := []struct {
		path string
		code int
		body string
	}{
		{"/healthz", 200, "ok\n"},
		{"/readyz", 503, "store: away\n"},
		{"/metrics", 200, "portolan_build_info{"},
		{"/metrics", 200, "go_goroutines "},
		{"/metrics", 200, "process_open_fds "},
		{"/debug/pprof/", 404, ""},
		{"/debug/loglevel", 404, ""},
		{"/nothing", 404, ""},
	}
	for _, tt := range tests {
		if code, body := request(t, h, "GET", tt.path, ""); code != tt.code || !strings.Contains(body, tt.body) {
			t.Errorf("%s: got %d %.100q, want %d %q", tt.path, code, body, tt.code, tt.body)
		}
	}
	checks.Set("store", nil)
	if code, body := request(t, h, "GET", "/readyz", ""); code != 200 || body != "ok\n" {
		t.Errorf("ready: got %d %q", code, body)
	}
	if code, _ := request(t, h, "POST", "/metrics", ""); code != http.StatusMethodNotAllowed {
		t.Errorf("POST /metrics: %d", code)
	}
}

func TestMetricsAreWellNamed(t *testing.T) {
	reg := obs.NewMetrics()
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestLogger(t *testing.T) {
	for format, want := range map[obs.Format]string{
		// FormatAuto is JSON here, because a buffer is not a terminal.
		obs.FormatJSON: `{"time":`, obs.FormatText: "time=", obs.FormatAuto: `{"time":`,
	} {
		var buf bytes.Buffer
		log, level := obs.NewLogger(&buf, slog.LevelInfo, format)
		log.Debug("hidden")
		log.Info("shown")
		level.Set(slog.LevelDebug)
		log.Debug("now shown")
		lines := strings.Split(strings.TrimSpace(buf.String()), "\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[0], want) || !strings.Contains(lines[1], "now shown") {
			t.Errorf("%s: got %q", format, lines)
		}
	}
}

func TestFormatIsChecked(t *testing.T) {
	var f obs.Format
	if err := f.UnmarshalText([]byte("text")); err != nil || f != obs.FormatText {
		t.Errorf("got %q %v", f, err)
	}
	if err := f.UnmarshalText([]byte("xml")); err == nil || f != obs.FormatText {
		t.Errorf("got %q %v", f, err)
	}
}

func TestDebugHandler(t *testing.T) {
	h := obs.DebugHandler(new(slog.LevelVar))
	for path, want := range map[string]string{"/debug/pprof/": "goroutine", "/debug/pprof/heap?debug=1": "heap profile", "/debug/loglevel": "info\n"} {
		if code, body := request(t, h, "GET", path, ""); code != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: got %d %.100q, want %q", path, code, body, want)
		}
	}
}

func TestLogLevel(t *testing.T) {
	level := new(slog.LevelVar)
	h := obs.DebugHandler(level)
	tests := []struct {
		method, body string
		code         int
		want         slog.Level
	}{
		{"GET", "", 200, slog.LevelInfo},
		{"PUT", "debug\n", 200, slog.LevelDebug},
		{"PUT", "loud", 400, slog.LevelDebug},
		{"PUT", strings.Repeat("x", 1000), 400, slog.LevelDebug},
		{"DELETE", "", 405, slog.LevelDebug},
	}
	for _, tt := range tests {
		if code, body := request(t, h, tt.method, "/debug/loglevel", tt.body); code != tt.code || level.Level() != tt.want {
			t.Errorf("%s %.10q: got %d %q, level %s", tt.method, tt.body, code, body, level)
		}
	}
}
