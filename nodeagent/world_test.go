package nodeagent_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"

	"portolan.dev/nodeagent"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/kit/guard/guardtest"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

// world is a registry in memory with the surroundings of an agent.
type world struct {
	t       *testing.T
	log     *changestest.Log
	network *rpc.MemoryNetwork
	addr    string // of the registry
	events  chan *corev1.Event
	stop    func()   // stops the registry
	host    app.Host // of the last agent that was started
	guard   *guardtest.World
	broken  func(step string, o guard.Object) bool // the work that panics from the start of an agent; nil: none
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, log: changestest.New(t), network: rpc.Memory(), events: make(chan *corev1.Event, 1000)}
	log := kittest.Logger(t)
	srv := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log)})
	w.log.Register(srv)
	registryv1.RegisterNodeServiceServer(srv, &nodes{w: w})
	registryv1.RegisterPodServiceServer(srv, &pods{w: w})
	registryv1.RegisterEventServiceServer(srv, &events{w: w})
	lis, err := w.network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.addr = lis.Addr().String()
	w.stop = kittest.Run(t, "registry", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	return w
}

// config returns the configuration of an agent in this world.
func (w *world) config() nodeagent.Config {
	cfg := defaults()
	cfg.Addr, cfg.Registry, cfg.NATSPrefix = "127.0.0.1:0", w.addr, changestest.Prefix
	cfg.NodeName, cfg.NodeAddresses = "here", []string{"127.0.0.1"}
	cfg.HeartbeatInterval = 50 * time.Millisecond
	cfg.ProxyMode = "userspace" // auto would program the machine's kernel if possible
	// Without a data directory an agent looks for state that another agent of this machine has left
	// in its kernel.
	cfg.DataDir = w.t.TempDir()
	return cfg
}

// start runs an agent after calling the prepare functions on it, and returns a client. See
// nodeagent.NewPrepared.
func (w *world) start(cfg nodeagent.Config, prepare ...func(*nodeagent.Daemon)) (*nodeagent.Daemon, nodeagentv1.NodeAgentServiceClient, func()) {
	w.t.Helper()
	w.host = kittest.Host(w.t, w.network, w.log.URL())
	if w.guard = guardtest.Of(w.t, w.host); w.broken != nil {
		w.guard.Break(w.broken)
	}
	agent, err := nodeagent.NewPrepared(cfg, w.host, prepare...)
	if err != nil {
		w.t.Fatal(err)
	}
	stop := kittest.Run(w.t, "agent", agent.Run)
	conn, err := w.network.Dial(agent.APIAddr())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return agent, nodeagentv1.NewNodeAgentServiceClient(conn), stop
}

// applied waits until an agent has programmed the registry's last revision.
func (w *world) applied(client nodeagentv1.NodeAgentServiceClient) *nodeagentv1.GetStatusResponse {
	w.t.Helper()
	head := w.log.Revision()
	var res *nodeagentv1.GetStatusResponse
	kittest.Eventually(w.t, fmt.Sprintf("revision %d to be applied", head), func() error {
		var err error
		if res, err = client.GetStatus(w.t.Context(), &nodeagentv1.GetStatusRequest{}); err != nil {
			return err
		}
		if res.GetAppliedRevision() < head || !res.GetSynced() {
			return fmt.Errorf("at %d, synced %t", res.GetAppliedRevision(), res.GetSynced())
		}
		return nil
	})
	return res
}

// beats returns a channel of all heartbeats from now on.
func (w *world) beats() <-chan *nodeagentv1.Heartbeat {
	w.t.Helper()
	beats := make(chan *nodeagentv1.Heartbeat, 1000)
	stop, err := changes.SubscribeHeartbeats(w.log.NATS(), changestest.Prefix, func(b *nodeagentv1.Heartbeat) {
		select {
		case beats <- b:
		default:
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { stop() })
	return beats
}

// beat waits for a heartbeat that satisfies check.
func (w *world) beat(what string, beats <-chan *nodeagentv1.Heartbeat, check func(*nodeagentv1.Heartbeat) bool) *nodeagentv1.Heartbeat {
	w.t.Helper()
	var found *nodeagentv1.Heartbeat
	kittest.Eventually(w.t, what, func() error {
		if found = kittest.Receive(w.t, "a heartbeat", beats); !check(found) {
			return fmt.Errorf("heartbeat %v", found)
		}
		return nil
	})
	return found
}

// event waits for an event with a reason.
func (w *world) event(reason string) *corev1.Event {
	w.t.Helper()
	for {
		if e := kittest.Receive(w.t, "an event "+reason, w.events); e.GetReason() == reason {
			return e
		}
	}
}

// metric returns the value of a metric, without labels or with the given one. For a histogram it
// returns the count and the sum.
func (w *world) metric(name string, label ...string) (value, sum float64) {
	w.t.Helper()
	families, err := w.host.Metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "portolan_nodeagent_"+name {
			continue
		}
		for _, m := range f.GetMetric() {
			if len(label) > 0 && !strings.Contains(fmt.Sprint(m.GetLabel()), `"`+label[0]+`"`) {
				continue
			}
			if h := m.GetHistogram(); h != nil {
				return float64(h.GetSampleCount()), h.GetSampleSum()
			}
			return m.GetGauge().GetValue() + m.GetCounter().GetValue(), 0
		}
	}
	return 0, 0
}

// nodes is the part of the registry's NodeService that an agent uses.
type nodes struct {
	registryv1.UnimplementedNodeServiceServer
	w *world
}

func nodeKey(name string) object.Key { return object.Key{Kind: "Node", Name: name} }

func (s *nodes) GetNode(_ context.Context, req *registryv1.GetNodeRequest) (*registryv1.GetNodeResponse, error) {
	n, ok := s.w.log.Get(nodeKey(req.GetName())).(*corev1.Node)
	if !ok {
		return nil, apierr.NotFound("Node", req.GetName())
	}
	return &registryv1.GetNodeResponse{Node: n.CloneVT()}, nil
}

func (s *nodes) CreateNode(_ context.Context, req *registryv1.CreateNodeRequest) (*registryv1.CreateNodeResponse, error) {
	s.w.log.Put(req.GetNode())
	return &registryv1.CreateNodeResponse{Node: s.w.log.Get(object.KeyOf(req.GetNode())).(*corev1.Node).CloneVT()}, nil
}

func (s *nodes) UpdateNodeStatus(_ context.Context, req *registryv1.UpdateNodeStatusRequest) (*registryv1.UpdateNodeStatusResponse, error) {
	s.w.log.Change(nodeKey(req.GetNode().GetMetadata().GetName()), func(o object.Object) {
		o.(*corev1.Node).Status = req.GetNode().GetStatus().CloneVT()
	})
	return &registryv1.UpdateNodeStatusResponse{Node: req.GetNode()}, nil
}

// pods is the part of the registry's PodService that an agent uses.
type pods struct {
	registryv1.UnimplementedPodServiceServer
	w *world
}

func (s *pods) GetPod(_ context.Context, req *registryv1.GetPodRequest) (*registryv1.GetPodResponse, error) {
	p, ok := s.w.log.Get(object.Key{Kind: "Pod", Namespace: req.GetNamespace(), Name: req.GetName()}).(*corev1.Pod)
	if !ok {
		return nil, apierr.NotFound("Pod", req.GetName())
	}
	return &registryv1.GetPodResponse{Pod: p.CloneVT()}, nil
}

func (s *pods) UpdatePodStatus(_ context.Context, req *registryv1.UpdatePodStatusRequest) (*registryv1.UpdatePodStatusResponse, error) {
	s.w.log.Change(object.KeyOf(req.GetPod()), func(o object.Object) {
		o.(*corev1.Pod).Status = req.GetPod().GetStatus().CloneVT()
	})
	return &registryv1.UpdatePodStatusResponse{Pod: req.GetPod()}, nil
}

// events is the part of the registry's EventService that an agent uses.
type events struct {
	registryv1.UnimplementedEventServiceServer
	w *world
}

func (s *events) CreateEvent(_ context.Context, req *registryv1.CreateEventRequest) (*registryv1.CreateEventResponse, error) {
	s.w.events <- req.GetEvent()
	return &registryv1.CreateEventResponse{Event: req.GetEvent()}, nil
}

var _ grpc.ServiceRegistrar = (*rpc.Server)(nil)

// freePort returns an address in 127.96.0.0/11 that nothing else in this test uses, with a free
// port.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	addr := netip.AddrFrom4([4]byte{127, 96 + byte(rand.N(32)), byte(rand.N(256)), byte(1 + rand.N(254))})
	lis, err := net.Listen("tcp", netip.AddrPortFrom(addr, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer lis.Close()
	return lis.Addr().(*net.TCPAddr).AddrPort()
}

// backend starts a backend that answers every line with its name.
func backend(t *testing.T, name string) netip.AddrPort {
	t.Helper()
	lis := kittest.Listen(t)
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for r := bufio.NewReader(conn); ; {
					if _, err := r.ReadString('\n'); err != nil {
						return
					}
					io.WriteString(conn, name+"\n")
				}
			}()
		}
	}()
	return lis.Addr().(*net.TCPAddr).AddrPort()
}

// ask returns the name of the backend behind an address.
func ask(at netip.AddrPort) (string, error) {
	conn, err := net.Dial("tcp", at.String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, "who\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

// service returns a service with one address.
func service(name string, at netip.AddrPort) *corev1.Service {
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP, ClusterIp: at.Addr().String(), ClusterIps: []string{at.Addr().String()},
			Ports: []*corev1.ServicePort{{Protocol: corev1.Protocol_PROTOCOL_TCP, Port: int32(at.Port())}},
		},
	}
}

// endpoints returns a slice of a service with one backend on a node.
func endpoints(service, node string, at netip.AddrPort) *corev1.EndpointSlice {
	ready, port := true, int32(at.Port())
	return &corev1.EndpointSlice{
		Metadata: &corev1.ObjectMeta{
			Namespace: "default", Name: service + "-" + node, Labels: map[string]string{"kubernetes.io/service-name": service},
		},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
		Ports:       []*corev1.EndpointPort{{Protocol: corev1.Protocol_PROTOCOL_TCP, Port: &port}},
		Endpoints: []*corev1.Endpoint{{
			Addresses: []string{at.Addr().String()}, NodeName: &node, Conditions: &corev1.EndpointConditions{Ready: &ready},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: service + "-pod"},
		}},
	}
}
