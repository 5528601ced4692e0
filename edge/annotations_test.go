package edge_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/edge"
)

const aws = "service.beta.kubernetes.io/aws-load-balancer-"

// TestAnnotationProxyProtocol checks that HAProxy and nginx can read the headers.
func TestAnnotationProxyProtocol(t *testing.T) {
	w := newWorld(t)
	w.start()
	for name, start := range map[string]func(*testing.T) string{"haproxy": startHAProxy, "nginx": startNginx} {
		consumer := start(t)
		for version, a := range map[string]annotations{
			"v1": {"proxy-protocol": "v1"}, "v2": {"proxy-protocol": "v2"}, "aws": {aws + "proxy-protocol": "*"},
		} {
			frontend := w.service(name+"-"+version, a, consumer)
			transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
				return d.DialContext(ctx, network, addr)
			}}
			status, body := fetch(t, &http.Client{Transport: transport, Timeout: answerTimeout}, "http://"+frontend.String())
			if want := "127.0.0.9 " + frontend.String(); status != http.StatusOK || body != want {
				t.Errorf("%s, %s: status %d, %q; want %q", name, version, status, body, want)
			}
		}
	}
}

// TestAnnotationProxyProtocolFrom checks that the headers of trusted clients are believed, for backends and source
// ranges, and that trusted clients must send one. The headers of other clients are passed on as data.
func TestAnnotationProxyProtocolFrom(t *testing.T) {
	w := newWorld(t)
	w.start()
	echo := backend(t, greet("echo"))
	trusted := w.service("trusted", annotations{"proxy-protocol-from": "127.0.0.0/8", "proxy-protocol": "v1"}, backend(t, func(c net.Conn) { _, _ = io.Copy(c, c) }))
	c := dial(t, trusted)
	if line, err := c.ask("PROXY TCP4 192.0.2.202 10.0.42.7 12345 7\r"); err != nil || line != "PROXY TCP4 192.0.2.202 10.0.42.7 12345 7" {
		t.Errorf("the backend got %q, %v", line, err)
	}
	c = dial(t, trusted)
	if line, err := c.ask("GET / HTTP/1.1\r"); err == nil {
		t.Errorf("a trusted client without a header is answered %q", line)
	}
	untrusted := w.service("untrusted", annotations{"proxy-protocol-from": "192.0.2.0/24"}, echo)
	c = dial(t, untrusted)
	if line, err := c.line(); err != nil || line != "echo" {
		t.Fatalf("%q, %v", line, err)
	}
	if line, err := c.ask("PROXY TCP4 192.0.2.202 10.0.42.7 12345 7\r"); err != nil || !strings.HasPrefix(line, "PROXY") {
		t.Errorf("the header of an untrusted client became %q, %v", line, err)
	}
}

// secretOf returns the Secret of a certificate.
func secretOf(name string, p pair) *corev1.Secret {
	return &corev1.Secret{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Uid: name}, Type: spec.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": p.cert, "tls.key": p.key},
	}
}

// served returns the name in the certificate that a port presents to a client that asks for a name.
func served(frontend netip.AddrPort, name string, pool *x509.CertPool) (string, error) {
	conn, err := tls.Dial("tcp", frontend.String(), &tls.Config{ServerName: name, RootCAs: pool})
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func wantServed(t *testing.T, frontend netip.AddrPort, name string, pool *x509.CertPool, want string) {
	t.Helper()
	kittest.Eventually(t, "the certificate of "+want, func() error {
		got, err := served(frontend, name, pool)
		if err == nil && got != want {
			err = fmt.Errorf("the certificate is that of %s", got)
		}
		return err
	})
}

// TestAnnotationTLSCert serves certificates of Secrets and files by the name that the client asks for,
// and replaces one while connections are open.
func TestAnnotationTLSCert(t *testing.T) {
	w, ca, dir := newWorld(t), newAuthority(t), t.TempDir()
	w.cfg.CertsDir = dir
	ca.issue("files.example.com").write(t, dir, "files")
	w.log.Put(secretOf("shop", ca.issue("shop.example.com")), secretOf("wild", ca.issue("*.example.org")))
	w.start()
	frontend := w.service("web", annotations{"tls-cert": "secret/shop, wild, file/files"}, backend(t, greet("web")))
	for name, want := range map[string]string{
		"shop.example.com": "shop.example.com", "a.example.org": "*.example.org", "files.example.com": "files.example.com",
	} {
		wantServed(t, frontend, name, ca.pool(), want)
	}
	alias := w.service("aws", annotations{aws + "ssl-cert": "arn:aws:acm:us-east-1:123456789012:certificate/shop"}, backend(t, greet("aws")))
	wantServed(t, alias, "shop.example.com", ca.pool(), "shop.example.com")

	conn, err := tls.Dial("tcp", frontend.String(), &tls.Config{ServerName: "shop.example.com", RootCAs: ca.pool()})
	if err != nil {
		t.Fatal(err)
	}
	open := connection(t, conn)
	w.log.Put(secretOf("shop", ca.issue("new", "shop.example.com")))
	wantServed(t, frontend, "shop.example.com", ca.pool(), "new")
	ca.issue("newer", "files.example.com").write(t, dir, "files")
	wantServed(t, frontend, "files.example.com", ca.pool(), "newer")
	if line, err := open.line(); err != nil || line != "web" {
		t.Errorf("the connection with the former certificate: %q, %v", line, err)
	}
	if line, err := open.ask("still there"); err != nil || line != "still there" {
		t.Errorf("the connection with the former certificate: %q, %v", line, err)
	}

	if got := w.metric("portolan_edge_certificate_expiry_timestamp_seconds"); got < float64(time.Now().Unix()) || got > float64(time.Now().Add(time.Hour).Unix()) {
		t.Errorf("the first certificate expires at %.0f", got)
	}

	missing := w.service("missing", annotations{"tls-cert": "secret/nobody"}, backend(t, greet("missing")))
	w.wantEvent("missing", "LoadBalancerSettings", "nobody")
	if _, err := served(missing, "x", ca.pool()); err == nil {
		t.Error("a handshake without a certificate succeeded")
	}
	w.log.Put(secretOf("nobody", ca.issue("nobody.example.com")))
	wantServed(t, missing, "nobody.example.com", ca.pool(), "nobody.example.com")
	kittest.Eventually(t, "no problems any more", func() error {
		p, err := w.port(missing)
		if err == nil && len(p.GetProblems()) > 0 {
			err = fmt.Errorf("%q", p.GetProblems())
		}
		return err
	})
}

// TestAnnotationTLSPorts serves one port with TLS and another one without.
func TestAnnotationTLSPorts(t *testing.T) {
	w, ca := newWorld(t), newAuthority(t)
	w.log.Put(secretOf("shop", ca.issue("shop.example.com")))
	w.start()
	for _, a := range []annotations{{"tls-cert": "shop", "tls-ports": "secure"}, {"tls-cert": "secure=shop"}, {aws + "ssl-cert": "shop", aws + "ssl-ports": "%d"}} {
		plain, secure := freePort(t, balancerIP), freePort(t, balancerIP)
		if _, byNumber := a[aws+"ssl-ports"]; byNumber {
			a[aws+"ssl-ports"] = fmt.Sprint(secure.Port())
		}
		svc := w.object("web", plain, a)
		svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{Name: "secure", Port: int32(secure.Port()), Protocol: corev1.Protocol_PROTOCOL_TCP})
		endpoints := slice("web", backend(t, greet("web")))
		name, second := "secure", *endpoints.Ports[0].Port
		endpoints.Ports = append(endpoints.Ports, &corev1.EndpointPort{Name: &name, Port: &second, Protocol: corev1.Protocol_PROTOCOL_TCP})
		w.log.Put(svc, endpoints)
		w.waitFor(plain, 1)
		w.waitFor(secure, 1)
		if got := backendName(t, plain); got != "web" {
			t.Errorf("%v: the plain port answers %q", a, got)
		}
		wantServed(t, secure, "shop.example.com", ca.pool(), "shop.example.com")
	}
}

// TestACertificateForEachPort serves other certificates at other ports.
func TestACertificateForEachPort(t *testing.T) {
	w, ca := newWorld(t), newAuthority(t)
	w.log.Put(secretOf("shop", ca.issue("shop.example.com")), secretOf("admin", ca.issue("admin.example.com")))
	w.start()
	shop, admin := freePort(t, balancerIP), freePort(t, balancerIP)
	svc := w.object("web", shop, annotations{"tls-cert": fmt.Sprintf("main=secret/shop, %d=secret/admin", admin.Port())})
	svc.Spec.Ports = append(svc.Spec.Ports, &corev1.ServicePort{Name: "admin", Port: int32(admin.Port()), Protocol: corev1.Protocol_PROTOCOL_TCP})
	w.log.Put(svc)
	// Both names are asked for at both ports: a port has no certificate of the other one.
	for frontend, want := range map[netip.AddrPort]string{shop: "shop.example.com", admin: "admin.example.com"} {
		w.waitFor(frontend, 0)
		wantServed(t, frontend, want, ca.pool(), want)
		other := map[netip.AddrPort]string{shop: "admin.example.com", admin: "shop.example.com"}[frontend]
		if got, err := served(frontend, other, ca.pool()); err == nil {
			t.Errorf("%s serves %s, which is of the other port", frontend, got)
		}
	}
}

// TestAnnotationTLSPolicy checks with OpenSSL's client which versions of TLS a port accepts.
func TestAnnotationTLSPolicy(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not here; it comes with Debian's openssl")
	}
	w, ca := newWorld(t), newAuthority(t)
	w.log.Put(secretOf("shop", ca.issue("shop.example.com")))
	w.start()
	for _, tc := range []struct {
		a           annotations
		tls12, tls3 bool
	}{
		{annotations{"tls-policy": "ELBSecurityPolicy-TLS13-1-3-2021-06"}, false, true},
		{annotations{aws + "ssl-negotiation-policy": "ELBSecurityPolicy-TLS-1-2-2017-01"}, true, false},
		{annotations{}, true, true},
	} {
		tc.a["tls-cert"] = "shop"
		frontend := w.service("web", tc.a, backend(t, greet("web")))
		wantServedAny(t, frontend)
		for flag, want := range map[string]bool{"-tls1_2": tc.tls12, "-tls1_3": tc.tls3} {
			cmd := exec.Command("openssl", "s_client", "-connect", frontend.String(), flag)
			out, err := cmd.CombinedOutput()
			if got := err == nil && !bytes.Contains(out, []byte("no peer certificate available")); got != want {
				t.Errorf("%v: openssl s_client %s: %v, want %t\n%s", tc.a, flag, err, want, out)
			}
		}
	}
}

// wantServedAny waits until a handshake succeeds.
func wantServedAny(t *testing.T, frontend netip.AddrPort) {
	t.Helper()
	kittest.Eventually(t, "a handshake", func() error {
		conn, err := tls.Dial("tcp", frontend.String(), &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// TestAnnotationBackendProtocol tests a backend of each protocol.
func TestAnnotationBackendProtocol(t *testing.T) {
	w, ca := newWorld(t), newAuthority(t)
	w.log.Put(secretOf("shop", ca.issue("shop.example.com")))
	w.start()
	cert := ca.issue("backend").tls(t)
	encrypted := func(s *http.Server) {
		s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
	}
	cleartext2 := func(s *http.Server) {
		s.Protocols = new(http.Protocols)
		s.Protocols.SetUnencryptedHTTP2(true)
	}
	for name, tc := range map[string]struct {
		server *webServer
		want   string // version that the backend speaks
		reads  bool   // the edge reads requests
	}{
		"tcp": {startWeb(t, "tcp"), "HTTP/1.1", false}, "ssl": {startWeb(t, "ssl", encrypted), "HTTP/1.1", false},
		"http": {startWeb(t, "http"), "HTTP/1.1", true}, "https": {startWeb(t, "https", encrypted), "HTTP/1.1", true},
		"h2c": {startWeb(t, "h2c", cleartext2), "HTTP/2.0", true}, "grpc": {startWeb(t, "grpc", cleartext2), "HTTP/2.0", true},
	} {
		all := []annotations{{"backend-protocol": name}}
		if name != "h2c" && name != "grpc" {
			all = append(all, annotations{aws + "backend-protocol": name})
		}
		for i, a := range all {
			frontend := w.service(fmt.Sprintf("%s-%d", name, i), a, tc.server.addr)
			status, body := fetch(t, browser(nil), "http://"+frontend.String())
			if status != http.StatusOK || body != name+" "+tc.want {
				t.Errorf("%v: status %d, %q", a, status, body)
				continue
			}
			if got := tc.server.header("X-Forwarded-For"); (got == "127.0.0.1") != tc.reads || got != "" && !tc.reads {
				t.Errorf("%v: X-Forwarded-For is %q", a, got)
			}
			if got := tc.server.header("X-Forwarded-Port"); tc.reads && got != fmt.Sprint(frontend.Port()) {
				t.Errorf("%v: X-Forwarded-Port is %q", a, got)
			}
		}
	}
	secure := startWeb(t, "secure")
	frontend := w.service("secure", annotations{"backend-protocol": "http", "tls-cert": "shop"}, secure.addr)
	https := &tls.Config{ServerName: "shop.example.com", RootCAs: ca.pool()}
	kittest.Eventually(t, "a page over HTTPS", func() error {
		if status, body := fetch(t, browser(https), "https://"+frontend.String()); status != http.StatusOK || body != "secure HTTP/1.1" {
			return fmt.Errorf("status %d, %q", status, body)
		}
		return nil
	})
	if got := secure.header("X-Forwarded-Proto"); got != "https" {
		t.Errorf("X-Forwarded-Proto is %q", got)
	}
	second := &http.Client{Timeout: answerTimeout, Transport: &http2.Transport{TLSClientConfig: https}}
	res, err := second.Get("https://" + frontend.String())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != http.StatusOK {
		t.Errorf("over HTTP/2: %s, status %d", res.Proto, res.StatusCode)
	}
}

// TestAnnotationBackendCA checks that a backend with a certificate of another authority gets nothing.
func TestAnnotationBackendCA(t *testing.T) {
	w, ca, other := newWorld(t), newAuthority(t), newAuthority(t)
	authoritySecret := secretOf("authority", ca.issue("unused"))
	authoritySecret.Data["ca.crt"] = ca.pem()
	w.log.Put(authoritySecret)
	w.start()
	for name, tc := range map[string]struct {
		from *authority
		want bool
	}{"ours": {ca, true}, "theirs": {other, false}} {
		cert := tc.from.issue("backend.example.com").tls(t)
		server := startWeb(t, name, func(s *http.Server) { s.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}} })
		for _, protocol := range []string{"ssl", "https"} {
			frontend := w.service(name+"-"+protocol, annotations{
				"backend-protocol": protocol, "backend-ca": "secret/authority", "backend-server-name": "backend.example.com", "check": "false",
			}, server.addr)
			status, body := fetch(t, browser(nil), "http://"+frontend.String())
			if (status == http.StatusOK) != tc.want {
				t.Errorf("%s, %s: status %d, %q", name, protocol, status, body)
			}
		}
	}
}

// TestAnnotationBackendServerName checks the name that the edge sends to backends and compares with certificates.
func TestAnnotationBackendServerName(t *testing.T) {
	w, ca := newWorld(t), newAuthority(t)
	authoritySecret := secretOf("authority", ca.issue("unused"))
	authoritySecret.Data["ca.crt"] = ca.pem()
	w.log.Put(authoritySecret)
	w.start()
	asked := make(chan string, 100)
	cert := ca.issue("right.example.com").tls(t)
	server := startWeb(t, "web", func(s *http.Server) {
		s.TLSConfig = &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			asked <- hello.ServerName
			return &cert, nil
		}}
	})
	for name, want := range map[string]bool{"right.example.com": true, "wrong.example.com": false} {
		frontend := w.service(strings.Split(name, ".")[0], annotations{
			"backend-protocol": "https", "backend-ca": "authority", "backend-server-name": name, "check": "false",
		}, server.addr)
		if status, body := fetch(t, browser(nil), "http://"+frontend.String()); (status == http.StatusOK) != want {
			t.Errorf("%s: status %d, %q", name, status, body)
		}
		if got := <-asked; got != name {
			t.Errorf("the edge asked for %q, want %q", got, name)
		}
	}
}

// lines returns the lines of all files below a folder that match, by the path of their file.
func lines(t *testing.T, dir, end string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, end) {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			relative, _ := filepath.Rel(dir, path)
			all[relative] = append(all[relative], strings.TrimSpace(line))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// logged runs an edge with a service that has these annotations, makes a connection, stops the edge,
// and returns its access logs.
func logged(t *testing.T, a annotations) map[string][]string {
	t.Helper()
	w, dir := newWorld(t), t.TempDir()
	w.cfg.AccessLogDir = dir
	w.start()
	if a["backend-protocol"] == "http" {
		frontend := w.service("web", a, startWeb(t, "web").addr)
		if status, body := fetch(t, browser(nil), "http://"+frontend.String()+"/page?q=1"); status != http.StatusOK {
			t.Fatalf("status %d, %q", status, body)
		}
	} else if got := backendName(t, w.service("web", a, backend(t, greet("web")))); got != "web" {
		t.Fatalf("reached %q", got)
	}
	w.stop()
	return lines(t, dir, ".log")
}

// TestAnnotationAccessLog checks that there is a line for a connection, and none without the annotation.
func TestAnnotationAccessLog(t *testing.T) {
	for _, name := range []string{"access-log", aws + "access-log-enabled"} {
		if got := logged(t, annotations{name: "true"}); len(got) != 1 {
			t.Errorf("%s: the logs are %v", name, got)
		}
		if got := logged(t, annotations{name: "false"}); len(got) != 0 {
			t.Errorf("%s: without a log there is %v", name, got)
		}
	}
	w := newWorld(t) // an edge without a folder
	w.start()
	w.service("web", annotations{"access-log": "true"}, backend(t, greet("web")))
	w.wantEvent("web", "LoadBalancerSettings", "-access-log-dir")
}

// TestAnnotationAccessLogInterval checks that the name of a file has the start of the interval.
func TestAnnotationAccessLogInterval(t *testing.T) {
	for value, interval := range map[string]time.Duration{"5": 5 * time.Minute, "60": time.Hour} {
		before := time.Now()
		got := logged(t, annotations{"access-log": "true", aws + "access-log-emit-interval": value})
		names := slices.Collect(maps.Keys(got))
		want := []string{before.UTC().Truncate(interval).Format("20060102T1504Z"), time.Now().UTC().Truncate(interval).Format("20060102T1504Z")}
		if len(names) != 1 || !strings.Contains(names[0], want[0]) && !strings.Contains(names[0], want[1]) {
			t.Errorf("%s minutes: the files are %v, want one of %s", value, names, want[0])
		}
	}
}

// TestAnnotationAccessLogDir checks the folder of a log.
func TestAnnotationAccessLogDir(t *testing.T) {
	for _, name := range []string{"access-log-dir", aws + "access-log-s3-bucket-name"} {
		for path := range logged(t, annotations{"access-log": "true", name: "shop-logs"}) {
			if filepath.Dir(path) != "shop-logs" {
				t.Errorf("%s: the file is %s", name, path)
			}
		}
	}
}

// TestAnnotationAccessLogPrefix checks the second part of the folder of a log.
func TestAnnotationAccessLogPrefix(t *testing.T) {
	for _, name := range []string{"access-log-prefix", aws + "access-log-s3-bucket-prefix"} {
		for path := range logged(t, annotations{"access-log": "true", "access-log-dir": "shop-logs", name: "prod/web"}) {
			if filepath.Dir(path) != "shop-logs/prod/web" {
				t.Errorf("%s: the file is %s", name, path)
			}
		}
	}
}

// TestAnnotationAccessLogFormat checks the fields of both formats.
func TestAnnotationAccessLogFormat(t *testing.T) {
	for format, want := range map[string][]string{
		"elb": {"default/web", "127.0.0.1:", " 200 200 ", "/page?q=1 HTTP/1.1\"", "Go-http-client"}, "json": {`"service":"web"`, `"namespace":"default"`, `"/page?q=1"`},
	} {
		for path, got := range logged(t, annotations{"access-log": "true", "access-log-format": format, "backend-protocol": "http"}) {
			if len(got) != 1 || slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(got[0], part) }) {
				t.Errorf("%s: %s has %q, want all of %q", format, path, got, want)
			}
		}
	}
}

// TestAnnotationTags checks that tags are in the log.
func TestAnnotationTags(t *testing.T) {
	for _, name := range []string{"tags", aws + "additional-resource-tags"} {
		got := logged(t, annotations{"access-log": "true", "access-log-format": "json", name: "team=shop,stage=prod"})
		for path, texts := range got {
			if !strings.Contains(texts[0], `"team":"shop"`) || !strings.Contains(texts[0], `"stage":"prod"`) {
				t.Errorf("%s: %s has %q", name, path, texts)
			}
		}
		if len(got) != 1 {
			t.Errorf("%s: the logs are %v", name, got)
		}
	}
}

// goesOn reports whether a connection still works.
func goesOn(c *client) bool {
	line, err := c.ask("still there?")
	return err == nil && line == "still there?"
}

// ended waits until the edge has ended a connection.
func ended(t *testing.T, c *client) {
	t.Helper()
	if _, err := c.in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection goes on: %v", err)
	}
}

// leaving returns a world, a connection to a backend, and a function that removes that backend.
func leaving(t *testing.T, a annotations) (c *client, remove func()) {
	t.Helper()
	w := newWorld(t)
	w.start()
	addr := backend(t, greet("old"))
	frontend := w.service("web", a, addr)
	c = dial(t, frontend)
	if line, err := c.line(); err != nil || line != "old" {
		t.Fatalf("%q, %v", line, err)
	}
	return c, func() {
		w.log.Put(slice("web", backend(t, greet("new"))))
		kittest.Eventually(t, "the new backend", func() error {
			if got := backendName(t, frontend); got != "new" {
				return errors.New(got)
			}
			return nil
		})
	}
}

// TestAnnotationDrain checks that connections to a removed backend continue, or end at once without draining.
func TestAnnotationDrain(t *testing.T) {
	for _, name := range []string{"drain", aws + "connection-draining-enabled"} {
		c, remove := leaving(t, annotations{name: "true"})
		remove()
		if !goesOn(c) {
			t.Errorf("%s: the connection has ended", name)
		}
		c, remove = leaving(t, annotations{name: "false"})
		remove()
		ended(t, c)
	}
}

// TestAnnotationDrainTimeout checks that connections to a removed backend end after the time.
func TestAnnotationDrainTimeout(t *testing.T) {
	for _, a := range []annotations{{"drain-timeout": "1s"}, {aws + "connection-draining-enabled": "true", aws + "connection-draining-timeout": "1"}} {
		c, remove := leaving(t, a)
		begun := time.Now()
		remove()
		ended(t, c)
		if took := time.Since(begun); took < 900*time.Millisecond {
			t.Errorf("%v: the connection ended after %s", a, took)
		}
	}
}

// TestAnnotationIdleTimeout checks that a silent connection ends, and one with traffic does not.
func TestAnnotationIdleTimeout(t *testing.T) {
	w := newWorld(t)
	w.start()
	for i, name := range []string{"idle-timeout", aws + "connection-idle-timeout"} {
		for _, protocol := range []string{"tcp", "http"} {
			addr := backend(t, greet("web"))
			if protocol == "http" {
				addr = startWeb(t, "web").addr
			}
			frontend := w.service(fmt.Sprintf("%s-%d", protocol, i), annotations{name: "1", "backend-protocol": protocol}, addr)
			c := dial(t, frontend)
			begun := time.Now()
			if protocol == "http" {
				if line, err := c.ask("GET / HTTP/1.1\r\nHost: x\r\n\r"); err != nil || line != "HTTP/1.1 200 OK" {
					t.Fatalf("%q, %v", line, err)
				}
			}
			_, err := io.Copy(io.Discard, c.in)
			if took := time.Since(begun); errors.Is(err, os.ErrDeadlineExceeded) || took < 900*time.Millisecond {
				t.Errorf("%s of %s: the connection ended after %s: %v", name, protocol, took, err)
			}
		}
	}
}

// inZone gives the edge's node a zone.
func (w *world) inZone(zone string) {
	w.log.Put(&corev1.Node{Metadata: &corev1.ObjectMeta{Name: "here", Labels: map[string]string{object.LabelZone: zone}}})
}

// TestAnnotationCrossZone tests a backend in the edge's zone beside one in another zone.
func TestAnnotationCrossZone(t *testing.T) {
	w := newWorld(t)
	w.inZone("a")
	w.start()
	for name, value := range map[string]string{"cross-zone": "false", aws + "cross-zone-load-balancing-enabled": "false", "": ""} {
		near := backend(t, greet("near"))
		_, port, _ := net.SplitHostPort(near)
		far := backendAt(t, "127.0.0.2:"+port, greet("far"))
		frontend := w.service("web", nil)
		svc := w.object("web", frontend, annotations{"check-interval": "100ms", "check-unhealthy": "2"})
		if name != "" {
			svc = w.object("web", frontend, annotations{name: value, "check-interval": "100ms", "check-unhealthy": "2"})
		}
		w.log.Put(svc, slice("web", near+"@a", far+"@b"))
		w.waitFor(frontend, 2)
		got := reached(t, frontend, 6)
		if name != "" && got["near"] != 6 || name == "" && (got["near"] != 3 || got["far"] != 3) {
			t.Errorf("%q: reached %v", name, got)
		}
	}
}

// TestAnotherZoneTakesOver checks that backends of another zone get traffic only after the backends of the edge's
// zone have failed their checks.
func TestAnotherZoneTakesOver(t *testing.T) {
	w := newWorld(t)
	w.inZone("a")
	w.start()
	near, far := startFlaky(t, "near"), startFlaky(t, "far")
	_, farPort, _ := net.SplitHostPort(far.addr)
	frontend := freePort(t, balancerIP)
	first, second := slice("web", near.addr+"@a"), slice("web", far.addr+"@b")
	second.Metadata.Name = "web-" + farPort
	w.log.Put(w.object("web", frontend, checks(annotations{"cross-zone": "false"})), first, second)
	w.waitFor(frontend, 2)
	for name, status := range map[string]int{"far": http.StatusInternalServerError, "near": http.StatusOK} {
		near.set(status)
		kittest.Eventually(t, "traffic to "+name, func() error {
			for range 5 {
				if _, body := fetch(t, browser(nil), "http://"+frontend.String()); body != name {
					return errors.New(body)
				}
			}
			return nil
		})
	}
}

// flaky is a backend that passes or fails health checks as the test says. Connections of clients work while it is
// open.
type flaky struct {
	*webServer
	status chan int // the last value is the status
}

func startFlaky(t *testing.T, name string) *flaky {
	t.Helper()
	f := &flaky{status: make(chan int, 1)}
	f.status <- http.StatusOK
	f.webServer = startWeb(t, name, func(s *http.Server) {
		s.Handler = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/healthz" {
				fmt.Fprint(out, name)
				return
			}
			status := <-f.status
			f.status <- status
			out.WriteHeader(status)
		})
	})
	return f
}

func (f *flaky) set(status int) {
	<-f.status
	f.status <- status
}

// checked puts a service with two backends. The first one fails its checks after a while, and then recovers. checked
// returns the times until it got no connections, and until it got connections again.
func checked(t *testing.T, a annotations) (down, up time.Duration) {
	t.Helper()
	w := newWorld(t)
	w.start()
	good, bad := startFlaky(t, "good"), startFlaky(t, "bad")
	_, badPort, _ := net.SplitHostPort(bad.addr)
	frontend := freePort(t, balancerIP)
	svc := w.object("web", frontend, a)
	// The two backends have different ports, so each has a slice of its own.
	first, second := slice("web", good.addr), slice("web", bad.addr)
	second.Metadata.Name = "web-" + badPort
	w.log.Put(svc, first, second)
	w.waitFor(frontend, 2)
	usable := func(want bool) time.Duration {
		begun := time.Now()
		kittest.Eventually(t, fmt.Sprintf("usable is %t", want), func() error {
			p, err := w.port(frontend)
			if err != nil {
				return err
			}
			for _, b := range p.GetBackends() {
				if b.GetAddress() == bad.addr && b.GetUsable() == want {
					return nil
				}
			}
			return fmt.Errorf("the backends are %v", p.GetBackends())
		})
		return time.Since(begun)
	}
	bad.set(http.StatusInternalServerError)
	down = usable(false)
	for range 10 {
		if _, body := fetch(t, browser(nil), "http://"+frontend.String()); body != "good" {
			t.Errorf("a backend that fails its checks answers %q", body)
		}
	}
	bad.set(http.StatusOK)
	up = usable(true)
	names := map[string]int{}
	for range 10 {
		_, body := fetch(t, browser(nil), "http://"+frontend.String())
		names[body]++
	}
	if names["bad"] == 0 {
		t.Errorf("the backend that works again got nothing: %v", names)
	}
	return down, up
}

// checks are checks by request, every 100 ms.
func checks(a annotations) annotations {
	all := annotations{"check-path": "/healthz", "check-interval": "100ms", "check-timeout": "50ms", "check-unhealthy": "2", "check-healthy": "2"}
	maps.Copy(all, a)
	return all
}

// TestAnnotationCheck checks that a failing backend gets no connections with checks, and gets them without checks.
func TestAnnotationCheck(t *testing.T) {
	checked(t, checks(nil))
	w := newWorld(t)
	w.start()
	bad := startFlaky(t, "bad")
	bad.set(http.StatusInternalServerError)
	off := checks(annotations{"check": "false"})
	frontend := w.service("web", off, bad.addr)
	for range 5 {
		if _, body := fetch(t, browser(nil), "http://"+frontend.String()); body != "bad" {
			t.Errorf("without checks: %q", body)
		}
	}
	p, err := w.port(frontend)
	if err != nil || !p.GetBackends()[0].GetUsable() {
		t.Errorf("without checks: %v, %v", p, err)
	}
}

// TestAnnotationCheckPath checks a path that fails while all other paths work.
func TestAnnotationCheckPath(t *testing.T) {
	checked(t, checks(annotations{"backend-protocol": "http"}))
}

// TestAnnotationCheckInterval checks that more time passes with a longer interval.
func TestAnnotationCheckInterval(t *testing.T) {
	down, _ := checked(t, checks(annotations{"check-interval": "400ms"}))
	if down < 350*time.Millisecond { // two failures are an interval apart, which is varied by a twentieth
		t.Errorf("a backend that fails was not used after %s", down)
	}
}

// TestAnnotationCheckHealthy checks the number of successes after which a backend is used again.
func TestAnnotationCheckHealthy(t *testing.T) {
	for _, name := range []string{"check-healthy", aws + "healthcheck-healthy-threshold"} {
		a := checks(annotations{name: "8"})
		if name != "check-healthy" {
			delete(a, "check-healthy")
		}
		if _, up := checked(t, a); up < 600*time.Millisecond {
			t.Errorf("%s: used again after %s", name, up)
		}
	}
}

// TestAnnotationCheckUnhealthy checks the number of failures after which a backend is not used.
func TestAnnotationCheckUnhealthy(t *testing.T) {
	for _, name := range []string{"check-unhealthy", aws + "healthcheck-unhealthy-threshold"} {
		a := checks(annotations{name: "8"})
		if name != "check-unhealthy" {
			delete(a, "check-unhealthy")
		}
		if down, _ := checked(t, a); down < 600*time.Millisecond {
			t.Errorf("%s: not used after %s", name, down)
		}
	}
}

// unusable puts a service with one backend, and waits until it is not usable.
func unusable(t *testing.T, a annotations, addr string) {
	t.Helper()
	w := newWorld(t)
	w.start()
	frontend := w.service("web", a, addr)
	kittest.Eventually(t, "the backend is not usable", func() error {
		p, err := w.port(frontend)
		if err == nil && p.GetBackends()[0].GetUsable() {
			err = errors.New("it is")
		}
		return err
	})
}

// TestAnnotationCheckTimeout tests a backend that accepts checks and does not answer in time.
func TestAnnotationCheckTimeout(t *testing.T) {
	silent := backend(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	unusable(t, checks(nil), silent)
}

// TestAnnotationCheckProtocol tests a backend that accepts connections and does not speak the protocol of the check.
func TestAnnotationCheckProtocol(t *testing.T) {
	mute := backend(t, greet("mute"))
	for _, protocol := range []string{"ssl", "http", "https"} {
		unusable(t, annotations{"check-protocol": protocol, "check-interval": "100ms", "check-unhealthy": "2"}, mute)
	}
}

// TestAnnotationCheckPort checks a port that differs from the port of the traffic.
func TestAnnotationCheckPort(t *testing.T) {
	closed := freePort(t, "127.0.0.1")
	unusable(t, annotations{"check-port": fmt.Sprint(closed.Port()), "check-interval": "100ms", "check-unhealthy": "2"}, backend(t, greet("web")))
}

// TestAnnotationSourceGroups checks that a service with a source group serves clients from the addresses of
// the group and from its source ranges, and no others.
func TestAnnotationSourceGroups(t *testing.T) {
	w := newWorld(t)
	var office edge.SourceGroup
	if err := office.UnmarshalText([]byte("office=127.0.0.9/32+127.0.0.10/32")); err != nil {
		t.Fatal(err)
	}
	w.cfg.SourceGroups = []edge.SourceGroup{office}
	w.start()
	for _, name := range []string{"source-groups", aws + "extra-security-groups"} {
		frontend := freePort(t, balancerIP)
		svc := w.object("web", frontend, annotations{name: "office"})
		svc.Spec.LoadBalancerSourceRanges = []string{"127.0.0.11/32"}
		w.log.Put(svc, slice("web", backend(t, greet("web"))))
		w.waitFor(frontend, 1)
		for from, want := range map[string]bool{"127.0.0.9": true, "127.0.0.10": true, "127.0.0.11": true, "127.0.0.12": false} {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: answerTimeout}
			conn, err := d.Dial("tcp", frontend.String())
			if err != nil {
				if want {
					t.Errorf("%s from %s: %v", name, from, err)
				}
				continue
			}
			line, err := connection(t, conn).line()
			if (err == nil && line == "web") != want {
				t.Errorf("%s from %s: %q, %v; want admitted %t", name, from, line, err, want)
			}
		}
	}
	unknown := w.service("unknown", annotations{"source-groups": "nobody"}, backend(t, greet("web")))
	w.wantEvent("unknown", "InvalidServiceOrEndpoint", "nobody")
	if got := backendName(t, unknown); got == "web" {
		t.Error("a set that is not configured admits everybody")
	}
}
