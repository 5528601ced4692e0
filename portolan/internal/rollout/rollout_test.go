package rollout_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/kittest"
)

// registry is a fake registry of nodes and agents.
type registry struct {
	registryv1.UnimplementedNodeServiceServer
	registryv1.UnimplementedAgentServiceServer
	nodes  []*corev1.Node
	agents []*registryv1.Agent
}

func (r *registry) ListNodes(context.Context, *registryv1.ListNodesRequest) (*registryv1.ListNodesResponse, error) {
	return &registryv1.ListNodesResponse{Nodes: r.nodes}, nil
}

func (r *registry) ListAgents(context.Context, *registryv1.ListAgentsRequest) (*registryv1.ListAgentsResponse, error) {
	return &registryv1.ListAgentsResponse{Agents: r.agents}, nil
}

// agent is a fake agent on which no service is programmed, for a given reason.
type agent struct {
	nodeagentv1.UnimplementedNodeAgentServiceServer
	errors []string
}

func (a *agent) GetPlan(context.Context, *nodeagentv1.GetPlanRequest) (*nodeagentv1.GetPlanResponse, error) {
	plan := &nodeagentv1.GetPlanResponse{}
	for _, text := range a.errors {
		plan.VirtualServers = append(plan.VirtualServers, &nodeagentv1.VirtualServer{Programmed: text == "", Error: text})
	}
	return plan, nil
}

const wanted = 10

// TestGetProgress checks a node in each state.
func TestGetProgress(t *testing.T) {
	beat := func(name string, change func(*nodeagentv1.Heartbeat)) *registryv1.Agent {
		b := &nodeagentv1.Heartbeat{Node: name, AppliedRevision: wanted, Synced: true, Address: name}
		if change != nil {
			change(b)
		}
		return &registryv1.Agent{Heartbeat: b, Alive: true}
	}
	silent := beat("silent", nil)
	silent.Alive, silent.AgeSeconds = false, 33.4
	gone := beat("gone", nil) // its Node was deleted
	gone.Alive = false
	r := &registry{
		nodes: []*corev1.Node{node("well"), node("behind"), node("alone"), node("failing"), node("sick"), node("many"), node("many-others"), node("mute"), node("silent"), node("never"),
			{Metadata: &corev1.ObjectMeta{Name: "by-hand"}}},
		agents: []*registryv1.Agent{
			beat("well", func(b *nodeagentv1.Heartbeat) { b.FailingServices = []string{"default/other"} }),
			beat("unwritten", nil),
			beat("behind", func(b *nodeagentv1.Heartbeat) { b.AppliedRevision = wanted - 1 }),
			beat("alone", func(b *nodeagentv1.Heartbeat) { b.AppliedRevision, b.Synced = 3, false }),
			beat("failing", func(b *nodeagentv1.Heartbeat) { b.FailingServices = []string{"default/other", "default/web"} }),
			beat("sick", func(b *nodeagentv1.Heartbeat) { b.NodeFailure = "set sources: no" }),
			beat("many", func(b *nodeagentv1.Heartbeat) { b.FailingServices, b.MoreFailingServices = []string{"a/b"}, 7 }),
			beat("many-others", func(b *nodeagentv1.Heartbeat) { b.FailingServices, b.MoreFailingServices = []string{"a/b"}, 7 }),
			beat("mute", func(b *nodeagentv1.Heartbeat) { b.FailingServices, b.MoreFailingServices = []string{"a/b"}, 7 }),
			silent, gone,
		},
	}
	conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) {
		registryv1.RegisterNodeServiceServer(s, r)
		registryv1.RegisterAgentServiceServer(s, r)
	})
	dial := func(node, address string) (*grpc.ClientConn, error) {
		errs := map[string][]string{"many": {"", "the port is taken"}, "many-others": {"", ""}, "failing": {"", "no room"}}[address]
		if errs == nil || node != address { // each of these agents has its node's name as its address
			return nil, errors.New("no way there")
		}
		return kittest.Conn(t, func(s grpc.ServiceRegistrar) {
			nodeagentv1.RegisterNodeAgentServiceServer(s, &agent{errors: errs})
		}), nil
	}
	question := rollout.Query{Namespace: "default", Name: "web", Revision: wanted, Dial: dial}
	progress, err := rollout.GetProgress(t.Context(), client.New(conn), question)
	if err != nil {
		t.Fatal(err)
	}
	want := []struct{ name, state, why string }{
		{"alone", "behind", "revision 3, and its agent works from its last view"},
		{"behind", "behind", "it is at revision 9"},
		{"failing", "failing", "portolan node plan failing web -n default"},
		{"many", "failing", "the port is taken"},
		{"many-others", "programmed", ""},
		{"mute", "silent", "does not say which: no way there"},
		{"never", "silent", "not been heard of since"},
		{"sick", "failing", "set sources: no"},
		{"silent", "silent", "for 33 s"},
		{"unwritten", "programmed", ""},
		{"well", "programmed", ""},
	}
	if len(progress.Nodes) != len(want) {
		t.Fatalf("%d nodes: %+v", len(progress.Nodes), progress.Nodes)
	}
	for i, w := range want {
		got := progress.Nodes[i]
		if got.Name != w.name || string(got.State) != w.state || !strings.Contains(got.Reason, w.why) || (got.Reason == "") != (w.why == "") {
			t.Errorf("node %d is %+v, want %+v", i, got, w)
		}
	}
	if progress.String() != "programmed on 3 of 11 nodes" || progress.Complete() || len(progress.Missing()) != 8 {
		t.Errorf("%s, complete %t, %d missing", progress, progress.Complete(), len(progress.Missing()))
	}
	progress.Explain(t.Context(), question, 10)
	i := slices.IndexFunc(progress.Nodes, func(n rollout.Node) bool { return n.Name == "failing" })
	if got := progress.Nodes[i].Reason; got != "no room" {
		t.Errorf("why it fails: %q", got)
	}
}

func TestNoNodesAreNotAllNodes(t *testing.T) {
	conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) {
		registryv1.RegisterNodeServiceServer(s, &registry{})
		registryv1.RegisterAgentServiceServer(s, &registry{})
	})
	progress, err := rollout.GetProgress(t.Context(), client.New(conn), rollout.Query{Namespace: "default", Name: "web"})
	if err != nil || progress.Complete() || progress.String() != "programmed on 0 of 0 nodes" {
		t.Errorf("%s, complete %t, %v", progress, progress.Complete(), err)
	}
}

func TestRevision(t *testing.T) {
	at := func(revision uint64) *corev1.ObjectMeta { return &corev1.ObjectMeta{ResourceVersion: revision} }
	slicesOf := []*corev1.EndpointSlice{{Metadata: at(7)}, {Metadata: at(9)}, {Metadata: at(3)}}
	if got := rollout.Revision(&corev1.Service{Metadata: at(5)}, slicesOf); got != 9 {
		t.Errorf("revision %d, want that of the newest slice", got)
	}
	if got := rollout.Revision(&corev1.Service{Metadata: at(12)}, slicesOf); got != 12 {
		t.Errorf("revision %d, want that of the service", got)
	}
}

func node(name string) *corev1.Node {
	return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}, Status: &corev1.NodeStatus{AgentVersion: "v1"}}
}
