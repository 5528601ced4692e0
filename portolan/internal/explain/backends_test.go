package explain

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// lyingAgent answers GetPlan with backends that it calls ready.
type lyingAgent struct {
	nodeagentv1.UnimplementedNodeAgentServiceServer

	backends []*nodeagentv1.RealServer
	reason   string // why it could not compare its view
}

func (a *lyingAgent) GetPlan(context.Context, *nodeagentv1.GetPlanRequest) (*nodeagentv1.GetPlanResponse, error) {
	return &nodeagentv1.GetPlanResponse{NotCompared: a.reason, VirtualServers: []*nodeagentv1.VirtualServer{
		{Address: "10.96.0.1", Port: 80, Programmed: true, RealServers: a.backends},
	}}, nil
}

// TestForeignBackendsBreakTheChain checks that a backend that is in no slice of the registry breaks the
// chain, even if its agent reports it as ready, and that backends that are being removed do not.
func TestForeignBackendsBreakTheChain(t *testing.T) {
	known := &corev1.EndpointSlice{
		Metadata:  &corev1.ObjectMeta{Name: "web-1", Labels: map[string]string{object.LabelServiceName: "web"}},
		Endpoints: []*corev1.Endpoint{{Addresses: []string{"10.0.0.1"}}, {Addresses: []string{"fd00:0::1"}}},
		Ports:     []*corev1.EndpointPort{{Port: new(int32(8080))}},
	}
	good := []*nodeagentv1.RealServer{
		{Address: "10.0.0.1", Port: 8080, Used: true, Reason: "ready"}, {Address: "fd00::1", Port: 8080, Used: true, Reason: "ready"},
		{Address: "10.0.0.7", Port: 8080, Used: true, Draining: true}, {Address: "10.0.0.8", Port: 8080, Reason: "not ready"},
	}
	for name, test := range map[string]struct {
		foreign *nodeagentv1.RealServer
		reason  string
		state   State
		text    string
	}{
		"none":                     {state: OK},
		"another address":          {foreign: &nodeagentv1.RealServer{Address: "10.0.0.66", Port: 8080, Used: true, Reason: "ready"}, state: Broken, text: "forwards to 10.0.0.66:8080, which no EndpointSlice of the registry has"},
		"another port":             {foreign: &nodeagentv1.RealServer{Address: "10.0.0.1", Port: 22, Used: true, Reason: "ready"}, state: Broken, text: "portolan node resync n1"},
		"agent without a registry": {reason: "the registry does not answer", state: Notice, text: "could not compare its view with the registry: the registry does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := &lyingAgent{backends: good, reason: test.reason}
			if test.foreign != nil {
				agent.backends = append(agent.backends[:len(good):len(good)], test.foreign)
			}
			dial := func(string, string) (*grpc.ClientConn, error) {
				return kittest.Conn(t, func(r grpc.ServiceRegistrar) { nodeagentv1.RegisterNodeAgentServiceServer(r, agent) }), nil
			}
			conn := kittest.Conn(t, func(r grpc.ServiceRegistrar) {
				registryv1.RegisterEndpointSliceServiceServer(r, sliceList{all: []*corev1.EndpointSlice{known}})
			})
			c := &explainer{Daemons: Daemons{Registry: conn, Dial: dial}, service: service()}
			if step := c.slices(t.Context()); step.State != OK {
				t.Fatalf("slices: %v", step)
			}
			step := Step{Title: "nodes", State: OK}
			c.node(t.Context(), &step, rollout.Node{Name: "n1", State: rollout.Programmed, Address: "192.0.2.1:7404"})
			checkStep(t, step, test.state, test.text)
		})
	}
}
