package web

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
)

// failure is a response of the edge itself. Its text says which side has failed.
type failure struct {
	status int
	text   string
}

var (
	failNoBackend  = failure{http.StatusServiceUnavailable, "edge: the service has no usable backend"}
	failConnect    = failure{http.StatusBadGateway, "backend: it accepts no connections"}
	failDialTime   = failure{http.StatusGatewayTimeout, "backend: it does not answer a connection in time"}
	failBroken     = failure{http.StatusBadGateway, "backend: it closed the connection before its response"}
	failResponse   = failure{http.StatusBadGateway, "backend: its response is invalid"}
	failVerify     = failure{http.StatusBadGateway, "backend: its certificate is not trusted"}
	failTime       = failure{http.StatusGatewayTimeout, "backend: it does not respond in time"}
	failConnectTo  = failure{http.StatusNotImplemented, "edge: the method CONNECT is not supported"}
	failClientTime = failure{http.StatusRequestTimeout, "client: its request does not arrive in time"}
)

// errNoBackend is the error of a request for which the pool has no backend.
var errNoBackend = errors.New("no usable backend")

// dialError is the error of a dial. The request has not been sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// failureOfRefusal returns the response to a request that is not valid.
func failureOfRefusal(r *refusal) failure { return failure{r.status, "client: " + r.reason} }

// failureOfError returns the response to a request with an invalid part.
func failureOfError(err error) failure {
	var r *refusal
	if errors.As(err, &r) {
		return failureOfRefusal(r)
	}
	return failure{}
}

// failureOf returns the response for an error of a request to a backend.
func failureOf(err error) failure {
	var dial *dialError
	var verify *tls.CertificateVerificationError
	timeout := isTimeout(err)
	switch {
	case errors.Is(err, errNoBackend), errors.Is(err, errBackendRemoved):
		return failNoBackend
	case errors.As(err, &dial) && timeout:
		return failDialTime
	case errors.As(err, &dial):
		return failConnect
	case errors.As(err, &verify):
		return failVerify
	case timeout:
		return failTime
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled), isNetError(err):
		return failBroken
	}
	return failResponse
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

func isNetError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

func (f failure) body() string { return f.text + "\n" }

// closes reports whether the failure ends a connection of HTTP/1, because the beginning of the next request is not
// known.
func (f failure) closes() bool { return f.status < http.StatusInternalServerError }

// appendTo appends the failure as a response.
func (f failure) appendTo(b, date []byte, head, closes bool) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(f.status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(f.status)...)
	b = append(b, "\r\nContent-Type: text/plain; charset=utf-8\r\nDate: "...)
	b = append(b, date...)
	if closes {
		b = append(b, "\r\nConnection: close"...)
	}
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(f.body())), 10)
	b = append(b, "\r\n\r\n"...)
	if head {
		return b
	}
	return append(b, f.body()...)
}

// serve answers a request of net/http.
func (f failure) serve(w http.ResponseWriter) {
	h := w.Header()
	clear(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	if f.closes() {
		h.Set("Connection", "close")
	}
	h.Set("Content-Length", strconv.Itoa(len(f.body())))
	w.WriteHeader(f.status)
	_, _ = io.WriteString(w, f.body()) // #nosec G705 -- a constant, as plain text; the client may be gone
}
