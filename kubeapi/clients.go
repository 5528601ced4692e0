package kubeapi

import (
	"fmt"
	"net/http"

	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/bearer"
	"portolan.dev/services/kit/identity"

	"portolan.dev/kubeapi/internal/server"
	"portolan.dev/kubeapi/internal/tokens"
)

// clients identifies the client of each request. If the client has a certificate, the certificate counts, and
// a token in the request is ignored, as in Kubernetes.
type clients struct {
	api    *daemon.HTTPAPI
	tokens *tokens.Table
}

// identify returns the client of a request.
func (c *clients) identify(r *http.Request) (server.Client, error) {
	if daemon.HasCertificate(r) {
		id, err := c.api.Client(r)
		if err != nil {
			return server.Client{}, apierr.Unauthenticated(fmt.Sprintf("the client's certificate %v", err))
		}
		return server.Client{
			ID: id, Serial: identity.SerialOf(r.TLS.PeerCertificates[0]),
			OnDenied: func(denied func(error)) (stop func()) {
				return c.api.OnDenied(r, func(err error) { denied(fmt.Errorf("the client's certificate %w", err)) })
			},
		}, nil
	}
	text, sent := bearer.FromRequest(r)
	if !sent {
		return server.Client{}, apierr.Unauthenticated("the request has neither a client certificate nor a token (portolan kubeconfig gives kubectl either)")
	}
	token, err := c.tokens.Find(text)
	if err != nil {
		return server.Client{}, err
	}
	return server.Client{
		ID: token.ID, Token: token.Name,
		OnDenied: func(denied func(error)) (stop func()) { return c.tokens.OnDenied(token, denied) },
	}, nil
}
