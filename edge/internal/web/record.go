package web

import (
	"net/netip"
	"time"

	"portolan.dev/edge/internal/ending"
)

// Record describes one request, for the access log.
type Record struct {
	Time   time.Time      // the time at which the head of the request was complete
	Client netip.AddrPort // the client
	// Backend is the address of the chosen backend. It is invalid if there was none.
	Backend netip.AddrPort

	// RequestTime is the time until the request was sent to the backend: the choice of a backend and
	// the dial. BackendTime is the time after that until the head of the response, and ResponseTime the time
	// from the head of the response to its end. A time is -1 if the request did not get that far.
	RequestTime, BackendTime, ResponseTime time.Duration

	Ending        ending.Ending
	Status        int   // sent to the client; 0: none
	BackendStatus int   // received from the backend; 0: none
	Received      int64 // bytes of the request's body
	Sent          int64 // bytes of the response's body

	// The fields below are set only with Config.Details.

	Method, Proto string
	Scheme, Host  string // Host as in the request, with or without a port
	URI           string // path and query, as in the request
	UserAgent     string
	TLSVersion    uint16 // 0: no TLS
	TLSCipher     uint16
}

func (r *Record) setConnection(i *info) {
	r.Client, r.Scheme = i.client, i.scheme()
	if i.tls != nil {
		r.TLSVersion, r.TLSCipher = i.tls.Version, i.tls.CipherSuite
	}
}
