package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/services/kit/kittest"
)

// TestKindsOfService runs one installation with a service of every kind that the Kubernetes
// documentation describes.
func TestKindsOfService(t *testing.T) {
	i := install(t)
	i.T = t
	for name, scenario := range map[string]func(*installation){
		"headless": (*installation).headless, "external name": (*installation).externalName, "named target ports": (*installation).namedTargetPorts,
		"without selector": (*installation).withoutSelector, "several addresses of an endpoint": (*installation).severalAddresses,
		"more than 100 ports": (*installation).manyPorts, "udp": (*installation).udp, "node port": (*installation).nodePort,
		"address of its own": (*installation).addressOfItsOwn, "load balancer": (*installation).loadBalancer,
	} {
		t.Run(name, func(t *testing.T) {
			scenario(&installation{T: t, network: i.network, dataDir: i.dataDir, process: i.process})
		})
	}
}

func (i *installation) headless() {
	i.apply(`{apiVersion: v1, kind: Service, metadata: {name: headless}, spec: {clusterIP: None, selector: {app: headless}, ports: [{name: http, port: 80, targetPort: 8080}]}}`)
	i.backend("h1", "-l", "app=headless", "--port", "http=8080", "--ready-http", "8080/healthz", "--hostname", "first", "--subdomain", "headless",
		"--", bin+"/portolan", "hello")
	ip := i.podIP("h1")
	i.awaitAnswer("headless.default.svc.cluster.local", dns.TypeA, answers("A "+ip))
	i.awaitAnswer("first.headless.default.svc.cluster.local", dns.TypeA, answers("A "+ip))
	i.awaitAnswer("_http._tcp.headless.default.svc.cluster.local", dns.TypeSRV, answers("8080 first.headless.default.svc.cluster.local."))
	i.awaitAnswer(reverse(ip), dns.TypePTR, answers("PTR first.headless.default.svc.cluster.local."))
}

// loadBalancer reaches a backend at the address of its load balancer. The address is removed with the
// service.
func (i *installation) loadBalancer() {
	i.apply(`{apiVersion: v1, kind: Service, metadata: {name: edge}, spec: {type: LoadBalancer, selector: {app: edge}, ports: [{port: 80, targetPort: 8080}]}}`)
	i.hello("edge-1", "app=edge", "http", 8080)
	var ip string
	kittest.Eventually(i.T, "an answer at the address of the load balancer", func() error {
		ingress := i.service("edge").GetStatus().GetLoadBalancer().GetIngress()
		if len(ingress) != 1 {
			return fmt.Errorf("the service has %v", ingress)
		}
		ip = ingress[0].GetIp()
		_, err := get(hostPort(ip, 80))
		return err
	})
	i.portolan("delete", "service", "edge")
	kittest.Eventually(i.T, "no answer any more", func() error {
		if name, err := get(hostPort(ip, 80)); err == nil {
			return fmt.Errorf("%s still answers", name)
		}
		return nil
	})
}

// addressOfItsOwn runs a backend with its own address, as in a container. Its runner is killed, and
// the next one replaces its pod.
func (i *installation) addressOfItsOwn() {
	i.apply(`{apiVersion: v1, kind: Service, metadata: {name: own}, spec: {selector: {app: own}, ports: [{port: 80, targetPort: 8080}]}}`)
	ip := i.network.IP("191.1")
	args := []string{"-l", "app=own", "--pod-ip", ip, "--replace", "--port", "http=8080", "--ready-http", "8080/healthz", "--", bin + "/portolan", "hello"}
	first := i.backend("own-1", args...)
	i.awaitBackends("own", 1)
	if got := i.podIP("own-1"); got != ip {
		i.Errorf("the pod's address is %s, want %s", got, ip)
	}
	uid := i.pod("own-1").GetMetadata().GetUid()
	first.kill() // the pod stays behind, with its finalizer
	kittest.Eventually(i.T, "the first program has ended", func() error {
		if name, err := get(hostPort(ip, 8080)); err == nil {
			return fmt.Errorf("%s still answers", name)
		}
		return nil
	})
	i.backend("own-1", args...)
	if i.pod("own-1").GetMetadata().GetUid() == uid {
		i.Error("the pod that was left behind is still there")
	}
	kittest.Eventually(i.T, "the second program answers", func() error {
		_, err := get(hostPort(i.vip("own"), 80))
		return err
	})
}

func (i *installation) externalName() {
	i.apply(`{apiVersion: v1, kind: Service, metadata: {name: db}, spec: {type: ExternalName, externalName: my.database.example.com}}`)
	i.awaitAnswer("db.default.svc.cluster.local", dns.TypeCNAME, answers("CNAME my.database.example.com."))
}

// namedTargetPorts runs two backends that use the same name for different port numbers, and a
// service with two ports.
func (i *installation) namedTargetPorts() {
	i.apply(`{apiVersion: v1, kind: Service, metadata: {name: multi}, spec: {selector: {app: multi}, ports: [
  {name: http, port: 8080, targetPort: web}, {name: admin, port: 9090, targetPort: web}]}}`)
	i.hello("m1", "app=multi", "web", 8081)
	i.hello("m2", "app=multi", "web", 8082)
	i.awaitBackends("multi", 2)
	vip := i.vip("multi")
	for _, port := range []int{8080, 9090} {
		if counts := spread(i.T, hostPort(vip, port), 20); counts["m1"] != 10 || counts["m2"] != 10 {
			i.Errorf("port %d: 20 requests went to %v, want 10 each", port, counts)
		}
	}
	i.awaitAnswer("_admin._tcp.multi.default.svc.cluster.local", dns.TypeSRV, answers("9090 multi.default.svc.cluster.local."))
}

// withoutSelector sends to a program without a pod, by a slice written by hand.
func (i *installation) withoutSelector() {
	// The address is in the pods' range. Its first addresses are allocated last.
	address := i.network.IP("128.7")
	listener, err := net.Listen("tcp", address+":0")
	if err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() { _ = listener.Close() })
	go echo(listener)
	i.apply(fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: manual}, spec: {ports: [{name: echo, port: 7}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: manual-1, labels: {kubernetes.io/service-name: manual}}
addressType: IPv4
ports: [{name: echo, port: %d, protocol: TCP}]
endpoints: [{addresses: [%s]}]
`, listener.Addr().(*net.TCPAddr).Port, address))
	i.awaitBackends("manual", 1)
	conn, err := net.Dial("tcp", hostPort(i.vip("manual"), 7))
	if err != nil {
		i.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	demandEcho(i.T, conn, "over TCP")
}

// severalAddresses reaches both addresses of the only endpoint of a slice, as Kubernetes' documentation says of such
// a manifest: "traffic is routed to one of the two endpoints".
func (i *installation) severalAddresses() {
	ips := []string{i.network.IP("128.9"), i.network.IP("128.10")}
	port := 0
	for _, ip := range ips {
		listener, err := net.Listen("tcp", hostPort(ip, port))
		if err != nil {
			i.Fatal(err)
		}
		port = listener.Addr().(*net.TCPAddr).Port
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, "hello from %s,", ip) })}
		i.Cleanup(func() { _ = server.Close() })
		go func() { _ = server.Serve(listener) }()
	}
	i.apply(fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: pair}, spec: {ports: [{port: 80, targetPort: %[1]d}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: pair-1, labels: {kubernetes.io/service-name: pair}}
addressType: IPv4
ports: [{name: '', appProtocol: http, protocol: TCP, port: %[1]d}]
endpoints: [{addresses: [%[2]s, %[3]s]}]
`, port, ips[0], ips[1]))
	i.portolan("wait", "service/pair", "--applied", "--timeout", "60s")
	if counts := spread(i.T, hostPort(i.vip("pair"), 80), 20); counts[ips[0]] != 10 || counts[ips[1]] != 10 {
		i.Errorf("20 requests went to %v, want 10 to each address", counts)
	}
}

// manyPorts has a service that gets its 101st port while it runs. It is reached at all ports, and a pod that is
// deleted afterwards gets no more requests.
func (i *installation) manyPorts() {
	manifest := func(ports int) string {
		var list []string
		for n := range ports {
			list = append(list, fmt.Sprintf("{name: p%d, port: %d, targetPort: 8080}", n, 1000+n))
		}
		return "{apiVersion: v1, kind: Service, metadata: {name: many}, spec: {selector: {app: many}, ports: [" + strings.Join(list, ", ") + "]}}"
	}
	i.apply(manifest(100))
	i.hello("many-1", "app=many", "http", 8080)
	second := i.hello("many-2", "app=many", "http", 8080)
	i.awaitBackends("many", 2)
	i.apply(manifest(101))
	i.portolan("wait", "service/many", "--applied", "--timeout", "60s")
	vip := i.vip("many")
	for _, port := range []int{1000, 1100} {
		if counts := spread(i.T, hostPort(vip, port), 20); counts["many-1"] != 10 || counts["many-2"] != 10 {
			i.Errorf("port %d: 20 requests went to %v, want 10 each", port, counts)
		}
	}
	if err := second.signal(syscall.SIGTERM); err != nil {
		i.Fatal(err)
	}
	kittest.Eventually(i.T, "the pod to leave the service", func() error {
		for range 4 {
			if name, err := get(hostPort(vip, 1100)); err != nil || name != "many-1" {
				return fmt.Errorf("%q, %v", name, err)
			}
		}
		return nil
	})
}

func (i *installation) udp() {
	address := i.network.IP("128.8")
	packets, err := net.ListenPacket("udp", address+":0")
	if err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() { _ = packets.Close() })
	go echoPackets(packets)
	i.apply(fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: datagrams}, spec: {ports: [{port: 9999, protocol: UDP}]}}
---
apiVersion: v1
kind: Endpoints
metadata: {name: datagrams}
subsets: [{addresses: [{ip: %s}], ports: [{port: %d, protocol: UDP}]}]
`, address, packets.LocalAddr().(*net.UDPAddr).Port))
	i.awaitBackends("datagrams", 1)
	vip := hostPort(i.vip("datagrams"), 9999)
	kittest.Eventually(i.T, "a datagram comes back", func() error {
		conn, err := net.Dial("udp", vip)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return echoes(conn, "over UDP", time.Second) // a datagram may be lost, so it is sent again
	})
}

func (i *installation) nodePort() {
	i.apply(`{apiVersion: v1, kind: Service, metadata: {name: outside}, spec: {type: NodePort, selector: {app: outside}, ports: [{port: 8080}]}}`)
	i.hello("o1", "app=outside", "http", 8080)
	i.awaitBackends("outside", 1)
	port := i.service("outside").GetSpec().GetPorts()[0].GetNodePort()
	if port < 30000 || port > 32767 {
		i.Fatalf("node port %d is outside the range", port)
	}
	if name, err := get(hostPort(i.network.Bind(), int(port))); err != nil || name != "o1" {
		i.Errorf("by the node port: %q, %v", name, err)
	}
}

func echo(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = conn.Close() }()
			_, _ = io.Copy(conn, conn)
		}()
	}
}

func echoPackets(packets net.PacketConn) {
	buffer := make([]byte, 2048)
	for {
		n, from, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		_, _ = packets.WriteTo(buffer[:n], from)
	}
}

func demandEcho(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if err := echoes(conn, text, patience); err != nil {
		t.Error(err)
	}
}

func echoes(conn net.Conn, text string, within time.Duration) error {
	_ = conn.SetDeadline(time.Now().Add(within))
	if _, err := conn.Write([]byte(text)); err != nil {
		return err
	}
	buffer := make([]byte, len(text))
	if _, err := io.ReadFull(conn, buffer); err != nil {
		return err
	}
	if string(buffer) != text {
		return fmt.Errorf("sent %q, got %q", text, buffer)
	}
	return nil
}
