package server

import (
	"strings"

	"portolan.dev/services/access"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
)

// Client is the client of a request, with its identity and the proof of it.
type Client struct {
	ID identity.ID
	// Serial is the serial number of the client's certificate, in hexadecimal digits; empty: it has none.
	Serial string
	// Token is the name of the client's token; empty: a certificate says who it is.
	Token string
	// OnDenied calls a function once when the certificate or the token expires or is revoked, until stop is
	// called.
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
			// A client with another certificate has to connect again, and a stranger keeps no connection.
			req.w.Header().Set("Connection", "close")
		}
		return err
	}
	if err := access.CheckRepresented(req.client.ID); err != nil {
		return err
	}
	for name := range req.r.Header {
		if strings.HasPrefix(name, "Impersonate-") { // ignored, kubectl --as would do more than its user means to do
			return apierr.PermissionDenied("nobody acts as another one here: use a certificate or a token of that identity")
		}
	}
	req.ctx = identity.Represent(req.ctx, req.client.ID)
	if req.client.Token != "" {
		req.ctx = identity.WithToken(req.ctx, req.client.Token)
	}
	return nil
}
