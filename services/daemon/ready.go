package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"portolan.dev/services/kit/identity"
)

// readyTimeout is the timeout of the request. It is short because the daemon answers from memory.
const readyTimeout = 5 * time.Second

// askReady asks the running daemon with this configuration whether it is ready, with the daemon's
// own certificate if there is one. It serves as the health check of containers without a shell and
// curl.
func askReady(ctx context.Context, name string, common Common) error {
	var source *identity.Source
	var err error
	if !isLoopback(common.HTTPAddr) {
		if source, err = common.Identity(identity.Options{Role: identity.Role(name), Log: slog.New(slog.DiscardHandler)}); err != nil {
			return err
		}
	}
	daemon, err := newProber(common.HTTPAddr, source)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	status, body, err := daemon.get(ctx, "/readyz")
	if err != nil {
		return fmt.Errorf("not running, or not at http-addr %s: %w", common.HTTPAddr, err)
	}
	if status != http.StatusOK {
		return errors.New("not ready: " + strings.TrimSpace(body))
	}
	fmt.Fprintln(os.Stdout, "ready")
	return nil
}

// dialAddress returns the address at which this machine reaches a server that listens on addr.
func dialAddress(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("http-addr: %w", err)
	}
	if port == "0" {
		return "", errors.New("http-addr: port 0 is a different one at each start; name a port")
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port), nil
}
