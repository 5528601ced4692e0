package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/apierr"
)

// State is the state of a service on a node.
type State string

// States.
const (
	Programmed State = "programmed"
	Pending    State = "behind"  // the node has not reached the revision yet
	Failing    State = "failing" // the node has tried and failed
	Silent     State = "silent"  // unknown, because the node is not heard
)

// Node is the state of a service on one node, with its details.
type Node struct {
	Name    string
	State   State
	Reason  string // the reason if it is not programmed; otherwise empty
	Address string // of the agent's API; empty if the agent was never heard
	Mode    string // how the node forwards
	Applied uint64 // revision up to which the node has tried everything
}

// Progress holds the states of a service on all nodes in question.
type Progress struct {
	Revision uint64 // that nodes must reach
	Nodes    []Node // ordered by name
}

// Done returns the number of nodes on which the service is programmed.
func (p Progress) Done() int { return len(p.Nodes) - len(p.Missing()) }

// Missing returns the nodes on which the service is not programmed.
func (p Progress) Missing() []Node {
	return slices.DeleteFunc(slices.Clone(p.Nodes), func(n Node) bool { return n.State == Programmed })
}

// String returns a short summary.
func (p Progress) String() string {
	return fmt.Sprintf("programmed on %d of %d nodes", p.Done(), len(p.Nodes))
}

// Complete reports whether there are nodes, and the service is programmed on all of them.
func (p Progress) Complete() bool { return len(p.Nodes) > 0 && p.Done() == len(p.Nodes) }

// Revision returns the highest revision of a service and its slices.
func Revision(service *corev1.Service, endpointSlices []*corev1.EndpointSlice) uint64 {
	newest := service.GetMetadata().GetResourceVersion()
	for _, slice := range endpointSlices {
		newest = max(newest, slice.GetMetadata().GetResourceVersion())
	}
	return newest
}

// Query selects a service, a revision and nodes.
type Query struct {
	Namespace, Name string // of the service
	Revision        uint64 // that nodes must reach
	Nodes           string // label selector of the nodes; empty: all nodes with an agent
	// Dial connects to an agent. It is called only if a heartbeat is not detailed enough. If it is
	// nil, agents are not asked.
	Dial DialAgent
}

// GetProgress returns the progress by the nodes' last heartbeats.
func GetProgress(ctx context.Context, registry *client.Client, q Query) (Progress, error) {
	nodes, err := client.ListOf[*corev1.Node](ctx, registry, client.Query{Labels: q.Nodes})
	if err != nil {
		return Progress{}, err
	}
	listed, err := registryv1.NewAgentServiceClient(registry.Conn()).ListAgents(ctx, &registryv1.ListAgentsRequest{})
	if err != nil {
		return Progress{}, err
	}
	agents := map[string]*registryv1.Agent{}
	for _, agent := range listed.GetAgents() {
		agents[agent.GetHeartbeat().GetNode()] = agent
	}
	meant := map[string]bool{}
	for _, node := range nodes {
		if name := node.GetMetadata().GetName(); agents[name] != nil || node.GetStatus().GetAgentVersion() != "" || node.GetStatus().GetProxyMode() != "" {
			meant[name] = true
		}
	}
	for name, agent := range agents {
		if q.Nodes == "" && agent.GetAlive() { // the heartbeat came before the Node was written
			meant[name] = true
		}
	}
	progress := Progress{Revision: q.Revision}
	for name := range meant {
		progress.Nodes = append(progress.Nodes, q.nodeState(ctx, name, agents[name]))
	}
	slices.SortFunc(progress.Nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return progress, nil
}

// nodeState returns the state of the service on one node.
func (q *Query) nodeState(ctx context.Context, name string, agent *registryv1.Agent) Node {
	beat := agent.GetHeartbeat()
	node := Node{Name: name, Address: beat.GetAddress(), Mode: beat.GetProxyMode(), Applied: beat.GetAppliedRevision()}
	service := q.Namespace + "/" + q.Name
	switch {
	case agent == nil:
		node.State, node.Reason = Silent, "its agent has not been heard of since the registry started"
	case !agent.GetAlive():
		node.State, node.Reason = Silent, fmt.Sprintf("its agent has not been heard of for %.0f s; it may still forward what it has", agent.GetAgeSeconds())
	case beat.GetAppliedRevision() < q.Revision:
		node.State, node.Reason = Pending, fmt.Sprintf("it is at revision %d", beat.GetAppliedRevision())
		if !beat.GetSynced() {
			node.Reason += ", and its agent works from its last view: it does not reach the registry"
		}
	case beat.GetNodeFailure() != "":
		node.State, node.Reason = Failing, beat.GetNodeFailure()
	case slices.Contains(beat.GetFailingServices(), service):
		node.State, node.Reason = Failing, fmt.Sprintf("see: portolan node plan %s %s -n %s", name, q.Name, q.Namespace)
	case beat.GetMoreFailingServices() > 0:
		node.State, node.Reason = q.askAgent(ctx, beat)
	default:
		node.State = Programmed
	}
	return node
}

// askAgent asks an agent with more failing services than its heartbeat names.
func (q *Query) askAgent(ctx context.Context, beat *nodeagentv1.Heartbeat) (State, string) {
	if q.Dial == nil {
		return Failing, fmt.Sprintf("%d services fail there, more than it names", len(beat.GetFailingServices())+int(beat.GetMoreFailingServices()))
	}
	plan, err := Plan(ctx, q.Dial, beat.GetNode(), beat.GetAddress(), q.Namespace, q.Name)
	if err != nil {
		return Silent, fmt.Sprintf("many services fail there, and its agent at %s does not say which: %s", beat.GetAddress(), apierr.Describe(err))
	}
	if failure, failing := failureOf(plan); failing {
		return Failing, failure
	}
	return Programmed, ""
}

// failureOf returns the error of the first virtual server that is not programmed.
func failureOf(plan *nodeagentv1.GetPlanResponse) (failure string, failing bool) {
	for _, server := range plan.GetVirtualServers() {
		if !server.GetProgrammed() {
			return server.GetError(), true
		}
	}
	return "", false
}

// DialAgent connects to the agent of a node at an address. It refuses the agent of another node.
type DialAgent func(node, address string) (*grpc.ClientConn, error)

// Plan returns the plan of a service of the agent of a node.
func Plan(ctx context.Context, dial DialAgent, node, address, namespace, name string) (*nodeagentv1.GetPlanResponse, error) {
	conn, err := dial(node, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	return nodeagentv1.NewNodeAgentServiceClient(conn).GetPlan(ctx, &nodeagentv1.GetPlanRequest{Namespace: namespace, Name: name})
}

// Explain sets the reason on nodes where the service fails. It asks at most the given number of
// agents.
func (p Progress) Explain(ctx context.Context, q Query, maxAgents int) {
	for i := range p.Nodes {
		node := &p.Nodes[i]
		if node.State != Failing || node.Address == "" || q.Dial == nil {
			continue
		}
		if maxAgents--; maxAgents < 0 {
			return
		}
		plan, err := Plan(ctx, q.Dial, node.Name, node.Address, q.Namespace, q.Name)
		if err != nil {
			continue
		}
		if failure, failing := failureOf(plan); failing {
			node.Reason = failure
		}
	}
}

// UsedBackends returns the number of backends to which a virtual server sends traffic.
func UsedBackends(server *nodeagentv1.VirtualServer) int {
	used := 0
	for _, backend := range server.GetRealServers() {
		if backend.GetUsed() {
			used++
		}
	}
	return used
}
