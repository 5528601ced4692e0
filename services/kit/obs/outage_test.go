package obs_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"portolan.dev/services/kit/obs"
)

// TestAnOutageIsTwoLines checks that an outage is logged in two lines, for any number of failures
// and any errors.
func TestAnOutageIsTwoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		o := &obs.Outage{Log: log, Down: "store away", Up: "store back", Tolerate: time.Second}
		expect := func(what, want string) {
			t.Helper()
			if got := out.String(); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
			out.Reset()
		}
		if o.Over() {
			t.Error("an outage that never began was told")
		}
		o.Failed(errors.New("refused"))
		time.Sleep(time.Second / 2)
		o.Failed(errors.New("refused"))
		if o.Over() {
			t.Error("a failure that is tolerated was told")
		}
		expect("a short one", "")
		for _, why := range []string{"port 1", "port 2", "port 3", "port 4"} {
			o.Failed(errors.New(why), "server", "a")
			time.Sleep(600 * time.Millisecond)
		}
		expect("its beginning", "level=WARN msg=\"store away\" err=\"port 3\" server=a\n")
		if !o.Over("server", "b") {
			t.Error("the end was not told")
		}
		expect("its end", "level=INFO msg=\"store back\" after=2.4s failures=4 server=b\n")
		o.Over()
		expect("nothing", "")
	})
}
