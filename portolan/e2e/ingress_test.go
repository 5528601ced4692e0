package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"portolan.dev/services/kit/kittest"
)

// ingressBehindEdge runs nginx as an ingress: pods of a service of the class, which route by the name and
// path that clients ask for to services that they know by their names. TLS goes through the edge to nginx
// at one port, and ends at the edge at another one. The client's address arrives by PROXY headers.
func (i *installation) ingressBehindEdge() {
	for n, name := range []string{"alpha", "beta"} {
		i.apply(fmt.Sprintf("{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {ports: [{name: http, port: 8000}]}}", name) +
			i.sliceOf(name, "http", i.serveForwarded(name, fmt.Sprintf("128.%d", 20+n))))
	}
	roots := x509.NewCertPool()
	own, edges := newCertificate(i.T, 11, "alpha.example", roots), newCertificate(i.T, 12, "beta.example", roots)
	i.startIngress(i.network.IP("191.7"), own)
	i.portolan("secret", "tls", "ingress", "--cert", edges+".crt", "--key", edges+".key")
	i.apply(edgeService("ingress", "loadbalancer.portolan.dev/proxy-protocol: v2, loadbalancer.portolan.dev/tls-cert: secret/ingress, loadbalancer.portolan.dev/tls-ports: ended",
		"selector: {app: ingress}, ports: [{name: http, port: 80, targetPort: http}, {name: passed, port: 443, targetPort: https}, {name: ended, port: 8443, targetPort: http}]"))
	address, client := i.edgeAddress("ingress"), i.network.IP("0.78")
	for _, one := range []struct {
		scheme, host string
		port         int
		path, want   string
	}{
		{"http", "alpha.example", 80, "/", "alpha: " + client + " http "},
		{"http", "beta.example", 80, "/", "beta: " + client + " http "},
		{"http", "alpha.example", 80, "/beta/x", "beta: " + client + " http "},
		{"https", "alpha.example", 443, "/", "alpha: " + client + " https "},
		{"https", "beta.example", 8443, "/", "beta: " + client + " http "},
	} {
		asker := &http.Client{Timeout: patience, Transport: &http.Transport{
			DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: one.host},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialerFrom(client).DialContext(ctx, network, hostPort(address, one.port))
			},
		}}
		url := one.scheme + "://" + one.host + one.path
		kittest.Eventually(i.T, fmt.Sprintf("%s at port %d", url, one.port), func() error { return answersWith(asker, url, one.want) })
	}
}

// startIngress runs nginx as a pod with an address. It has the certificate of alpha.example.
func (i *installation) startIngress(ip, certificate string) {
	i.Helper()
	nginx := findNginx(i.T)
	dir := i.TempDir()
	config := strings.NewReplacer("DIR", dir, "IP", ip, "NAMES", i.network.DNS(), "CERT", certificate).Replace(ingressConfig)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		i.Fatal(err)
	}
	i.backend("ingress-1", "-l", "app=ingress", "--pod-ip", ip, "--port", "http=8080", "--port", "https=8443", "--ready-http", "8081/healthz", "--", nginx, "-c", file)
}

func findNginx(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"nginx", "/usr/sbin/nginx"} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Skip("nginx is not here; it comes with Debian's nginx-light")
	return ""
}

// ingressConfig is a configuration of nginx with the lines of docs/operations.md.
const ingressConfig = `daemon off; master_process off; pid DIR/pid; error_log stderr warn;
events { worker_connections 64; }
http {
  access_log off; client_body_temp_path DIR/a; proxy_temp_path DIR/b; fastcgi_temp_path DIR/c; uwsgi_temp_path DIR/d; scgi_temp_path DIR/e;
  resolver NAMES valid=5s ipv6=off;
  set_real_ip_from 127.0.0.0/8;
  real_ip_header proxy_protocol;
  proxy_set_header Host $host;
  proxy_set_header X-Forwarded-For $remote_addr;
  proxy_set_header X-Forwarded-Proto $scheme;
  ssl_certificate CERT.crt;
  ssl_certificate_key CERT.key;
  server { listen IP:8081; location = /healthz { return 200; } }
  server {
    listen IP:8080 proxy_protocol;
    listen IP:8443 ssl proxy_protocol;
    server_name alpha.example;
    location / { set $to alpha.default.svc.cluster.local; proxy_pass http://$to:8000; }
    location /beta/ { set $to beta.default.svc.cluster.local; proxy_pass http://$to:8000; }
  }
  server {
    listen IP:8080 proxy_protocol;
    listen IP:8443 ssl proxy_protocol;
    server_name beta.example;
    location / { set $to beta.default.svc.cluster.local; proxy_pass http://$to:8000; }
  }
}
`
