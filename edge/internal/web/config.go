package web

import (
	"crypto/tls"
	"time"

	"portolan.dev/services/backends"
)

// Protocol is the protocol that backends speak.
type Protocol int

// The protocols of backends.
const (
	HTTP  Protocol = iota // HTTP/1.1
	HTTPS                 // HTTP/1.1 over TLS
	H2C                   // HTTP/2 without TLS, with prior knowledge
	GRPC                  // as H2C, but every message is passed on at once
)

// Config has the settings of a Server. A zero value selects the default.
type Config struct {
	Protocol   Protocol
	BackendTLS *tls.Config // for HTTPS; nil: certificates of backends are not verified

	// IdleTimeout ends connections without a request, and requests without progress. Default 60 s.
	IdleTimeout time.Duration
	// HeaderTimeout is the time limit for the head of a request, and for the first byte on a new connection.
	// Default 10 s.
	HeaderTimeout time.Duration
	// MaxHeaderBytes is the largest head of a request or a response. Default 64 KiB.
	MaxHeaderBytes int
	// Dialer dials backends. Its default for MaxAttempts is 3 here.
	Dialer backends.Dialer

	// Record is called after each request; nil: requests are not recorded. It must not block.
	Record func(*Record)
	// Details fills the fields of records that only the access log needs. It copies texts of requests.
	Details bool
	// ReferenceOnly turns the fast path off, so that tests can compare the paths.
	ReferenceOnly bool
}

func (c Config) withDefaults() Config {
	setDefault(&c.IdleTimeout, time.Minute)
	setDefault(&c.HeaderTimeout, 10*time.Second)
	setDefault(&c.MaxHeaderBytes, 64<<10)
	setDefault(&c.Dialer.MaxAttempts, 3)
	return c
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
