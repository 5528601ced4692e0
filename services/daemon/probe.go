package daemon

import (
	"context"
	"io"
	"net/http"

	"portolan.dev/services/kit/identity"
)

// prober sends requests to a daemon's HTTP address, from the same machine.
type prober struct {
	client *http.Client
	base   string // scheme and address
}

// newProber returns the prober of a daemon that listens for HTTP on addr. source is the certificate
// that the listener uses, or nil. The prober shows the same certificate.
func newProber(addr string, source *identity.Source) (*prober, error) {
	target, err := dialAddress(addr)
	if err != nil {
		return nil, err
	}
	// Requests are seconds apart, and an idle connection would count as one of the server's.
	transport := &http.Transport{DisableKeepAlives: true}
	if source == nil {
		return &prober{&http.Client{Transport: transport}, "http://" + target}, nil
	}
	transport.TLSClientConfig = source.TLS(source.ID().Role)
	return &prober{&http.Client{Transport: transport}, "https://" + target}, nil
}

// maxAnswer is the size up to which a response is read, in bytes.
const maxAnswer = 1 << 16

// get returns the status and the body of a response.
func (p *prober) get(ctx context.Context, path string) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, string(body), err
}
