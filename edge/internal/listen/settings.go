package listen

import (
	"crypto/tls"
	"log/slog"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Options configure a Listener for its life. The zero value of a field selects its default.
type Options struct {
	Log *slog.Logger // default: discard
	// HandshakeTimeout is the longest time for a connection's PROXY header and TLS handshake together.
	// Default 10 s.
	HandshakeTimeout time.Duration
	// MaxUnfinished is the maximum number of connections with an unfinished PROXY header or TLS handshake.
	// Default 1024.
	MaxUnfinished int
	// Control sets options of the socket before it is bound, like Control of net.ListenConfig. Default: none.
	Control func(network, address string, conn syscall.RawConn) error
	// Refused is called for each connection that ends before it is served. Default: nothing.
	Refused func(Reason)
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.HandshakeTimeout == 0 {
		o.HandshakeTimeout = 10 * time.Second
	}
	if o.MaxUnfinished == 0 {
		o.MaxUnfinished = 1024
	}
	if o.Refused == nil {
		o.Refused = func(Reason) {}
	}
	return o
}

// Settings say how a Listener treats connections. They must not be changed after they were passed to the listener.
type Settings struct {
	// Handle serves a connection, in a goroutine of its own. It calls Close of the connection at the end, which
	// may be after Handle returns.
	Handle func(*Conn)
	// Restricted limits clients to Sources. With empty Sources no client is admitted.
	Restricted bool
	Sources    []netip.Prefix
	// ProxyFrom are the ranges of the clients that must send a PROXY header.
	ProxyFrom []netip.Prefix
	// TLS returns the configuration for the next handshake. Nil: TLS is not terminated.
	TLS func() *tls.Config
	// MaxConnections is the maximum number of connections; 0: unlimited.
	MaxConnections int
	// MaxPerClient is the maximum number of connections of one client address; 0: unlimited.
	MaxPerClient int
}

func (s *Settings) admits(client netip.Addr) bool {
	return !s.Restricted || contains(s.Sources, client)
}

func contains(ranges []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(addr) })
}

// Reason is the reason why a connection ended before it was served. Its values are label values of metrics.
type Reason string

// The reasons.
const (
	NotAdmitted Reason = "source"       // the source ranges do not admit the client
	TooMany     Reason = "connections"  // MaxConnections
	TooManyOf   Reason = "client"       // MaxPerClient
	Displaced   Reason = "unfinished"   // MaxUnfinished: newer connections took the place
	BadHeader   Reason = "proxy_header" // the PROXY header was missing, wrong or late
	BadTLS      Reason = "tls"          // the TLS handshake failed or was late
	Stopped     Reason = "stopped"      // the listener was closed during the handshake
)

// Reasons are all reasons.
var Reasons = []Reason{NotAdmitted, TooMany, TooManyOf, Displaced, BadHeader, BadTLS, Stopped}
