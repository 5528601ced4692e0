package edge_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	edgev1 "portolan.dev/api/edge/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/guard/guardtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"

	"portolan.dev/edge"
)

// world is a registry in memory with one edge.
type world struct {
	*testing.T
	log     *changestest.Log
	network *rpc.MemoryNetwork
	addr    string // of the registry
	cfg     edge.Config
	host    app.Host
	guard   *guardtest.World
	broken  func(step string, o guard.Object) bool // the work that panics from the start; nil: none
	api     edgev1.EdgeServiceClient
	stop    func() // stops the edge

	mu     sync.Mutex
	events []*corev1.Event
}

// newWorld returns a world with an edge that is not started yet, so that the test can change its configuration.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, log: changestest.New(t), network: rpc.Memory()}
	host := kittest.Host(t, w.network, "")
	srv := rpc.NewServer(rpc.ServerOptions{Log: host.Log, Metrics: host.Metrics, Health: host.Health})
	w.log.Register(srv)
	registryv1.RegisterEventServiceServer(srv, &eventServer{w: w})
	lis, err := w.network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = lis.Addr().String()
	kittest.Run(t, "registry", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	config.Defaults(&w.cfg)
	w.cfg.Addr, w.cfg.Registry, w.cfg.NATSPrefix = "127.0.0.1:0", w.addr, changestest.Prefix
	w.cfg.NodeName, w.cfg.Agent, w.cfg.StopTimeout = "here", "", 0
	w.cfg.LameDuck = 0 // there is no other node
	return w
}

// start runs the edge.
func (w *world) start() {
	w.Helper()
	w.host = kittest.Host(w, w.network, w.log.URL())
	if w.guard = guardtest.Of(w, w.host); w.broken != nil {
		w.guard.Break(w.broken)
	}
	d, err := edge.New(w.Context(), w.cfg, w.host)
	if err != nil {
		w.Fatal(err)
	}
	w.stop = kittest.Run(w.T, "edge", d.Run)
	conn, err := w.network.Dial(d.Addr().String())
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { conn.Close() })
	w.api = edgev1.NewEdgeServiceClient(conn)
}

// eventServer records Events.
type eventServer struct {
	registryv1.UnimplementedEventServiceServer
	w *world
}

// CreateEvent implements EventServiceServer.
func (s *eventServer) CreateEvent(_ context.Context, req *registryv1.CreateEventRequest) (*registryv1.CreateEventResponse, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.events = append(s.w.events, req.GetEvent())
	return &registryv1.CreateEventResponse{Event: req.GetEvent()}, nil
}

// wantEvent waits for an Event about a service with a text in its message.
func (w *world) wantEvent(service, reason, text string) {
	w.Helper()
	kittest.Eventually(w, "an Event "+reason, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, e := range w.events {
			if e.GetRegarding().GetName() == service && e.GetReason() == reason && strings.Contains(e.GetMessage(), text) {
				return nil
			}
		}
		return fmt.Errorf("the Events are %v", w.events)
	})
}

// annotations are annotations of a service, without Portolan's prefix unless their names have another
// one.
type annotations map[string]string

// balancerIP is the load-balancer address of all services of a world, each with ports of its own.
const balancerIP = "127.77.2.1"

// service puts a service of the class into the registry, with its endpoints, and waits until the edge serves it. It
// returns the address and port.
func (w *world) service(name string, a annotations, endpoints ...string) netip.AddrPort {
	w.Helper()
	frontend := freePort(w.T, balancerIP)
	w.log.Put(w.object(name, frontend, a), slice(name, endpoints...))
	w.waitFor(frontend, len(endpoints))
	return frontend
}

// object returns a service of the class.
func (w *world) object(name string, frontend netip.AddrPort, a annotations) *corev1.Service {
	all := map[string]string{}
	for key, value := range a {
		if !strings.Contains(key, "/") {
			key = balancer.Prefix + key
		}
		all[key] = value
	}
	class := balancer.ClassEdge
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Uid: name, Annotations: all, CreationTimestamp: timestamppb.New(time.Unix(1, 0))},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, LoadBalancerClass: &class, IpFamilies: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4},
			Ports: []*corev1.ServicePort{{Name: "main", Port: int32(frontend.Port()), Protocol: corev1.Protocol_PROTOCOL_TCP}},
		},
		Status: &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{
			Ingress: []*corev1.LoadBalancerIngress{{Ip: frontend.Addr().String(), IpMode: corev1.IPMode_IP_MODE_PROXY}},
		}},
	}
}

// slice returns the slice of a service. Endpoints are address:port, perhaps followed by @ZONE.
func slice(service string, endpoints ...string) *corev1.EndpointSlice {
	out := &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Namespace: "default", Name: service + "-1", Labels: map[string]string{object.LabelServiceName: service}},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
	}
	for _, text := range endpoints {
		text, zone, _ := strings.Cut(text, "@")
		at := netip.MustParseAddrPort(text)
		if name, port := "main", int32(at.Port()); len(out.Ports) == 0 {
			out.Ports = []*corev1.EndpointPort{{Name: &name, Port: &port, Protocol: corev1.Protocol_PROTOCOL_TCP}}
		} else if out.Ports[0].GetPort() != port {
			panic("all endpoints of a slice have the same port")
		}
		endpoint := &corev1.Endpoint{Addresses: []string{at.Addr().String()}}
		if zone != "" {
			endpoint.Zone = &zone
		}
		out.Endpoints = append(out.Endpoints, endpoint)
	}
	return out
}

// port returns the edge's state of a port, or an error if it is not open.
func (w *world) port(frontend netip.AddrPort) (*edgev1.Port, error) {
	status, err := w.api.GetStatus(w.Context(), &edgev1.GetStatusRequest{}, grpc.WaitForReady(true))
	if err != nil {
		return nil, err
	}
	for _, p := range status.GetPorts() {
		if p.GetFrontend() == frontend.String() {
			if !p.GetListening() {
				return p, fmt.Errorf("%s is not open: %s", frontend, p.GetError())
			}
			return p, nil
		}
	}
	return nil, fmt.Errorf("there is no port %s", frontend)
}

// waitFor waits until a port is open and has so many backends.
func (w *world) waitFor(frontend netip.AddrPort, backends int) {
	w.Helper()
	kittest.Eventually(w, frontend.String()+" is served", func() error {
		p, err := w.port(frontend)
		if err == nil && len(p.GetBackends()) != backends {
			err = fmt.Errorf("%d backends, want %d", len(p.GetBackends()), backends)
		}
		return err
	})
}

// freePort returns a port of an address that was free a moment before.
func freePort(t *testing.T, host string) netip.AddrPort {
	t.Helper()
	lis, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return netip.MustParseAddrPort(lis.Addr().String())
}

// backend serves connections at an address of its own until the test ends, and returns address and
// port.
func backend(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	return backendAt(t, "127.0.0.1:0", serve)
}

func backendAt(t *testing.T, addr string, serve func(net.Conn)) string {
	t.Helper()
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	go func() {
		for {
			conn, err := lis.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go func() {
					defer conn.Close()
					serve(conn)
				}()
			}
		}
	}()
	return lis.Addr().String()
}

// listenAt occupies a port.
func listenAt(t *testing.T, addr netip.AddrPort) net.Listener {
	t.Helper()
	lis, err := net.Listen("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lis.Close() })
	return lis
}

// metric returns the value of a gauge without labels.
func (w *world) metric(name string) float64 {
	w.Helper()
	families, err := w.host.Metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	w.Fatalf("there is no metric %s", name)
	return 0
}
