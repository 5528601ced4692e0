package web_test

import (
	"crypto/tls"
	"encoding/xml"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/summerwind/h2spec"

	"portolan.dev/edge/internal/web"
)

// knownFailures are the cases of h2spec in which net/http's server does not answer as h2spec wants. It answers with
// another kind of error, or with the status 400 instead of an error. In the last case it sometimes sends the response
// to the first request, which was on its way already.
var knownFailures = []string{
	"Sends a HEADERS frame with invalid pad length",
	"Sends a HEADERS frame that contains the connection-specific header field",
	"Sends a HEADERS frame that contains the TE header field that contain any value other than 'trailers'",
	"half closed (remote): Sends a HEADERS frame",
}

// TestH2spec runs h2spec, a suite for servers of HTTP/2, against the proxy.
func TestH2spec(t *testing.T) {
	e := startEdge(t, web.Config{}, certificates(t, "h2"), startHTTP(t, describe))
	at := netip.MustParseAddrPort(e.addr)
	report := filepath.Join(t.TempDir(), "report.xml")
	h2spec.Run(&h2spec.Context{
		Host: at.Addr().String(), Port: int(at.Port()), Tls: true, TlsConfig: &tls.Config{InsecureSkipVerify: true}, Timeout: 2 * time.Second, Junit: report,
	})
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Cases []struct {
			Section string    `xml:"classname,attr"`
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
		} `xml:"testsuite>testcase"`
	}
	if err := xml.Unmarshal(text, &suites); err != nil {
		t.Fatal(err)
	}
	passed := 0
	for _, c := range suites.Cases {
		switch known := slices.Contains(knownFailures, c.Name); {
		case c.Failure == nil:
			passed++
		case !known:
			t.Errorf("%s: %s", c.Section, c.Name)
		}
	}
	if passed < 69 {
		t.Errorf("%d of %d cases passed", passed, len(suites.Cases))
	}
}
