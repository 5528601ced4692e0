package stream

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"

	"portolan.dev/edge/internal/ending"
	"portolan.dev/edge/internal/listen"
	"portolan.dev/services/backends"
)

// Header is the version of the PROXY header for backends.
type Header byte

// The versions.
const (
	NoHeader Header = 0
	V1       Header = 1
	V2       Header = 2
)

// handshakeTimeout is the longest time for the TLS handshake with a backend.
const handshakeTimeout = 5 * time.Second

// Options configure a Server for its life. The zero value of a field selects its default.
type Options struct {
	Log    *slog.Logger // default: discard
	Pool   *backends.Pool
	Dialer backends.Dialer
	// Finished is called with each connection that has ended. Default: nothing.
	Finished func(*Record)
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Finished == nil {
		o.Finished = func(*Record) {}
	}
	// Connections have idle timeouts, which find dead peers without the system calls that set keepalives.
	o.Dialer.KeepAlive = -1
	return o
}

// Settings say how a Server serves connections. They must not be changed after they were passed to the server.
type Settings struct {
	// Header is the version of the PROXY header that is sent to backends.
	Header Header
	// BackendTLS is the configuration of TLS with backends. Nil: no TLS.
	BackendTLS *tls.Config
	// IdleTimeout ends connections without bytes in either direction; 0: never. A change also applies to
	// established connections.
	IdleTimeout time.Duration
}

// Record is a connection that has ended.
type Record struct {
	Conn    *listen.Conn
	Backend netip.AddrPort // the zero value if no backend was reached
	Ending  ending.Ending
	// Connected is the time at which the connection to the backend was established, FirstByte the time at
	// which the backend's first byte arrived, and Ended the time at which the connection ended. Connected is
	// zero if no backend was reached, FirstByte is zero if the backend sent nothing.
	Connected, FirstByte, Ended time.Time
	// Received and Sent are the bytes from and to the client.
	Received, Sent int64
}
