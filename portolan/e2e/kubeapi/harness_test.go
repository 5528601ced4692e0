package kubeapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"portolan.dev/allocator"
	"portolan.dev/kubeapi"
	"portolan.dev/registry"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/audit"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// lifetime is the lifetime of certificates, longer than any test.
const lifetime = time.Hour

// installation is a registry with an allocator, NATS and a kubeapi, in this process and over TCP.
type installation struct {
	*testing.T
	certs          *kittest.Certificates // nil: without TLS
	network        *rpc.MemoryNetwork
	registry, nats string // addresses
	logs           string // the folder of the audit logs, with TLS
	url, address   string // of kubeapi
	http           *http.Client
	config         kubeapi.Config
	stopKubeAPI    func()
	metrics        map[string]*prometheus.Registry // of the latest daemon of each name
}

// reserved is a network with a listener that was opened before its daemon, so that another daemon could
// be told its address.
type reserved struct {
	rpc.Network
	listener net.Listener
}

// Listen implements rpc.Network.
func (r reserved) Listen(string) (net.Listener, error) { return r.listener, nil }

// serviceRanges are the ranges of cluster IPs of an installation with two families.
var serviceRanges = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}

// install starts an installation with IPv4. Functions in change set further options of kubeapi.
func install(t *testing.T, secured bool, change ...func(*kubeapi.Config)) *installation {
	t.Helper()
	return installIn(t, secured, serviceRanges[:1], change...)
}

// installIn is install with ranges of cluster IPs.
func installIn(t *testing.T, secured bool, ranges []netip.Prefix, change ...func(*kubeapi.Config)) *installation {
	t.Helper()
	i := &installation{T: t, http: http.DefaultClient, network: rpc.Memory(), logs: t.TempDir(), metrics: map[string]*prometheus.Registry{}}
	if secured {
		i.certs = kittest.NewCertificates(t)
		i.http = i.as("operator")
	}
	_, i.nats = kittest.NATS(t)
	listener, err := i.network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i.registry = listener.Addr().String()
	var a allocator.Config
	config.Defaults(&a)
	a.Addr, a.Registry, a.DataDir, a.ServiceCIDR = "127.0.0.1:0", i.registry, filepath.Join(t.TempDir(), "allocator"), ranges
	claims := run(i, "allocator", i.network, a, allocator.New)
	var r registry.Config
	config.Defaults(&r)
	r.Allocator, r.Store, r.ServiceCIDR = claims.Addr().String(), "sqlite:"+filepath.Join(t.TempDir(), "registry"), a.ServiceCIDR
	r.ExternalIPs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	run(i, "registry", reserved{i.network, listener}, r, registry.New)
	config.Defaults(&i.config)
	i.config.Addr, i.config.Registry = "127.0.0.1:0", i.registry
	for _, fn := range change {
		fn(&i.config)
	}
	i.startKubeAPI()
	return i
}

// startKubeAPI starts kubeapi, also again after stopKubeAPI.
func (i *installation) startKubeAPI() {
	i.Helper()
	daemon, stop := launch(i, "kubeapi", i.network, i.config, kubeapi.New)
	i.address, i.stopKubeAPI = daemon.Addr().String(), stop
	i.url = "http://" + i.address
	if i.certs != nil {
		i.url = "https://" + i.address
	}
	kittest.Eventually(i, "kubeapi", func() error {
		if answer := i.get("/api/v1/services?resourceVersion=1"); answer.code != http.StatusOK {
			return fmt.Errorf("%d: %s", answer.code, answer.body)
		}
		return nil
	})
}

// run runs a daemon until the test ends.
func run[C any, D app.Daemon](i *installation, name string, network rpc.Network, cfg C, build func(context.Context, C, app.Host) (D, error)) D {
	i.Helper()
	d, _ := launch(i, name, network, cfg, build)
	return d
}

// launch runs a daemon until the test ends, or until stop is called.
func launch[C any, D app.Daemon](i *installation, name string, network rpc.Network, cfg C, build func(context.Context, C, app.Host) (D, error)) (d D, stop func()) {
	i.Helper()
	host := kittest.Host(i, network, i.nats)
	if i.certs != nil {
		files := i.certs.Issue(name, lifetime, "127.0.0.1")
		source, err := identity.Open(identity.Options{Files: files, Log: host.Log})
		if err != nil {
			i.Fatal(err)
		}
		host.Identity = source
		host.Audit, err = audit.Open(audit.Options{Path: filepath.Join(i.logs, name+".log"), MaxBytes: 1 << 20, Daemon: name, Log: host.Log, Metrics: host.Metrics})
		if err != nil {
			i.Fatal(err)
		}
		i.Cleanup(host.Audit.Close)
	}
	i.metrics[name] = host.Metrics
	d, err := build(i.Context(), cfg, host)
	if err != nil {
		i.Fatal(err)
	}
	return d, kittest.Run(i, name, d.Run)
}

// kubeconfig writes a kubeconfig with the certificate of a role, or without one if there is no TLS, and
// returns its path.
func (i *installation) kubeconfig(who, url string) string {
	i.Helper()
	cluster, user := "server: "+url, "{}"
	if i.certs != nil {
		files := i.certs.Issue(who, lifetime)
		cluster += fmt.Sprintf(", certificate-authority: %q", files.CA)
		user = fmt.Sprintf("{client-certificate: %q, client-key: %q}", files.Cert, files.Key)
	}
	path := filepath.Join(i.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: test\nclusters: [{name: test, cluster: {%s}}]\nusers: [{name: test, user: %s}]\n"+
		"contexts: [{name: test, context: {cluster: test, user: test}}]\n", cluster, user)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		i.Fatal(err)
	}
	return path
}

// as returns a client with the certificate of an identity, or without a certificate if it is empty.
func (i *installation) as(who string) *http.Client {
	config := &tls.Config{RootCAs: i.authority(), MinVersion: tls.VersionTLS13}
	if who != "" {
		files := i.certs.Issue(who, lifetime)
		certificate, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			i.Fatal(err)
		}
		config.Certificates = []tls.Certificate{certificate}
	}
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: config}
	i.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// authority returns the certificate of the authority.
func (i *installation) authority() *x509.CertPool {
	text, err := os.ReadFile(i.certs.CA())
	if err != nil {
		i.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

// dial returns a connection to the registry with the certificate of a role; "" and without TLS: with
// none.
func (i *installation) dial(who string) *grpc.ClientConn {
	i.Helper()
	var source *identity.Source
	if i.certs != nil {
		source = i.certs.Source(who)
	}
	conn, err := i.network.Dial(i.registry, source.DialOption(identity.Registry))
	if err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() { _ = conn.Close() })
	return conn
}

// answer is an answer over HTTP.
type answer struct {
	code   int
	header http.Header
	body   string
}

// object returns the body as a JSON object.
func (a answer) object(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(a.body), &u.Object); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return u
}

// get reads a path.
func (i *installation) get(path string, headers ...string) answer {
	i.Helper()
	return i.send(http.MethodGet, path, "", headers...)
}

// send sends a request. headers are pairs of names and values. Bodies are JSON, unless a header says
// otherwise.
func (i *installation) send(method, path, body string, headers ...string) answer {
	i.Helper()
	return i.sendAs(i.http, method, path, body, headers...)
}

func (i *installation) sendAs(client *http.Client, method, path, body string, headers ...string) answer {
	i.Helper()
	request, err := http.NewRequestWithContext(i.Context(), method, i.url+path, strings.NewReader(body))
	if err != nil {
		i.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for n := 0; n < len(headers); n += 2 {
		request.Header.Set(headers[n], headers[n+1])
	}
	return i.do(client, request)
}

// do sends a request and reads the answer.
func (i *installation) do(client *http.Client, request *http.Request) answer {
	i.Helper()
	response, err := client.Do(request)
	if err != nil {
		i.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		i.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(text)}
}

// event is an event of a watch in JSON.
type event struct {
	Type   string
	Object json.RawMessage
}

// about returns the metadata of the object of an event.
func (e event) about() (meta metav1.ObjectMeta) {
	var o struct{ Metadata *metav1.ObjectMeta }
	o.Metadata = &meta
	_ = json.Unmarshal(e.Object, &o) // a Status has none
	return meta
}

// watch watches a path until the test ends. The channel is closed when the watch ends.
func (i *installation) watch(client *http.Client, path string, headers ...string) <-chan event {
	i.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	request, err := http.NewRequestWithContext(i.Context(), http.MethodGet, i.url+path+separator+"watch=1", nil)
	if err != nil {
		i.Fatal(err)
	}
	for n := 0; n < len(headers); n += 2 {
		request.Header.Set(headers[n], headers[n+1])
	}
	response, err := client.Do(request)
	if err != nil {
		i.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body) //nolint:errcheck // for the message
		i.Fatalf("%s: %d %s", path, response.StatusCode, text)
	}
	events, decoder := make(chan event, 1000), json.NewDecoder(response.Body)
	done := make(chan struct{})
	i.Cleanup(func() {
		_ = response.Body.Close()
		<-done
	})
	go func() {
		defer close(done)
		defer close(events)
		for {
			var e event
			if decoder.Decode(&e) != nil {
				return
			}
			events <- e
		}
	}()
	return events
}
