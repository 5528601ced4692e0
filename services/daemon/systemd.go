package daemon

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/health"
)

// tellSystemd says to systemd, where that has started the process, that the
// daemon is up (READY), what it waits for (STATUS), and that it still answers
// (WATCHDOG, by asking itself over HTTP at alive). A daemon that waits for others
// is up: to restart it would help nobody. Without systemd it does nothing.
func tellSystemd(ctx context.Context, checks *health.Registry, alive string) error {
	if told, err := daemon.SdNotify(false, "STATUS=starting"); !told {
		return err // nil: nobody asked
	}
	stop := checks.Watch(func(ready error) {
		_, _ = daemon.SdNotify(false, systemdState(ready)) // who does not listen is not told
	})
	defer stop()
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return err
	}
	if interval == 0 {
		<-ctx.Done()
	}
	for ctx.Err() == nil {
		if answers(ctx, alive, interval/2) {
			_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
		}
		app.Pause(ctx, interval/2)
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	return nil
}

// systemdState is what to say about a daemon's checks; while it starts, no more
// than what it waits for.
func systemdState(ready error) string {
	if ready == nil {
		return "READY=1\nSTATUS=ready"
	}
	status := "STATUS=not ready: " + strings.ReplaceAll(ready.Error(), "\n", "; ")
	if errors.Is(ready, errStarting) {
		return status
	}
	return "READY=1\n" + status
}

// answers tells whether the process serves HTTP in time.
func answers(ctx context.Context, url string, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
