package identity

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
)

// Refused is the error of a connection that the other end refused because of
// our certificate.
type Refused struct {
	ID   ID
	Why  string // what the other end said, and what to do
	File string // of the certificate
}

// Error implements error.
func (e *Refused) Error() string {
	return fmt.Sprintf("the server refused our certificate %s (%s): %s", e.File, e.ID, e.Why)
}

// alerts are those of TLS that are about our certificate, and what to do.
var alerts = []struct{ alert, why string }{
	{"unknown certificate authority", "it was issued by an authority that the server does not know: both ends need certificates of one"},
	{"expired certificate", "it has expired, or is not valid yet by the server's clock: portolan certs renew makes a new one"},
	{"bad certificate", "it is not one for this use: portolan certs issue makes one that is"},
	{"certificate required", "it was not sent; the server wants one"},
	{"unsupported certificate", "it is not one for this use: portolan certs issue makes one that is"},
}

// Explain says in one line what an error of a TLS connection means and what to
// do; others it returns as they are.
func (s *Source) Explain(err error) error {
	if (errors.As(err, new(tls.RecordHeaderError))) || strings.Contains(err.Error(), "first record does not look like a TLS handshake") {
		return errors.New("the server does not speak TLS: give it tls-cert, tls-key and tls-ca, or leave ours out")
	}
	remote := (*net.OpError)(nil)
	if !errors.As(err, &remote) || remote.Op != "remote error" {
		return err
	}
	for _, known := range alerts {
		if strings.Contains(err.Error(), known.alert) {
			return &Refused{ID: s.ID(), Why: known.why, File: s.opts.Files.Cert}
		}
	}
	return err
}
