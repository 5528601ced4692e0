package identity

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
)

// Refused is the error of a connection that the server closed because of our certificate.
type Refused struct {
	ID   ID
	Why  string // the server's reason and the remedy
	File string // of the certificate
}

// Error implements error.
func (e *Refused) Error() string {
	return fmt.Sprintf("the server refused our certificate %s (%s): %s", e.File, e.ID, e.Why)
}

// alerts lists the TLS alerts about the client's certificate with their meaning and remedy. Explain
// puts the path of the identity in the place of ROLE/NAME.
var alerts = []struct{ alert, why string }{
	{"unknown certificate authority", "it was issued by an authority that the server does not know: both ends need certificates of one"},
	{"expired certificate", "it has expired, or is not valid yet by the server's clock: portolan certs renew makes a new one"},
	{"bad certificate", "it was revoked, or is not one for this use: portolan certs issue ROLE/NAME --force makes a new one"},
	{"certificate required", "it was not sent; the server wants one"},
	{"unsupported certificate", "it is not one for this use: portolan certs issue makes one that is"},
}

// Explain returns an error that explains an error of a TLS connection, with the remedy, in one
// line. It returns other errors unchanged.
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
			return &Refused{ID: s.ID(), Why: strings.ReplaceAll(known.why, "ROLE/NAME", s.ID().Path()), File: s.opts.Files.Cert}
		}
	}
	return err
}
