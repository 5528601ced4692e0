package accesslog

import (
	"net/netip"
	"time"

	"portolan.dev/edge/internal/ending"
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
	// Client is the address of the client. If there is a PROXY header, it is the address in the header.
	Client netip.AddrPort
	// Backend is the backend's address. It is the zero value if no backend was reached.
	Backend netip.AddrPort
	// RequestTime is the time from the arrival until the request was sent to the backend (layer 7) or the
	// backend was connected (layer 4).
	RequestTime time.Duration
	// BackendTime is the time after RequestTime until the backend's header (layer 7) or first byte (layer 4)
	// arrived.
	BackendTime time.Duration
	// ResponseTime is the time after BackendTime until the end of the response (layer 7). At layer 4 it is 0,
	// because bytes are passed on as they come.
	ResponseTime time.Duration
	// Status is the status that was sent to the client, and BackendStatus the status from the backend. They
	// are 0 if there is none, as at layer 4.
	Status, BackendStatus int
	// Ending is the way in which the connection or the request has ended.
	Ending ending.Ending
	// Received and Sent are the bytes from and to the client. At layer 7 only bodies count.
	Received, Sent int64
	// Request is the request of layer 7. It is the zero value at layer 4.
	Request Request
	// UserAgent is the request's header User-Agent.
	UserAgent string
	// TLSVersion and CipherSuite describe the client's connection with the numbers of crypto/tls. They are 0
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
