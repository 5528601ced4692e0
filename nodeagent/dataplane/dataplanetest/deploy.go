package dataplanetest

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/nodeagent/plan"
)

// here is the name of the node in the plans.
const here = "here"

// Condition is the condition of an endpoint.
type Condition uint8

// The conditions.
const (
	Ready   Condition = iota
	Leaving           // terminating, but still serving
	Down              // not ready
)

// Endpoint is a backend of a service, with its node and its condition.
type Endpoint struct {
	Backend int
	Local   bool // on this node
	Is      Condition
}

// Deploy makes the plane forward a service according to the node agent's plan. The frontends are
// the service's cluster IP, external IP, load balancer IP and node port, under these names.
type Deploy struct {
	Internal, External corev1.TrafficPolicy // for internal and external traffic
	Endpoints          []Endpoint
	// NodeAddrs are the indexes of the node's addresses that serve node ports; nil: the first
	// address.
	NodeAddrs []int
}

// The frontends of a deployed service.
const (
	clusterIP      = "clusterIP"
	externalIP     = "externalIP"
	loadBalancerIP = "loadBalancerIP"
	nodePort       = "nodePort"
)

func (d Deploy) run(w *scenarioRun) error {
	res := plan.Build(d.service(w), d.slices(w), d.facts(w))
	if len(res.Problems) > 0 {
		return errors.New(res.Problems[0])
	}
	state := &plan.State{Servers: map[plan.Key]*plan.VirtualServer{}}
	for _, v := range res.Servers {
		state.Servers[v.Key] = v
	}
	return w.program(state)
}

func (d Deploy) facts(w *scenarioRun) *plan.Facts {
	facts := &plan.Facts{Node: here, Scheduler: plan.RoundRobin}
	all := w.rig.NodeAddrs(w.v6)
	if d.NodeAddrs == nil {
		facts.NodePorts = all[:1]
	}
	for _, n := range d.NodeAddrs {
		facts.NodePorts = append(facts.NodePorts, all[n])
	}
	slices.SortFunc(facts.NodePorts, netip.Addr.Compare)
	return facts
}

func (d Deploy) service(w *scenarioRun) *corev1.Service {
	at := func(name string, e plan.Exposure) netip.AddrPort { return w.frontendOf(name, e, w.v6).Addr }
	vip := at(clusterIP, plan.ClusterIP)
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "test", Name: "svc"},
		Spec: &corev1.ServiceSpec{
			Type:      corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER,
			ClusterIp: vip.Addr().String(), ClusterIps: []string{vip.Addr().String()},
			ExternalIps:           []string{at(externalIP, plan.ExternalIP).Addr().String()},
			InternalTrafficPolicy: d.Internal, ExternalTrafficPolicy: d.External,
			Ports: []*corev1.ServicePort{{
				Protocol: w.protocol.Proto(), Port: int32(vip.Port()), NodePort: int32(at(nodePort, plan.NodePort).Port()),
			}},
		},
		Status: &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{
			Ingress: []*corev1.LoadBalancerIngress{{Ip: at(loadBalancerIP, plan.LoadBalancerIP).Addr().String()}},
		}},
	}
}

// slices returns one slice for each endpoint, because backends may have different ports.
func (d Deploy) slices(w *scenarioRun) []*corev1.EndpointSlice {
	var out []*corev1.EndpointSlice
	for i, e := range d.Endpoints {
		at := w.backends[e.Backend].addr
		port, node := int32(at.Port()), here
		if !e.Local {
			node = "there"
		}
		ready, leaving := e.Is == Ready, e.Is == Leaving
		serving := ready || leaving
		slice := &corev1.EndpointSlice{
			Metadata:    &corev1.ObjectMeta{Namespace: "test", Name: fmt.Sprint("svc-", i)},
			AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
			Ports:       []*corev1.EndpointPort{{Protocol: w.protocol.Proto(), Port: &port}},
			Endpoints: []*corev1.Endpoint{{
				Addresses: []string{at.Addr().String()}, NodeName: &node,
				Conditions: &corev1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &leaving},
			}},
		}
		if at.Addr().Is6() {
			slice.AddressType = corev1.AddressType_ADDRESS_TYPE_IPV6
		}
		out = append(out, slice)
	}
	return out
}

// AtNode connects to the node port of a deployed service at one of the node's addresses.
type AtNode struct {
	Client
	Addr int
	Want []int // backends that may answer; none: the connection must be refused
}

func (a AtNode) run(w *scenarioRun) error {
	at := netip.AddrPortFrom(w.rig.NodeAddrs(w.v6)[a.Addr], w.frontend(nodePort).Addr.Port())
	n, _, err := w.tryAt(a.Client, at, patience)
	switch {
	case len(a.Want) == 0 && err == nil:
		return fmt.Errorf("%s: served by %d", at, n)
	case len(a.Want) == 0 && refused(err):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", at, err)
	case !slices.Contains(a.Want, n):
		return fmt.Errorf("%s: served by %d, want %v", at, n, a.Want)
	}
	return nil
}
