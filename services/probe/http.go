package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Get is the request of an HTTP check.
type Get struct {
	// URL has the scheme (http or https), the address to connect to, and the path, which may have a
	// query.
	URL string
	// Host is the value of the header Host. If it is empty, the address in the URL is sent.
	Host string
	// Header has further headers.
	Header http.Header
}

// client is shared by all checks, because it keeps no connections.
var client = &http.Client{
	Transport: &http.Transport{
		DisableKeepAlives:      true,
		MaxResponseHeaderBytes: maxHeader,
		TLSClientConfig:        unverified,
	},
	CheckRedirect: sameHostOnly,
}

// sameHostOnly follows redirects within the host. A redirect to another host is the final answer,
// and counts as a success.
func sameHostOnly(req *http.Request, via []*http.Request) error {
	if len(via) >= 10 || req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	return nil
}

// HTTP returns a check that succeeds if the request is answered with a status from 200 to 399.
func HTTP(get Get) Check {
	return Check(func(ctx context.Context) error {
		req, err := get.request(ctx)
		if err != nil {
			return err
		}
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxBody)) // used in the message only
		if res.StatusCode < 200 || res.StatusCode >= 400 {
			return fmt.Errorf("GET %s: %s: %s", req.URL.RequestURI(), res.Status, firstLine(body))
		}
		return nil
	}).shortened()
}

func (get Get) request(ctx context.Context) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, get.URL, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "*/*")
	for name, values := range get.Header {
		for _, value := range values {
			req.Header.Add(name, value)
		}
	}
	req.Host = get.Host
	return req, nil
}

func firstLine(body []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(body)), "\n")
	return line[:min(len(line), 200)]
}
