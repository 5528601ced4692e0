package accesslog

import (
	"crypto/tls"
	"encoding/json"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// arrival is the time of the records of tests.
var arrival = time.Date(2026, 11, 26, 23, 39, 43, 945958000, time.UTC)

func connection() Record {
	return Record{
		Time: arrival, Port: 443, Client: netip.MustParseAddrPort("192.168.131.39:2817"), Backend: netip.MustParseAddrPort("10.0.0.1:80"),
		RequestTime: 1069 * time.Microsecond, BackendTime: 28 * time.Microsecond, ResponseTime: 41 * time.Microsecond, Received: 82, Sent: 305,
	}
}

func request() Record {
	r := connection()
	r.Status, r.BackendStatus, r.Received, r.Sent = 200, 200, 0, 29
	r.Request = Request{Method: "GET", Scheme: "https", Host: "www.example.com", URI: "/a?b=c", Protocol: "HTTP/1.1"}
	r.UserAgent = "curl/7.38.0"
	return r
}

// with returns a record with a change.
func with(r Record, change func(*Record)) *Record {
	change(&r)
	return &r
}

func TestELB(t *testing.T) {
	const begin = "2026-11-26T23:39:43.945958Z shop/web "
	for name, tc := range map[string]struct {
		record *Record
		want   string
	}{
		"TCP": {with(connection(), func(*Record) {}),
			`192.168.131.39:2817 10.0.0.1:80 0.001069 0.000028 0.000041 - - 82 305 "- - - " "-" - -`},
		"SSL": {with(connection(), func(r *Record) {
			r.TLSVersion, r.CipherSuite = tls.VersionTLS12, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
		}),
			`192.168.131.39:2817 10.0.0.1:80 0.001069 0.000028 0.000041 - - 82 305 "- - - " "-" ECDHE-ECDSA-AES128-GCM-SHA256 TLSv1.2`},
		"HTTPS": {with(request(), func(r *Record) { r.TLSVersion, r.CipherSuite = tls.VersionTLS13, tls.TLS_AES_128_GCM_SHA256 }),
			`192.168.131.39:2817 10.0.0.1:80 0.001069 0.000028 0.000041 200 200 0 29 "GET https://www.example.com:443/a?b=c HTTP/1.1" "curl/7.38.0" TLS_AES_128_GCM_SHA256 TLSv1.3`},
		"the client's own port": {with(request(), func(r *Record) { r.Request.Host = "[::1]:8443" }),
			`192.168.131.39:2817 10.0.0.1:80 0.001069 0.000028 0.000041 200 200 0 29 "GET https://[::1]:8443/a?b=c HTTP/1.1" "curl/7.38.0" - -`},
		"no backend": {with(request(), func(r *Record) {
			r.Backend, r.RequestTime, r.BackendTime, r.ResponseTime = netip.AddrPort{}, Unknown, Unknown, Unknown
			r.Status, r.BackendStatus, r.Client = 503, 0, netip.MustParseAddrPort("[2001:db8::1]:9")
		}),
			`[2001:db8::1]:9 - -1 -1 -1 503 - 0 29 "GET https://www.example.com:443/a?b=c HTTP/1.1" "curl/7.38.0" - -`},
		"mapped addresses": {with(connection(), func(r *Record) { r.Client = netip.MustParseAddrPort("[::ffff:1.2.3.4]:5") }),
			`1.2.3.4:5 10.0.0.1:80 0.001069 0.000028 0.000041 - - 82 305 "- - - " "-" - -`},
		"long": {with(connection(), func(r *Record) { r.RequestTime = 2*time.Hour + 5*time.Microsecond }),
			`192.168.131.39:2817 10.0.0.1:80 7200.000005 0.000028 0.000041 - - 82 305 "- - - " "-" - -`},
		"injection": {with(request(), func(r *Record) {
			r.UserAgent, r.Request.URI = "a\" 1\r\n2 \\ \x00\x1b[2J\xff", "/x y\"\n"
		}),
			`192.168.131.39:2817 10.0.0.1:80 0.001069 0.000028 0.000041 200 200 0 29 "GET https://www.example.com:443/x\x20y\x22\x0a HTTP/1.1" "a\x22 1\x0d\x0a2 \x5c \x00\x1b[2J\xff" - -`},
	} {
		if got, want := string(appendELB(nil, "shop/web", tc.record)), begin+tc.want+"\n"; got != want {
			t.Errorf("%s:\n got %s want %s", name, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	frame := newJSONFrame(&Target{Namespace: "shop", Service: "web", Tags: map[string]string{"team": "a\"b", "env": "prod"}})
	const begin = `{"time":"2026-11-26T23:39:43.945958Z","balancer":"shop/web","namespace":"shop","service":"web","port":443,"client":"192.168.131.39:2817",`
	const end = `"tags":{"env":"prod","team":"a\"b"}}`
	for name, tc := range map[string]struct {
		record *Record
		want   string
	}{
		"connection": {with(connection(), func(r *Record) { r.BackendTime, r.ResponseTime = Unknown, Unknown }),
			`"backend":"10.0.0.1:80","request_seconds":0.001069,"result":"complete","received_bytes":82,"sent_bytes":305,`},
		"request": {with(request(), func(r *Record) {
			r.TLSVersion, r.CipherSuite, r.UserAgent = tls.VersionTLS12, tls.TLS_RSA_WITH_AES_256_CBC_SHA, "é\n\U0001f600\xff"
		}),
			`"backend":"10.0.0.1:80","request_seconds":0.001069,"backend_seconds":0.000028,"response_seconds":0.000041,"status":200,"backend_status":200,"result":"complete","received_bytes":0,"sent_bytes":29,` +
				`"method":"GET","scheme":"https","host":"www.example.com","uri":"/a?b=c","protocol":"HTTP/1.1","user_agent":"\u00e9\u000a\ud83d\ude00\ufffd","tls_cipher":"AES256-SHA","tls_protocol":"TLSv1.2",`},
		"no backend": {with(connection(), func(r *Record) {
			r.Backend, r.RequestTime, r.BackendTime, r.ResponseTime = netip.AddrPort{}, Unknown, Unknown, Unknown
		}),
			`"result":"complete","received_bytes":82,"sent_bytes":305,`},
	} {
		if got, want := string(frame.append(nil, tc.record)), begin+tc.want+end+"\n"; got != want {
			t.Errorf("%s:\n got %s want %s", name, got, want)
		}
	}
}

func TestOpenSSLNames(t *testing.T) {
	for suite, want := range map[uint16]string{
		tls.TLS_RSA_WITH_RC4_128_SHA:                      "RC4-SHA",
		tls.TLS_RSA_WITH_3DES_EDE_CBC_SHA:                 "DES-CBC3-SHA",
		tls.TLS_RSA_WITH_AES_128_CBC_SHA256:               "AES128-SHA256",
		tls.TLS_RSA_WITH_AES_256_GCM_SHA384:               "AES256-GCM-SHA384",
		tls.TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA:           "ECDHE-RSA-DES-CBC3-SHA",
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256:       "ECDHE-ECDSA-AES128-SHA256",
		tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA:            "ECDHE-RSA-AES256-SHA",
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256:   "ECDHE-RSA-CHACHA20-POLY1305",
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384:       "ECDHE-ECDSA-AES256-GCM-SHA384",
		tls.TLS_CHACHA20_POLY1305_SHA256:                  "TLS_CHACHA20_POLY1305_SHA256",
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256: "ECDHE-ECDSA-CHACHA20-POLY1305",
		0: "-",
	} {
		if got := cipherName(suite); got != want {
			t.Errorf("suite %#x is called %s, want %s", suite, got, want)
		}
	}
}

// elbLine finds the fields of a line as programs that read the cloud's logs do.
var elbLine = regexp.MustCompile(`^([^ ]*) ([^ ]*) ([^ ]*):([0-9]*) ([^ ]*) ([-.0-9]*) ([-.0-9]*) ([-.0-9]*) (-|[0-9]*) (-|[0-9]*) ([0-9]*) ([0-9]*) "([^ ]*) ([^ ]*) (- |[^ ]*)" "([^"]*)" ([^ ]+) ([^ ]+)\n$`)

// FuzzText checks that a line has its fields and one line end, and is printable ASCII, for any text of a client.
func FuzzText(f *testing.F) {
	f.Add("GET", "www.example.com:80", "/?q=\"x\"", "curl\\\n")
	f.Add("", "", "", "\x00\xff é")
	f.Add("G T", "[::1", strings.Repeat("x", 2*maxText), strings.Repeat("é", maxText))
	f.Fuzz(func(t *testing.T, method, host, uri, agent string) {
		r := request()
		r.Request.Method, r.Request.Host, r.Request.URI, r.UserAgent = method, host, uri, agent
		line := appendELB(nil, "shop/web", &r)
		wantPrintable(t, line)
		if !elbLine.Match(line) {
			t.Errorf("the line does not have its fields: %q", line)
		}
		frame := newJSONFrame(&Target{Namespace: "shop", Service: "web", Tags: map[string]string{agent: host}})
		line = frame.append(nil, &r)
		wantPrintable(t, line)
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if got, _ := fields["uri"].(string); len(uri) <= maxText && utf8.ValidString(uri) && got != uri {
			t.Errorf("the URI %q became %q", uri, got)
		}
	})
}

func wantPrintable(t *testing.T, line []byte) {
	t.Helper()
	text, ended := strings.CutSuffix(string(line), "\n")
	if bad := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }); bad >= 0 || !ended {
		t.Errorf("the line is not one line of printable ASCII, at byte %d: %q", bad, line)
	}
}

func TestALineNeedsNoMemory(t *testing.T) {
	for _, format := range []Format{ELB, JSON} {
		target := Target{Namespace: "shop", Service: "web", Format: format}
		log := &Log{target: target, json: newJSONFrame(&target), name: target.balancer()}
		r, buffer := request(), make([]byte, 0, 4096)
		if n := testing.AllocsPerRun(100, func() { buffer = log.appendLine(buffer[:0], &r) }); n != 0 {
			t.Errorf("format %d: %v allocations", format, n)
		}
	}
}
