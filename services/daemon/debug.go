package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/obs"
)

// unixPrefix begins an address that is the path of a Unix socket.
const unixPrefix = "unix:"

// checkDebugAddr returns an error unless only this machine reaches the address.
func checkDebugAddr(addr string) error {
	path, unix := strings.CutPrefix(addr, unixPrefix)
	switch {
	case unix && !filepath.IsAbs(path):
		return fmt.Errorf("debug-addr: %q is no absolute path of a Unix socket, such as unix:/run/portolan-registry/debug.sock", addr)
	case !unix && addr != "" && !isLoopback(addr):
		return fmt.Errorf("debug-addr: other machines reach %s, and profiles and the log level are for this one: give unix:PATH or a loopback address", addr)
	}
	return nil
}

// listenDebug listens on the debug address. It returns nil if there is none.
func listenDebug(addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	var lis net.Listener
	err := checkDebugAddr(addr)
	if path, unix := strings.CutPrefix(addr, unixPrefix); err == nil && unix {
		lis, err = listenUnix(path)
	} else if err == nil {
		lis, err = net.Listen("tcp", addr)
	}
	return lis, ListenError("debug-addr", err)
}

// unixListener removes its socket when it is closed.
type unixListener struct {
	net.Listener
	path string
}

// Close implements net.Listener.
func (l unixListener) Close() error {
	return errors.Join(l.Listener.Close(), ignoreMissing(os.Remove(l.path)))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// listenUnix listens on a Unix socket that only the user of this process, and root, can connect to.
// It makes the socket in a private folder and renames it, so that no other user connects before its mode
// is set, and so that it replaces the socket of a killed process.
func listenUnix(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".debug-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(dir)
	private := filepath.Join(dir, "s")
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: private, Net: "unix"})
	if err != nil {
		return nil, err
	}
	lis.SetUnlinkOnClose(false) // it has another name by then
	if err := errors.Join(os.Chmod(private, 0o600), os.Rename(private, path)); err != nil {
		return nil, errors.Join(err, lis.Close(), ignoreMissing(os.Remove(private)))
	}
	return unixListener{lis, path}, nil
}

// serveDebug serves profiles and the log level on lis until ctx is done. If lis is nil, it only
// waits. Responses take as long as the client has asked for, so that there is no timeout for them.
func serveDebug(ctx context.Context, lis net.Listener, addr string, host app.Host, level *slog.LevelVar) error {
	if lis == nil {
		<-ctx.Done()
		return nil
	}
	handler := recordHTTP(host.Audit, nil, checkHost(addr, nil, obs.DebugHandler(level)))
	return serveHTTP(ctx, lis, &http.Server{Handler: handler, ReadTimeout: readTimeout, ErrorLog: errorLog(host, nil)})
}

// debugName returns the address of the debug listener for the log. It is empty if there is none.
func debugName(lis net.Listener) string {
	if unix, ok := lis.(unixListener); ok {
		return unixPrefix + unix.path
	}
	if lis == nil {
		return ""
	}
	return lis.Addr().String()
}
