package bench

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/yardstick"
	"portolan.dev/services/object"
)

var (
	measure = flag.Bool("measure", false, "measure, which takes minutes")
	quick   = flag.Bool("quick", false, "measure in about a minute, less exactly")
	only    = flag.String("only", "", "the load to measure; default: all")
)

// certificate writes a certificate with its key into dir, as NAME.crt and NAME.key and, for HAProxy,
// as NAME.pem.
func certificate(t *testing.T, dir, name string) (bundle string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, DNSNames: []string{"shop.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	for suffix, content := range map[string][]byte{".crt": cert, ".key": secret, ".pem": slices.Concat(cert, secret)} {
		if err := os.WriteFile(filepath.Join(dir, name+suffix), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, name+".pem")
}

// service returns a service of the edge with one backend, and its slice.
func service(name, frontend, backend string, annotations map[string]string) []object.Object {
	at, to := netip.MustParseAddrPort(frontend), netip.MustParseAddrPort(backend)
	port, class := int32(to.Port()), balancer.ClassEdge
	meta := &corev1.ObjectMeta{Namespace: "default", Name: name, Uid: name, Annotations: annotations}
	return []object.Object{
		&corev1.Service{
			Metadata: meta,
			Spec: &corev1.ServiceSpec{
				Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, LoadBalancerClass: &class,
				Ports: []*corev1.ServicePort{{Port: int32(at.Port()), Protocol: corev1.Protocol_PROTOCOL_TCP}},
			},
			Status: &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{
				Ingress: []*corev1.LoadBalancerIngress{{Ip: at.Addr().String(), IpMode: corev1.IPMode_IP_MODE_PROXY}},
			}},
		},
		&corev1.EndpointSlice{
			Metadata:    &corev1.ObjectMeta{Namespace: "default", Name: name + "-1", Labels: map[string]string{object.LabelServiceName: name}},
			AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
			Ports:       []*corev1.EndpointPort{{Port: &port, Protocol: corev1.Protocol_PROTOCOL_TCP}},
			Endpoints:   []*corev1.Endpoint{{Addresses: []string{to.Addr().String()}}},
		},
	}
}

// proxies starts both proxies in front of the same backends.
func proxies(t *testing.T) []*proxy {
	t.Helper()
	echo, web := kittest.Listen(t), kittest.Listen(t)
	go serveEcho(echo)
	go serveWeb(web)
	dir := t.TempDir()
	bundle := certificate(t, dir, "bench")
	addrs := map[string]string{}
	log := changestest.New(t)
	for _, kind := range kinds {
		addrs[kind] = freeAddr(t, "127.77.1.2")
		annotations, backend := map[string]string{}, echo.Addr().String()
		if kind == "http" || kind == "https" {
			annotations[balancer.Prefix+"backend-protocol"], backend = "http", web.Addr().String()
		}
		if kind == "tls" || kind == "https" {
			annotations[balancer.Prefix+"tls-cert"] = "file/bench"
		}
		log.Put(service(kind, addrs[kind], backend, annotations)...)
	}
	host := kittest.Host(t, rpc.TCP(), "")
	lis := kittest.Listen(t)
	srv := rpc.NewServer(rpc.ServerOptions{Log: host.Log, Metrics: host.Metrics, Health: host.Health})
	log.Register(srv)
	kittest.Run(t, "registry", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	return []*proxy{
		startHAProxy(t, bundle, echo.Addr().String(), web.Addr().String()),
		startEdge(t, addrs, "-certs-dir="+dir, "-registry="+lis.Addr().String(), "-nats-url="+log.URL(), "-nats-prefix="+changestest.Prefix),
	}
}

// rates measures the proxies in turn, and returns the exchanges per second of CPU time of each: the
// median of the rounds.
func rates(t *testing.T, what string, l load, all []*proxy, n, rounds int) map[string]float64 {
	t.Helper()
	measured := map[string][]float64{}
	for round := range rounds {
		for i := range all {
			p := all[(round+i)%len(all)]
			before := p.cpu()
			if err := l.run(p, n); err != nil {
				t.Fatalf("%s of %s: %v", what, p.name, err)
			}
			used := max(p.cpu()-before, yardstick.Tick)
			measured[p.name] = append(measured[p.name], float64(n)/used.Seconds())
		}
	}
	medians := map[string]float64{}
	for _, p := range all {
		slices.Sort(measured[p.name])
		medians[p.name] = measured[p.name][rounds/2]
		fmt.Printf("%-12s %-8s %8.0f per CPU second (%.0f-%.0f)\n", what, p.name, medians[p.name], measured[p.name][0], measured[p.name][rounds-1])
	}
	return medians
}

// idleConnections is the number of connections for the figure of memory, unless the limit of open files
// is lower.
const idleConnections = 10000

// idleBytes returns the memory of a proxy for each of many idle connections that have had one
// exchange.
func idleBytes(t *testing.T, p *proxy, l load) float64 {
	t.Helper()
	before := p.rss()
	count := min(idleConnections, mostConnections(t))
	conns := make([]net.Conn, 0, count)
	dial := l.dialer(p)
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	for range count {
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		if err := l.do(conn, bufio.NewReader(conn)); err != nil {
			t.Fatal(err)
		}
	}
	return float64(p.rss()-before) / float64(count)
}

func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("allowed: not told to measure; make bench-edge does")
	}
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Fatal("haproxy is needed (Debian: apt-get install haproxy)")
	}
	rounds, scale := 5, 10
	if *quick {
		rounds, scale = 3, 1
	}
	all := proxies(t)
	for _, m := range []struct {
		name   string
		load   load
		count  int
		target yardstick.Target
	}{
		{"tcp", load{kind: "tcp", do: ping}, 20000, yardstick.AtLeast(0.9)},
		{"tcp_connect", load{kind: "tcp", do: ping, perConnection: 1}, 2000, yardstick.AtLeast(0.9)},
		{"tcp_bulk", load{kind: "tcp", do: bulk}, 400, yardstick.AtLeast(0.9)},
		{"http", load{kind: "http", do: get}, 20000, yardstick.AtLeast(0.7)},
		{"http_connect", load{kind: "http", do: get, perConnection: 1}, 2000, yardstick.AtLeast(0.7)},
		{"tls_full", load{kind: "tls", do: ping, perConnection: 1}, 500, yardstick.AtLeast(0.7)},
		{"tls_resumed", load{kind: "tls", do: ping, perConnection: 1, session: true}, 1000, yardstick.AtLeast(0.7)},
		{"tls_bulk", load{kind: "tls", do: bulk}, 200, yardstick.AtLeast(0.7)},
		{"https", load{kind: "https", do: get}, 10000, yardstick.AtLeast(0.7)},
	} {
		if *only != "" && *only != m.name {
			continue
		}
		got := rates(t, m.name, m.load, all, m.count*scale, rounds)
		fmt.Println(yardstick.Line(m.name+"_vs_haproxy", got["edge"]/got["haproxy"], m.target))
	}
}

// TestMeasureIdle measures the memory of idle connections. Each kind has fresh processes, because memory
// that a process has used before is not taken from the system again.
func TestMeasureIdle(t *testing.T) {
	if !*measure {
		t.Skip("allowed: not told to measure; make bench-edge does")
	}
	for _, l := range []load{{kind: "tcp", do: ping}, {kind: "http", do: get}, {kind: "tls", do: ping}} {
		memory := map[string]float64{}
		for _, p := range proxies(t) {
			memory[p.name] = idleBytes(t, p, l)
			fmt.Printf("%-12s %-8s %8.0f bytes per idle connection\n", l.kind, p.name, memory[p.name])
		}
		fmt.Println(yardstick.Line("idle_"+l.kind+"_bytes_vs_haproxy", memory["edge"]/memory["haproxy"], yardstick.Target{}))
	}
}
