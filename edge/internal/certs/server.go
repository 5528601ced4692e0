package certs

import (
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"portolan.dev/services/balancer"
)

// Server returns a function that returns the configuration for the next TLS handshake with a client of a service
// in a namespace. With http the server speaks HTTP/2 and HTTP/1.1, otherwise any
// protocol. The function is safe for concurrent use.
func (s *Store) Server(namespace string, settings *balancer.Settings, http bool) func() *tls.Config {
	policy, known := balancer.PolicyOf(settings.TLSPolicy)
	if !known { // Problems says so
		policy, _ = balancer.PolicyOf("")
	}
	c := &choice{store: s, namespace: namespace, refs: settings.Certificates}
	config := &tls.Config{ // #nosec G402 -- the service names the policy, and the default one begins at TLS 1.2
		MinVersion: policy.MinVersion, MaxVersion: policy.MaxVersion, CipherSuites: policy.Suites, GetCertificate: c.certificate,
	}
	if http {
		config.NextProtos = []string{"h2", "http/1.1"}
	}
	server := &server{tickets: &s.tickets, config: config, owner: fmt.Sprintf("%s %q", namespace, settings.Certificates)}
	return server.next
}

// server is the configuration of the handshakes of one port.
type server struct {
	tickets *tickets
	config  *tls.Config
	owner   string // of the tickets

	keyed   atomic.Uint64 // generation of the keys in config
	keeping sync.Mutex    // held while keys are set
}

// next returns the configuration, with the newest keys of tickets.
func (s *server) next() *tls.Config {
	if s.keyed.Load() != s.tickets.generation.Load() {
		s.keeping.Lock()
		defer s.keeping.Unlock()
		keys, generation := s.tickets.keysOf(s.owner)
		s.config.SetSessionTicketKeys(keys)
		s.keyed.Store(generation)
	}
	return s.config
}

// choice chooses among the certificates of a service.
type choice struct {
	store     *Store
	namespace string
	refs      []balancer.CertificateRef
}

// certificate returns the best certificate for a handshake. It compares, in this order: whether the client supports
// the certificate's algorithms, how well the names match (exact, wildcard, other), and whether the certificate is
// valid now. If several are equal, the first one in the service's list is used. A certificate that does not match
// is better than none, because the client decides whether it accepts it. Without any certificate it returns nil,
// and the client gets the alert unrecognized_name.
func (c *choice) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	st, now := c.store.state.Load(), time.Now()
	name := strings.ToLower(hello.ServerName)
	nameless := *hello // so that crypto/tls compares algorithms only
	nameless.ServerName = ""
	var best *certificate
	most := -1
	for _, ref := range c.refs {
		found := st.find(c.namespace, ref)
		if found == nil || found.pair == nil {
			continue
		}
		points := 2 * int(found.matches(name))
		if found.validAt(now) {
			points++
		}
		if len(c.refs) > 1 && nameless.SupportsCertificate(found.pair) == nil {
			points += 10
		}
		if points > most {
			best, most = found, points
		}
	}
	if best == nil {
		return nil, nil //nolint:nilnil // crypto/tls makes the right alert of it
	}
	return best.pair, nil
}
