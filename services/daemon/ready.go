package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"
)

// readyTimeout is the timeout of the request. It is short because the daemon answers from memory.
const readyTimeout = 5 * time.Second

// askReady asks the running daemon with this configuration whether it is ready. It serves as the
// health check of containers without a shell and curl.
func askReady(ctx context.Context, common Common) error {
	addr, err := dialAddress(common.HTTPAddr)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("not running, or not at http-addr %s: %w", common.HTTPAddr, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New("not ready: " + strings.TrimSpace(string(body)))
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
