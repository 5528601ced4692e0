package web

import (
	"net/http/httputil"

	"portolan.dev/services/backends"
)

// settings are one version of the settings of a server, with the connections to backends that were made under them. A
// request has one version for all of its life; the next request of its connection has the newest one.
type settings struct {
	server    *Server
	config    Config
	pool      *backends.Pool
	upstreams *upstreams
	proxy     *httputil.ReverseProxy // of the reference
}

func newSettings(s *Server, c Config) *settings {
	set := &settings{server: s, config: c.withDefaults(), pool: s.pool}
	set.upstreams = newUpstreams(set.config)
	set.proxy = set.newReverseProxy()
	return set
}

// keepsUpstreams reports whether connections to backends that were made under these settings serve others, too.
func (s *settings) keepsUpstreams(next *settings) bool {
	a, b := &s.config, &next.config
	return a.Protocol == b.Protocol && a.BackendTLS == b.BackendTLS && a.IdleTimeout == b.IdleTimeout
}

// takesReference reports whether all requests are served by the reference.
func (s *settings) takesReference() bool { return s.config.ReferenceOnly || s.config.Protocol != HTTP }
