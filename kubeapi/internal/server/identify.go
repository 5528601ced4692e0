package server

import (
	"strings"

	"portolan.dev/services/access"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
)

// Client is the client of a request: its identity, and the certificate or token that proves it.
type Client struct {
	ID identity.ID
	// Serial is the serial number of the client's certificate, in hexadecimal digits. It is empty without a
	// certificate.
	Serial string
	// Token is the name of the client's token. It is empty if the client has a certificate.
	Token string
	// OnDenied calls denied once when the certificate or the token expires or is revoked, unless stop is
	// called before.
	OnDenied func(denied func(error)) (stop func())
}

// identify sets the client of the request, and refuses a client without an identity.
func (req *request) identify() (err error) {
	if req.server.cfg.Identify == nil {
		return nil
	}
	if req.client, err = req.server.cfg.Identify(req.r); err != nil {
		if apierr.ReasonOf(err) == apierr.ReasonUnauthenticated {
			req.w.Header().Set("WWW-Authenticate", `Bearer realm="portolan"`)
			// A client needs a new connection to send another certificate, and an unknown client keeps none.
			req.w.Header().Set("Connection", "close")
		}
		return err
	}
	if err := access.CheckRepresented(req.client.ID); err != nil {
		return err
	}
	for name := range req.r.Header {
		if strings.HasPrefix(name, "Impersonate-") { // if ignored, kubectl --as would have more rights than its user wants
			return apierr.PermissionDenied("nobody acts as another one here: use a certificate or a token of that identity")
		}
	}
	req.ctx = identity.Represent(req.ctx, req.client.ID)
	if req.client.Token != "" {
		req.ctx = identity.WithToken(req.ctx, req.client.Token)
	}
	return nil
}
