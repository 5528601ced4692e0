package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/identity"
)

// drainTimeout is the time that requests have to end after the daemon was stopped, as calls of gRPC
// have.
const drainTimeout = 5 * time.Second

// HTTPAPI serves an API over HTTP, versions 1.1 and 2. Without TLS it serves version 2 only to clients that
// begin with it. With an identity it uses TLS, and asks clients for a certificate. Client returns the identity
// of the client. The handler decides about the permissions of clients with and without a certificate. Without
// an identity it requires the host's token, if there is one.
type HTTPAPI struct {
	host app.Host
	addr string
}

// NewHTTPAPI returns the API of a daemon that listens at addr.
func NewHTTPAPI(host app.Host, addr string) *HTTPAPI { return &HTTPAPI{host: host, addr: addr} }

// Secured reports whether clients have an identity.
func (a *HTTPAPI) Secured() bool { return a.host.Identity != nil }

// HasCertificate reports whether the client of a request has a certificate. It is one of a trusted
// authority, and may give no identity.
func HasCertificate(r *http.Request) bool { return r.TLS != nil && len(r.TLS.PeerCertificates) > 0 }

// Client returns the identity of the client of a request, which has a certificate. The error continues a
// sentence about the certificate.
func (a *HTTPAPI) Client(r *http.Request) (identity.ID, error) { return clientOf(a.host.Identity, r) }

// OnDenied calls denied, in a goroutine of its own, when the certificate of the client of a request
// expires or is revoked. The client must have one. The function that it returns ends the wait.
func (a *HTTPAPI) OnDenied(r *http.Request, denied func(error)) (stop func()) {
	var once sync.Once
	call := func(err error) { once.Do(func() { denied(err) }) }
	unguard := a.host.Identity.OnClientRevoked(*r.TLS, call)
	end := r.TLS.PeerCertificates[0].NotAfter
	timer := time.AfterFunc(time.Until(end), func() { call(errExpired(end)) })
	return func() {
		unguard()
		timer.Stop()
	}
}

// Serve answers requests on lis until ctx is done. Then requests have some time to end; requests without
// an end, such as watches, have to end by themselves. The handler sets the deadlines of bodies and
// answers.
func (a *HTTPAPI) Serve(ctx context.Context, lis net.Listener, handler http.Handler) error {
	source := a.host.Identity
	if a.host.Token != nil && source == nil {
		handler = requireToken(a.host.Token, handler)
	}
	srv := &http.Server{
		Handler: checkHost(a.addr, source, handler), ErrorLog: errorLog(a.host, source),
		ReadHeaderTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
	}
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(source == nil)
	stopped := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		defer close(stopped)
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		if srv.Shutdown(late) != nil {
			_ = srv.Close() // the requests that are left are cut off
		}
	})()
	var err error
	if source == nil {
		err = srv.Serve(lis)
	} else {
		srv.TLSConfig = withHTTP2(source.OptionalTLS())
		err = srv.ServeTLS(lis, "", "")
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}

// withHTTP2 adds the protocols to TLS settings that choose a certificate for each connection.
func withHTTP2(config *tls.Config) *tls.Config {
	protocols := []string{"h2", "http/1.1"}
	perConnection := config.GetConfigForClient
	config.NextProtos = protocols
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		chosen, err := perConnection(hello)
		if chosen != nil {
			chosen.NextProtos = protocols
		}
		return chosen, err
	}
	return config
}
