package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc/status"

	"portolan.dev/services/access"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/token"
)

// Limits of a daemon's HTTP servers. Requests have no body worth mentioning, and responses are a few
// hundred kilobytes of metrics.
const (
	readTimeout    = 10 * time.Second // also for the TLS handshake
	writeTimeout   = 30 * time.Second
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 16 << 10
)

// httpTLS returns the certificate that the HTTP listener at addr uses, or nil if its connections are
// not encrypted: at a loopback address, and without a certificate.
func httpTLS(addr string, source *identity.Source) *identity.Source {
	if isLoopback(addr) {
		return nil
	}
	return source
}

// serveMetrics serves metrics and health on lis, which listens on addr, until ctx is done.
func serveMetrics(ctx context.Context, lis net.Listener, addr string, host app.Host) error {
	handler := obs.Handler(host.Metrics, host.Health)
	source := httpTLS(addr, host.Identity)
	if source != nil {
		lis = tls.NewListener(lis, source.MutualTLS())
		handler = authorize(source, handler)
	}
	if host.Token != nil {
		handler = requireToken(host.Token, handler)
	}
	return serveHTTP(ctx, lis, &http.Server{
		Handler: recordHTTP(host.Audit, source, checkHost(addr, host.Identity, handler)), ReadTimeout: readTimeout, WriteTimeout: writeTimeout, ErrorLog: errorLog(host, source),
	})
}

// serveHTTP runs a server on lis until ctx is done.
func serveHTTP(ctx context.Context, lis net.Listener, srv *http.Server) error {
	srv.ReadHeaderTimeout, srv.IdleTimeout, srv.MaxHeaderBytes = readTimeout, idleTimeout, maxHeaderBytes
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	if err := srv.Serve(lis); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// authorize refuses clients that may not read this daemon's metrics and health. It checks each request
// and not only each connection, because a certificate may expire meanwhile.
func authorize(source *identity.Source, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, err := clientOf(source, r)
		if err != nil {
			w.Header().Set("Connection", "close") // the client connects again with another certificate
			http.Error(w, fmt.Sprintf("the client's certificate %v", err), http.StatusUnauthorized)
			return
		}
		if err := access.Observe(id, source.ID()); err != nil {
			http.Error(w, status.Convert(err).Message(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// clientOf returns the identity of the client of a request. It returns an error unless the client's
// certificate is valid now. The error continues a sentence about the certificate.
func clientOf(source *identity.Source, r *http.Request) (identity.ID, error) {
	id, err := source.Client(*r.TLS)
	if err != nil {
		return id, err
	}
	if end := r.TLS.PeerCertificates[0].NotAfter; !time.Now().Before(end) {
		return id, errExpired(end)
	}
	return id, nil
}

func errExpired(end time.Time) error {
	return fmt.Errorf("expired at %s", end.UTC().Format(time.RFC3339))
}

// requireToken serves metrics, which name the objects of the installation, only to clients that send
// the token. Health is open, as it is in the gRPC API.
func requireToken(secret *token.Token, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
			if err := secret.CheckRequest(r); err != nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, status.Convert(err).Message(), http.StatusUnauthorized)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// checkHost refuses requests unless their Host header names this server. A web page can make a browser
// send requests to any address by a name that the page's owner controls (DNS rebinding), but then the
// header has that name. The server's names are the address of the connection, the host of addr, the hosts
// in the certificate, and localhost on connections over loopback or a Unix socket.
func checkHost(addr string, source *identity.Source, next http.Handler) http.Handler {
	own, _, _ := net.SplitHostPort(addr) //nolint:errcheck // a Unix socket has no host
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := hostName(r.Host)
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		known := name != "" && strings.EqualFold(name, own)
		if !known && !isLocal(name, local) && (source == nil || !source.HasHost(name)) {
			http.Error(w, fmt.Sprintf("%q is no name of this server: use its address, or a host name in its certificate", name), http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostName returns a Host header without the port.
func hostName(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(header, "["), "]")
}

// isLocal reports whether a host is the address local of this end of a connection, or any loopback
// name if local is one.
func isLocal(host string, local net.Addr) bool {
	tcp, ok := local.(*net.TCPAddr)
	loopback := !ok || tcp.IP.IsLoopback()
	if strings.EqualFold(host, "localhost") {
		return loopback
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (loopback && ip.IsLoopback() || ok && ip == tcp.AddrPort().Addr().Unmap().WithZone(""))
}

// errorLog returns the log of an HTTP server. It logs and counts failed TLS handshakes as the servers of
// gRPC do. It logs other mistakes of clients at level debug.
func errorLog(host app.Host, source *identity.Source) *log.Logger {
	return log.New(writerFunc(func(line []byte) {
		text := strings.TrimSpace(string(line))
		if refused, ok := strings.CutPrefix(text, "http: TLS handshake error from "); ok && source != nil {
			peer, reason, _ := strings.Cut(refused, ": ")
			source.Refused(peer, errors.New(reason))
			return
		}
		host.Log.Debug("http", "err", text)
	}), "", 0)
}

// writerFunc is an io.Writer of whole lines.
type writerFunc func(line []byte)

// Write implements io.Writer.
func (f writerFunc) Write(line []byte) (int, error) {
	f(line)
	return len(line), nil
}
