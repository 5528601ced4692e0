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

// notifySystemd notifies systemd, if systemd started the process, that the daemon is up (READY),
// which checks it waits for (STATUS), and that it is alive (WATCHDOG). To check the latter it
// sends itself requests by self. A daemon that waits for other daemons counts as up, because
// restarting it would not help. Without systemd, notifySystemd returns at once.
func notifySystemd(ctx context.Context, checks *health.Registry, self *prober) error {
	if told, err := daemon.SdNotify(false, "STATUS=starting"); !told {
		return err // nil without systemd
	}
	stop := checks.Watch(func(ready error) {
		// The daemon goes on if systemd does not listen.
		_, _ = daemon.SdNotify(false, systemdState(ready))
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
		if respondsInTime(ctx, self, interval/2) {
			_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog)
		}
		app.Pause(ctx, interval/2)
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	return nil
}

// systemdState returns the notification for a result of the daemon's checks. While the daemon
// starts, the notification has only STATUS.
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

// respondsInTime reports whether the process answers an HTTP request in time.
func respondsInTime(ctx context.Context, self *prober, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	status, _, err := self.get(ctx, "/healthz")
	return err == nil && status == http.StatusOK
}
