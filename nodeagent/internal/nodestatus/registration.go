package nodestatus

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/wake"
	"portolan.dev/services/object"
)

const (
	registerTimeout  = 10 * time.Second
	registerRetryMin = 200 * time.Millisecond
	registerRetryMax = 10 * time.Second
	// registerQuiet is the length of outages that are not logged, because daemons that start
	// together wait for each other.
	registerQuiet = time.Second
	readyInterval = 10 * time.Second
)

// RegistrationOptions are the parts of the Node's status that do not change, and the means to write
// it.
type RegistrationOptions struct {
	Name      string            // of the node
	Labels    map[string]string // of a new Node
	ProxyMode string
	// AdvertiseAddr is the configured address of the agent's API. Empty: the address that the API
	// listens on.
	AdvertiseAddr string
	Listening     net.Addr // of the agent's API
	// Connected reports whether the agent can publish heartbeats.
	Connected func() bool
	Client    registryv1.NodeServiceClient
	Log       *slog.Logger
}

// Registration maintains the node's object in the registry. It creates the object if it is missing,
// and writes the status that the agent reports. Labels and spec belong to the operator once the
// object exists.
//
// The registration compares the object when the agent starts, when the node's addresses change, and
// when the object changes. So if the Node of a running agent is deleted, it is created again.
type Registration struct {
	opts RegistrationOptions
	wake wake.Signal

	mu         sync.Mutex
	addrs      []netip.Addr // the main one first
	setReadyAt time.Time    // when the agent last set the node ready
}

// NewRegistration returns a registration. It does nothing before Run.
func NewRegistration(opts RegistrationOptions) *Registration {
	return &Registration{opts: opts, wake: wake.New()}
}

// Wake makes the registration compare the Node with its status.
func (r *Registration) Wake() {
	r.wake.Send()
}

// SetAddresses sets the node's addresses, the main one first.
func (r *Registration) SetAddresses(addrs []netip.Addr) {
	r.mu.Lock()
	changed := !slices.Equal(r.addrs, addrs)
	r.addrs = addrs
	r.mu.Unlock()
	if changed {
		r.Wake()
	}
}

func (r *Registration) addresses() []netip.Addr {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addrs
}

// Run registers the node whenever it is woken, and retries until that succeeds.
func (r *Registration) Run(ctx context.Context) error {
	pause := registerRetryMin
	outage := obs.Outage{Log: r.opts.Log, Down: "node not registered, still trying", Up: "node registered", Tolerate: registerQuiet}
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
		r.Wake()
	}
}

// register updates the registry's object.
func (r *Registration) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	node, err := r.getOrCreate(ctx)
	if err != nil {
		return err
	}
	stored := node.GetStatus().CloneVT()
	if !r.update(node) {
		return nil
	}
	return r.write(ctx, node, stored)
}

// write replaces the stored status. The registry refuses an address that another node has already, or that no
// node may have, such as the address of a bridge that exists on every machine. The status is then written
// without it. Otherwise a node that claims a foreign address could keep that address's owner from
// becoming ready.
func (r *Registration) write(ctx context.Context, node *corev1.Node, stored *corev1.NodeStatus) error {
	update := func() error {
		_, err := r.opts.Client.UpdateNodeStatus(ctx, &registryv1.UpdateNodeStatusRequest{Node: node})
		return err
	}
	err := update()
	refused := refusedAddresses(err, node.GetStatus().GetAddresses())
	if len(refused) == 0 {
		return err
	}
	node.Status.Addresses = slices.DeleteFunc(node.GetStatus().GetAddresses(), func(a *corev1.NodeAddress) bool { return slices.Contains(refused, a) })
	if node.GetStatus().EqualVT(stored) {
		return nil // a write would wake the registration again
	}
	r.opts.Log.Warn("addresses of this node are left out of its status", "reason", apierr.Describe(err))
	return update()
}

// refusedAddresses returns the addresses that an error of the registry is about.
func refusedAddresses(err error, addresses []*corev1.NodeAddress) []*corev1.NodeAddress {
	var refused []*corev1.NodeAddress
	for _, violation := range apierr.ViolationsOf(err) {
		for i, address := range addresses {
			if violation.Field == fmt.Sprintf("status.addresses[%d].address", i) {
				refused = append(refused, address)
			}
		}
	}
	return refused
}

func (r *Registration) getOrCreate(ctx context.Context) (*corev1.Node, error) {
	res, err := r.opts.Client.GetNode(ctx, &registryv1.GetNodeRequest{Name: r.opts.Name})
	if err == nil {
		return res.GetNode(), nil
	}
	if status.Code(err) != codes.NotFound {
		return nil, err
	}
	created, err := r.opts.Client.CreateNode(ctx, &registryv1.CreateNodeRequest{Node: &corev1.Node{
		Metadata: &corev1.ObjectMeta{Name: r.opts.Name, Labels: r.opts.Labels},
	}})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.setReadyAt = time.Time{} // a new object has no conditions yet
	r.mu.Unlock()
	r.opts.Log.Info("node registered")
	return created.GetNode(), nil
}

// update sets the status and reports whether that changed anything.
func (r *Registration) update(node *corev1.Node) bool {
	before := node.GetStatus().CloneVT()
	if node.Status == nil {
		node.Status = &corev1.NodeStatus{}
	}
	s := node.Status
	s.Addresses = nodeAddresses(r.opts.Name, r.addresses())
	s.ProxyMode, s.AgentAddress, s.AgentVersion = r.opts.ProxyMode, r.AgentAddress(), obs.Release()
	s.KernelVersion = kernelVersion()
	if !Ready(node) && r.maySetReady() {
		setReady(s)
	}
	return !s.EqualVT(before)
}

// maySetReady reports whether the agent may set its node ready: when it starts, and later at
// intervals while it can publish heartbeats. If the endpoint controller does not receive the
// heartbeats, it has a reason to mark the node as lost, and the agent must not contradict it all
// the time.
func (r *Registration) maySetReady() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.setReadyAt.IsZero() && (!r.opts.Connected() || time.Since(r.setReadyAt) < readyInterval) {
		return false
	}
	r.setReadyAt = time.Now()
	return true
}

// Ready reports whether a Node is marked as ready.
func Ready(n *corev1.Node) bool {
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

// AgentAddress returns the address of the agent's API: the configured address, or otherwise the address of its
// listener. If it listens on all addresses, AgentAddress returns the first address of the node.
func (r *Registration) AgentAddress() string {
	if r.opts.AdvertiseAddr != "" {
		return r.opts.AdvertiseAddr
	}
	listening := r.opts.Listening.String()
	host, port, err := net.SplitHostPort(listening)
	if err != nil {
		return listening
	}
	ip, err := netip.ParseAddr(host)
	if addrs := r.addresses(); err == nil && ip.IsUnspecified() && len(addrs) > 0 {
		return net.JoinHostPort(addrs[0].String(), port)
	}
	return listening
}
