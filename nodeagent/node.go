package nodeagent

import (
	"context"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/proto/portolan/core/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/obs"
)

const zoneLabel = "topology.kubernetes.io/zone"

const (
	registerTimeout  = 10 * time.Second
	registerRetryMin = 200 * time.Millisecond
	registerRetryMax = 10 * time.Second
	registerQuiet    = time.Second // not worth a line: daemons that start together wait for one another
	assertEvery      = 10 * time.Second
)

// registrar keeps the node's object in the registry: it is created if missing,
// and its status is what the agent knows better than anybody else. Labels and
// spec belong to the operator once the object is there.
//
// The object is looked at when the agent starts, when the node's addresses
// change, and when the object itself does: somebody who deletes the Node of a
// running agent finds it back.
type registrar struct {
	agent  *Agent
	client registryv1.NodeServiceClient
	wake   chan struct{}

	mu       sync.Mutex
	addrs    addresses
	asserted time.Time // when the node was last called ready
}

func newRegistrar(a *Agent) *registrar {
	return &registrar{agent: a, client: registryv1.NewNodeServiceClient(a.registry), wake: make(chan struct{}, 1)}
}

func (r *registrar) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *registrar) setAddresses(a addresses) {
	r.mu.Lock()
	changed := !slices.Equal(r.addrs.node, a.node)
	r.addrs = a
	r.mu.Unlock()
	if changed {
		r.poke()
	}
}

func (r *registrar) addresses() addresses {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addrs
}

// run registers the node whenever it is told to, until it works.
func (r *registrar) run(ctx context.Context) error {
	pause := registerRetryMin
	outage := obs.Outage{Log: r.agent.log, Down: "node not registered, trying on", Up: "node registered", Tolerate: registerQuiet}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
		err := r.register(ctx)
		if err == nil {
			outage.Over()
			pause = registerRetryMin
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		outage.Failed(err)
		if !app.Pause(ctx, pause) {
			return nil
		}
		pause = min(2*pause, registerRetryMax)
		r.poke()
	}
}

// register brings the registry's object to what it should be.
func (r *registrar) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	node, err := r.getOrCreate(ctx)
	if err != nil {
		return err
	}
	if !r.update(node) {
		return nil
	}
	_, err = r.client.UpdateNodeStatus(ctx, &registryv1.UpdateNodeStatusRequest{Node: node})
	return err
}

func (r *registrar) getOrCreate(ctx context.Context) (*corev1.Node, error) {
	res, err := r.client.GetNode(ctx, &registryv1.GetNodeRequest{Name: r.agent.name})
	if err == nil {
		return res.GetNode(), nil
	}
	if status.Code(err) != codes.NotFound {
		return nil, err
	}
	created, err := r.client.CreateNode(ctx, &registryv1.CreateNodeRequest{Node: &corev1.Node{
		Metadata: &corev1.ObjectMeta{Name: r.agent.name, Labels: r.agent.cfg.labels()},
	}})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.asserted = time.Time{} // a new object says nothing yet
	r.mu.Unlock()
	r.agent.log.Info("node registered")
	return created.GetNode(), nil
}

// update fills in the status, and tells whether that changed anything.
func (r *registrar) update(node *corev1.Node) bool {
	before := node.GetStatus().CloneVT()
	if node.Status == nil {
		node.Status = &corev1.NodeStatus{}
	}
	s := node.Status
	s.Addresses = nodeAddresses(r.agent.name, r.addresses().node)
	s.ProxyMode, s.AgentAddress, s.AgentVersion = r.agent.plane.Name(), r.agentAddress(), version()
	s.KernelVersion = kernelVersion()
	if !ready(node) && r.mayAssert() {
		setReady(s)
	}
	return !s.EqualVT(before)
}

// mayAssert tells whether the agent may call its node ready: when it starts, and
// later, now and then, while its heartbeats go out. Who does not hear them has a
// reason to call the node lost, and must not be contradicted all the time.
func (r *registrar) mayAssert() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asserted.IsZero() && (!r.agent.nats.IsConnected() || time.Since(r.asserted) < assertEvery) {
		return false
	}
	r.asserted = time.Now()
	return true
}

// ready tells whether a Node is called ready.
func ready(n *corev1.Node) bool {
	return slices.ContainsFunc(n.GetStatus().GetConditions(), func(c *corev1.Condition) bool {
		return c.GetType() == "Ready" && c.GetStatus() == corev1.ConditionStatus_CONDITION_STATUS_TRUE
	})
}

// setReady says that the agent runs. That it does not is for others to say.
func setReady(s *corev1.NodeStatus) {
	i := slices.IndexFunc(s.Conditions, func(c *corev1.Condition) bool { return c.GetType() == "Ready" })
	if i < 0 {
		s.Conditions = append(s.Conditions, &corev1.Condition{Type: "Ready"})
		i = len(s.Conditions) - 1
	}
	c := s.Conditions[i]
	c.Status, c.LastTransitionTime = corev1.ConditionStatus_CONDITION_STATUS_TRUE, timestamppb.Now()
	c.Reason, c.Message = "AgentRunning", "the node agent runs"
}

// nodeAddresses lists addresses as a Node does.
func nodeAddresses(name string, addrs []netip.Addr) []*corev1.NodeAddress {
	var out []*corev1.NodeAddress
	for _, a := range addrs {
		out = append(out, &corev1.NodeAddress{Type: "InternalIP", Address: a.String()})
	}
	return append(out, &corev1.NodeAddress{Type: "Hostname", Address: name})
}

// agentAddress is where others reach the agent's API: what the configuration
// says, or where it listens; a socket on all addresses is reached at the first
// of the node.
func (r *registrar) agentAddress() string {
	if r.agent.cfg.AdvertiseAddr != "" {
		return r.agent.cfg.AdvertiseAddr
	}
	listening := r.agent.lis.Addr().String()
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return listening
	}
	ip, err := netip.ParseAddr(host)
	if addrs := r.addresses().node; err == nil && ip.IsUnspecified() && len(addrs) > 0 {
		return net.JoinHostPort(addrs[0].String(), port)
	}
	return listening
}

// labels are those of a new Node object.
func (c *Config) labels() map[string]string {
	labels := map[string]string{}
	for _, l := range c.NodeLabels {
		key, value, _ := strings.Cut(l, "=")
		labels[key] = value
	}
	return labels
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func kernelVersion() string {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return ""
	}
	var b strings.Builder
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}
