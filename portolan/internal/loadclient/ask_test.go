package loadclient

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// TestCounts uses a server that refuses two attempts, fewer than a request may take, and all
// attempts of one path.
func TestCounts(t *testing.T) {
	var attempts atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := attempts.Add(1); n == 3 || n == 4 || r.URL.Path == "/never" {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "hello from web-1, request 7")
	}))
	defer server.Close()

	good := run(t, Options{URL: server.URL, Rate: 500, Tries: 3, Timeout: time.Minute, Report: time.Hour}, &attempts, 30)
	if good.Failed != 0 || good.Retried != 2 || good.Retrying != 0 || good.Answers["hello from web-1"] != good.Requests {
		t.Errorf("with three attempts: %+v", good)
	}
	bad := run(t, Options{URL: server.URL + "/never", Rate: 500, Tries: 2, Timeout: time.Minute, Report: time.Hour}, &attempts, 10)
	if bad.Failed != bad.Requests || bad.Retried != 0 || bad.Retrying != 0 || len(bad.Answers) != 0 || bad.LastFail == "" {
		t.Errorf("with no answers: %+v", bad)
	}
}

// run asks until the server has had the given number of additional attempts.
func run(t *testing.T, o Options, attempts *atomic.Int64, more int64) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	until := attempts.Load() + more
	o.Report = time.Millisecond
	var last Report
	if err := Run(ctx, o, func(r Report) {
		last = r
		if attempts.Load() >= until {
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	return last
}

func TestRefusesWhatMakesNoSense(t *testing.T) {
	for _, o := range []Options{{}, {URL: "http://[", Rate: 1, Tries: 1, Timeout: 1, Report: 1}} {
		if err := Run(t.Context(), o, func(Report) {}); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
