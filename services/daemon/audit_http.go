package daemon

import (
	"net"
	"net/http"
	"strings"
	"time"

	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/identity"
)

// recordHTTP records requests that change something, such as the log level, and refused ones.
// source is the certificate of the listener, or nil if it has none.
func recordHTTP(log *audit.Log, source *identity.Source, next http.Handler) http.Handler {
	if log == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e := audit.Entry{Time: time.Now(), Peer: r.RemoteAddr, Method: r.Method + " " + r.URL.Path}
		if _, tcp := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); !tcp {
			e.Peer = "unix socket" // its clients have no address
		}
		if source != nil {
			e.Serial = identity.SerialOf(r.TLS.PeerCertificates[0])
			if id, err := source.Client(*r.TLS); err == nil {
				e.Identity = id.Path()
			}
		}
		answer := &recorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r)
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		if reads && !answer.refused() && !log.Reads() {
			return
		}
		e.Code, e.Reason, e.Seconds = audit.CodeOfHTTP(answer.status), answer.reason, time.Since(e.Time).Seconds()
		log.Record(&e)
	})
}

// recorder remembers the outcome of a request.
type recorder struct {
	http.ResponseWriter
	status int
	reason string // of a refusal
}

// Unwrap returns the writer of the server, for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. The text of a refusal is this package's own. Other errors
// may quote the body of the request.
func (r *recorder) Write(text []byte) (int, error) {
	if r.refused() && r.reason == "" {
		r.reason = strings.TrimSpace(string(text))
	}
	return r.ResponseWriter.Write(text)
}

// refused reports whether the client may not make the request.
func (r *recorder) refused() bool {
	return r.status == http.StatusUnauthorized || r.status == http.StatusForbidden || r.status == http.StatusMisdirectedRequest
}
