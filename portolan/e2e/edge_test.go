package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"portolan.dev/services/kit/kittest"
)

// TestEdge runs one installation with services of the class portolan.dev/edge, and reads their state with
// the command line.
func TestEdge(t *testing.T) {
	i := install(t)
	i.T = t
	for _, one := range []struct {
		name     string
		scenario func(*installation)
	}{
		{"refused and warned", (*installation).edgeRefusesAndWarns}, {"HTTP", (*installation).edgeHTTP},
		{"client's address", (*installation).edgeForwardsTheClient}, {"TLS", (*installation).edgeTLS},
		{"ingress behind", (*installation).ingressBehindEdge},
	} {
		t.Run(one.name, func(t *testing.T) {
			one.scenario(&installation{T: t, network: i.network, dataDir: i.dataDir, process: i.process})
		})
	}
}

// edgeService returns the manifest of a service of the class. annotations is the inside of a map in YAML,
// without Portolan's prefix, and more are further fields of its spec.
func edgeService(name, annotations, more string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: %s, annotations: {%s}}, spec: {type: LoadBalancer,
  loadBalancerClass: portolan.dev/edge, %s}}`, name, annotations, more)
}

const edgeHTTPBackends = "loadbalancer.portolan.dev/backend-protocol: http"

// edgeRefusesAndWarns checks that an invalid setting is refused with the name of its field, and that a
// setting that is not honoured causes a warning.
func (i *installation) edgeRefusesAndWarns() {
	const ports = "ports: [{port: 80}]"
	_, errOut, err := i.try(edgeService("wrong", "loadbalancer.portolan.dev/backend-protocol: gopher", ports), "apply", "-f", "-")
	if err == nil || !strings.Contains(errOut, "metadata.annotations[loadbalancer.portolan.dev/backend-protocol]") || !strings.Contains(errOut, "gopher") {
		i.Errorf("an invalid setting: %v\n%s", err, errOut)
	}
	_, errOut, err = i.try(edgeService("vendor", "service.beta.kubernetes.io/aws-load-balancer-type: nlb", ports), "apply", "-f", "-")
	if err != nil || !strings.Contains(strings.ToLower(errOut), "warning") || !strings.Contains(errOut, "aws-load-balancer-type") {
		i.Errorf("a setting that is not honoured: %v\n%s", err, errOut)
	}
	_, errOut, err = i.try(`{apiVersion: v1, kind: Service, metadata: {name: other, annotations: {loadbalancer.portolan.dev/backend-protocol: http}},
  spec: {type: LoadBalancer, ports: [{port: 80}]}}`, "apply", "-f", "-")
	if err != nil || !strings.Contains(errOut, "loadbalancer.portolan.dev/backend-protocol") {
		i.Errorf("a setting of another class: %v\n%s", err, errOut)
	}
	i.portolan("delete", "service", "vendor", "other")
}

// edgeHTTP serves a service that gets its first endpoint later.
func (i *installation) edgeHTTP() {
	i.apply(edgeService("shop", edgeHTTPBackends, "selector: {app: shop}, ports: [{name: http, port: 80, targetPort: 8090}]"))
	at := hostPort(i.edgeAddress("shop"), 80)
	i.awaitStatus(at, http.StatusServiceUnavailable)
	i.says("without an endpoint", []string{at + " of service default/shop", "open", "clear text from clients, http to backends"}, "edge", "status", "shop")
	i.says("without an endpoint", []string{"portolan.dev/edge", "edges serve it"}, "describe", "service", "shop")
	if out, errOut, err := i.try("", "explain", "service", "shop"); err == nil || !strings.Contains(out, "edges serve it") {
		i.Errorf("explain without an endpoint: %v\n%s%s", err, out, errOut)
	}
	i.hello("shop-1", "app=shop", "http", 8090)
	i.awaitStatus(at, http.StatusOK)
	if name, err := get(at); err != nil || name != "shop-1" {
		i.Errorf("%q, %v", name, err)
	}
	i.says("with an endpoint", []string{i.podIP("shop-1") + ":8090 weight 1"}, "edge", "status", "shop")
	i.says("with an endpoint", []string{"edges serve it"}, "explain", "service", "shop")
	i.portolan("delete", "service", "shop")
	kittest.Eventually(i.T, "no answer any more", func() error {
		if name, err := get(at); err == nil {
			return fmt.Errorf("%s still answers", name)
		}
		return nil
	})
}

// edgeForwardsTheClient asks from an address of its own, which the backend learns.
func (i *installation) edgeForwardsTheClient() {
	backend := i.serveForwarded("seen", "128.9")
	i.apply(edgeService("seen", edgeHTTPBackends, "ports: [{name: http, port: 80}]") + i.sliceOf("seen", "http", backend))
	at := hostPort(i.edgeAddress("seen"), 80)
	client := i.network.IP("0.77")
	asker := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: dialerFrom(client).DialContext, DisableKeepAlives: true}}
	kittest.Eventually(i.T, "the client's address", func() error { return answersWith(asker, "http://"+at, "seen: "+client+" http 80") })
	request, err := http.NewRequestWithContext(i.Context(), http.MethodGet, "http://"+at, nil)
	if err != nil {
		i.Fatal(err)
	}
	request.Header.Set("X-Forwarded-For", "192.0.2.1") // the edge appends the address that it sees
	if text, err := bodyOf(asker.Do(request)); err != nil || text != "seen: 192.0.2.1, "+client+" http 80" {
		i.Errorf("%q, %v", text, err)
	}
}

// edgeTLS serves a service. Its certificate is stored after the service, and then renewed.
func (i *installation) edgeTLS() {
	backend := i.serveForwarded("safe", "128.10")
	i.apply(edgeService("safe", edgeHTTPBackends+", loadbalancer.portolan.dev/tls-cert: secret/safe", "ports: [{name: https, port: 443}]") + i.sliceOf("safe", "https", backend))
	at := hostPort(i.edgeAddress("safe"), 443)
	kittest.Eventually(i.T, "the missing certificate in the status", func() error {
		out, errOut, err := i.try("", "edge", "status", "safe")
		if err != nil || !strings.Contains(out, "TLS from clients") || !strings.Contains(out, "safe") || !strings.Contains(out, "Problems") {
			return fmt.Errorf("%w\n%s%s", err, out, errOut)
		}
		return nil
	})
	kittest.Eventually(i.T, "the missing certificate in an Event", func() error {
		if out := i.portolan("describe", "service", "safe"); !strings.Contains(out, "LoadBalancerSettings") || !strings.Contains(out, "secret/safe") {
			return fmt.Errorf("%s", out)
		}
		return nil
	})
	if out, errOut, _ := i.try("", "explain", "service", "safe"); !strings.Contains(out, "certificate secret/safe: there is none") || !strings.Contains(out, "portolan secret tls safe") {
		i.Errorf("explain without a certificate:\n%s%s", out, errOut)
	}
	roots := x509.NewCertPool()
	asker := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "safe.example"}}}
	if text, err := bodyOf(asker.Get("https://" + at)); err == nil {
		i.Errorf("without a certificate: %q", text)
	}
	for n := range 2 {
		files := newCertificate(i.T, int64(n+1), "safe.example", roots)
		i.portolan("secret", "tls", "safe", "--cert", files+".crt", "--key", files+".key")
		kittest.Eventually(i.T, "the certificate", func() error {
			return answersWith(asker, "https://"+at, "safe: 127.0.0.1 https 443")
		})
	}
	i.says("with a certificate", []string{"Problems:     <none>"}, "edge", "status", "safe")
	if out, _, err := i.try("", "explain", "service", "safe"); err != nil || strings.Contains(out, "certificate") {
		i.Errorf("explain with a certificate: %v\n%s", err, out)
	}
	if out := i.portolan("get", "secret", "safe", "-o", "yaml"); !strings.Contains(out, "tls.crt") {
		i.Errorf("the Secret:\n%s", out)
	}
}

// edgeAddress waits for the load-balancer address of a service.
func (i *installation) edgeAddress(name string) (ip string) {
	i.Helper()
	kittest.Eventually(i.T, "the address of "+name, func() error {
		ingress := i.service(name).GetStatus().GetLoadBalancer().GetIngress()
		if len(ingress) != 1 {
			return fmt.Errorf("the service has %v", ingress)
		}
		ip = ingress[0].GetIp()
		return nil
	})
	return ip
}

// awaitStatus waits until an address answers with a status.
func (i *installation) awaitStatus(at string, want int) {
	i.Helper()
	kittest.Eventually(i.T, fmt.Sprintf("%d from %s", want, at), func() error {
		response, err := oneShot.Get("http://" + at + "/")
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			return fmt.Errorf("%s", response.Status)
		}
		return nil
	})
}

// says waits until a command prints all these texts.
func (i *installation) says(when string, texts []string, command ...string) {
	i.Helper()
	kittest.Eventually(i.T, strings.Join(command, " ")+" "+when, func() error {
		out := i.portolan(command...)
		for _, text := range texts {
			if !strings.Contains(out, text) {
				return fmt.Errorf("%q is not in\n%s", text, out)
			}
		}
		return nil
	})
}

// serveForwarded serves HTTP at an address of the pods' range. Its answers have its name and the headers
// that a proxy in front has added.
func (i *installation) serveForwarded(name, host string) net.Addr {
	i.Helper()
	listener, err := net.Listen("tcp", i.network.IP(host)+":0")
	if err != nil {
		i.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		_, _ = fmt.Fprint(w, name, ": ", strings.Join(h.Values("X-Forwarded-For"), ", "), " ", h.Get("X-Forwarded-Proto"), " ", h.Get("X-Forwarded-Port"))
	})}
	i.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return listener.Addr()
}

// sliceOf returns the manifest of a slice with one endpoint, to be appended to its service's manifest.
func (i *installation) sliceOf(service, port string, at net.Addr) string {
	addr := at.(*net.TCPAddr)
	return fmt.Sprintf(`
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %s-1, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: %s, port: %d, protocol: TCP}]
endpoints: [{addresses: [%s]}]
`, service, port, addr.Port, addr.IP)
}

// dialerFrom returns a dialer of connections from a local address.
func dialerFrom(ip string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
}

// answersWith returns an error unless a URL answers with a text.
func answersWith(client *http.Client, url, want string) error {
	text, err := bodyOf(client.Get(url))
	if err == nil && text != want {
		err = fmt.Errorf("%q, want %q", text, want)
	}
	return err
}

// bodyOf returns the text of an answer, which must be a success.
func bodyOf(response *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return string(text), err
}

// newCertificate makes a certificate that signs itself, adds it to roots, and returns the path of its
// files without their endings.
func newCertificate(t *testing.T, serial int64, name string, roots *x509.CertPool) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(t.TempDir(), "cert")
	for end, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: cert}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		text := pem.EncodeToMemory(block)
		if end == ".crt" {
			roots.AppendCertsFromPEM(text)
		}
		if err := os.WriteFile(base+end, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return base
}
