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

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/object"
)

const (
	registerTimeout  = 10 * time.Second
	registerRetryMin = 200 * time.Millisecond
	registerRetryMax = 10 * time.Second
	// registerQuiet is the length of outages that are not logged, because daemons that start
	// together wait for each other.
	registerQuiet = time.Second
	assertEvery   = 10 * time.Second
)

// registrar maintains the node's object in the registry. It creates the object if it is missing,
// and writes the status that the agent reports. Labels and spec belong to the operator once the
// object exists.
//
// The registrar compares the object when the agent starts, when the node's addresses change, and
// when the object changes. So if the Node of a running agent is deleted, it is created again.
type registrar struct {
	agent  *Agent
	client registryv1.NodeServiceClient
	wake   chan struct{}

	mu       sync.Mutex
	addrs    addresses
	asserted time.Time // when the agent last set the node ready
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

// run registers the node whenever it is woken, and retries until that succeeds.
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

// register updates the registry's object.
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
	r.asserted = time.Time{} // a new object has no conditions yet
	r.mu.Unlock()
	r.agent.log.Info("node registered")
	return created.GetNode(), nil
}

// update sets the status and reports whether that changed anything.
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

// mayAssert reports whether the agent may set its node ready: when it starts, and later at
// intervals while it can publish heartbeats. If the endpoint controller does not receive the
// heartbeats, it has a reason to mark the node as lost, and the agent must not contradict it all
// the time.
func (r *registrar) mayAssert() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.asserted.IsZero() && (!r.agent.nats.IsConnected() || time.Since(r.asserted) < assertEvery) {
		return false
	}
	r.asserted = time.Now()
	return true
}

// ready reports whether a Node is marked as ready.
func ready(n *corev1.Node) bool {
	return object.IsReady(n.GetStatus().GetConditions())
}

// setReady sets the condition Ready to true. Only other programs set it to false.
func setReady(s *corev1.NodeStatus) {
	c := object.Condition(s.Conditions, object.ConditionReady)
	if c == nil {
		c = &corev1.Condition{Type: object.ConditionReady}
		s.Conditions = append(s.Conditions, c)
	}
	c.Status, c.LastTransitionTime = corev1.ConditionStatus_CONDITION_STATUS_TRUE, timestamppb.Now()
	c.Reason, c.Message = "AgentRunning", "the node agent runs"
}

// nodeAddresses converts addresses to the form of a Node.
func nodeAddresses(name string, addrs []netip.Addr) []*corev1.NodeAddress {
	var out []*corev1.NodeAddress
	for _, a := range addrs {
		out = append(out, &corev1.NodeAddress{Type: "InternalIP", Address: a.String()})
	}
	return append(out, &corev1.NodeAddress{Type: "Hostname", Address: name})
}

// agentAddress returns the address of the agent's API: the configured one, or the one that it
// listens on. A socket on all addresses is reached at the first address of the node.
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

// labels returns the labels of a new Node object.
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
