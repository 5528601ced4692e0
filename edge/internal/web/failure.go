package web

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"

	"portolan.dev/edge/internal/ending"
)

// failure is the reason why a request did not end as it should, with the response of the edge itself. The text says which
// side has failed. Without a status there is no response.
type failure struct {
	end    ending.Ending
	status int
	text   string
}

var (
	failNoBackend   = failure{ending.NoBackend, http.StatusServiceUnavailable, "edge: the service has no usable backend"}
	failConnect     = failure{ending.NoBackend, http.StatusBadGateway, "backend: it accepts no connections"}
	failDialTime    = failure{ending.NoBackend, http.StatusGatewayTimeout, "backend: it does not answer a connection in time"}
	failBroken      = failure{ending.BackendGone, http.StatusBadGateway, "backend: it closed the connection before its response"}
	failResponse    = failure{ending.BackendInvalid, http.StatusBadGateway, "backend: its response is invalid"}
	failVerify      = failure{ending.BackendInvalid, http.StatusBadGateway, "backend: its certificate is not trusted"}
	failTime        = failure{ending.BackendIdle, http.StatusGatewayTimeout, "backend: it does not respond in time"}
	failStopped     = failure{ending.Stopped, http.StatusBadGateway, "edge: the time for the request is over, because its backend or its port is removed"}
	failLeft        = failure{ending.ClientGone, http.StatusGatewayTimeout, failTime.text} // before the backend was late
	failConnectTo   = failure{ending.ClientInvalid, http.StatusNotImplemented, "edge: the method CONNECT is not supported"}
	failClientTime  = failure{ending.ClientIdle, http.StatusRequestTimeout, "client: its request does not arrive in time"}
	failClientGone  = failure{end: ending.ClientGone}
	failIdle        = failure{end: ending.Idle}       // of a connection with another protocol
	failClientStuck = failure{end: ending.ClientIdle} // it takes no more of the response
)

// errNoBackend is the error of a request for which the pool has no backend.
var errNoBackend = errors.New("no usable backend")

// dialError is the error of a dial. The request has not been sent.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// failureOfRefusal returns the response to a request that is not valid.
func failureOfRefusal(r *refusal) failure {
	return failure{ending.ClientInvalid, r.status, "client: " + r.reason}
}

// failureOfClient returns the failure for an error of reading a client's request.
func failureOfClient(err error) failure {
	var r *refusal
	switch {
	case errors.As(err, &r):
		return failureOfRefusal(r)
	case isTimeout(err):
		return failClientTime
	}
	return failClientGone
}

// failureOfTaker returns the failure for an error of writing a response to a client.
func failureOfTaker(err error) failure {
	if isTimeout(err) {
		return failClientStuck
	}
	return failClientGone
}

// failureOf returns the failure for an error of a request to a backend.
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
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), isNetError(err):
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

// serve answers a request of net/http. Without a status it ends the connection, or the stream of HTTP/2.
func (f failure) serve(w http.ResponseWriter) {
	if f.status == 0 {
		panic(http.ErrAbortHandler)
	}
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
