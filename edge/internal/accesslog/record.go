package accesslog

import (
	"net/netip"
	"time"
)

// Unknown is the value of a duration of a Record that was not measured because the connection or
// the request did not get that far.
const Unknown time.Duration = -1

// Record is a finished connection or request.
type Record struct {
	// Time is the time at which the connection or the request arrived.
	Time time.Time
	// Port is the service's port.
	Port uint16
	// Client is the address of the client, as the PROXY header has it if there is one.
	Client netip.AddrPort
	// Backend is the backend's address. It is the zero value if no backend was reached.
	Backend netip.AddrPort
	// RequestTime is the time from the arrival until the backend was sent the request (layer 7) or was
	// connected (layer 4).
	RequestTime time.Duration
	// BackendTime is the time from then until the backend began to answer, with its headers (layer 7) or
	// its first byte (layer 4).
	BackendTime time.Duration
	// ResponseTime is the time from then until the client began to be sent the answer.
	ResponseTime time.Duration
	// Status is the status that the client was answered, and BackendStatus the one that the backend
	// answered. They are 0 if there is none, as at layer 4.
	Status, BackendStatus int
	// Received and Sent are the bytes from and to the client. At layer 7 they are those of the bodies.
	Received, Sent int64
	// Request is the request of layer 7. It is the zero value at layer 4.
	Request Request
	// UserAgent is the request's header User-Agent.
	UserAgent string
	// TLSVersion and CipherSuite are those of the client's connection, as in crypto/tls. They are 0
	// without TLS.
	TLSVersion, CipherSuite uint16
}

// Request has the parts of a request's first line, as the client sent them.
type Request struct {
	// Method is empty at layer 4.
	Method string
	// Scheme is http or https.
	Scheme string
	// Host is the header Host, with or without a port.
	Host string
	// URI is the path with the query.
	URI string
	// Protocol is the version, such as HTTP/1.1.
	Protocol string
}
