package explain

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/client"
	"portolan.dev/services/spec"
)

// nodes reports by heartbeats on which nodes the service is programmed. It also asks the agents of
// some nodes for their plan of the service, first those where it is not programmed.
func (c *explainer) nodes(ctx context.Context) Step {
	step := Step{Title: "nodes", State: OK}
	meta := c.service.GetMetadata()
	if label := spec.ForeignProxy(meta.GetLabels()); label != "" {
		step.addLine("node agents leave the service to another proxy, because it has the label %s", label)
		step.setState(Notice, "without the label the node agents forward it")
		return step
	}
	progress, err := rollout.GetProgress(ctx, client.New(c.Registry), rollout.Query{
		Namespace: meta.GetNamespace(), Name: meta.GetName(), Revision: max(c.newest, meta.GetResourceVersion()), Dial: c.Dial,
	})
	if err != nil {
		return noAnswer(step, "registry", err)
	}
	if len(progress.Nodes) == 0 {
		step.setState(Broken, "no node agent has been heard of; start one on each node")
		return step
	}
	step.addLine("%s, at revision %d", progress, progress.Revision)
	slices.SortStableFunc(progress.Nodes, func(a, b rollout.Node) int { return cmp.Compare(urgency[b.State], urgency[a.State]) })
	for i, node := range progress.Nodes {
		if i == maxShown {
			step.addLine("and %d more nodes, of which the service is programmed on %d", len(progress.Nodes)-maxShown, rollout.Progress{Nodes: progress.Nodes[maxShown:]}.Done())
			break
		}
		c.node(ctx, &step, node)
	}
	for _, node := range progress.Missing() { // also for nodes that are not shown
		setNodeState(&step, node)
	}
	return step
}

// urgency orders the nodes: those that need attention come first.
var urgency = map[rollout.State]int{rollout.Programmed: 0, rollout.Pending: 1, rollout.Silent: 2, rollout.Failing: 3}

func (c *explainer) node(ctx context.Context, step *Step, node rollout.Node) {
	line := fmt.Sprintf("node %s: %s, applied revision %d", node.Name, cmp.Or(node.Mode, "no agent"), node.Applied)
	if node.State != rollout.Programmed {
		line += ", " + string(node.State) + ": " + node.Reason
	}
	step.addLine("%s", line)
	if node.State == rollout.Silent || node.Address == "" {
		return
	}
	meta := c.service.GetMetadata()
	plan, err := rollout.Plan(ctx, c.Dial, node.Name, node.Address, meta.GetNamespace(), meta.GetName())
	if err != nil {
		*step = noAnswer(*step, "the agent of "+node.Name, err)
		return
	}
	if plan.GetNotCompared() != "" {
		step.addLine("  the agent could not compare its view with the registry: %s", plan.GetNotCompared())
		step.setState(Notice, node.Name+" may forward by changes that the registry does not have")
	}
	c.checkBackends(ctx, step, node, plan)
	if len(plan.GetVirtualServers()) == 0 {
		step.addLine("  nothing is programmed")
		step.setState(Broken, "the agent of "+node.Name+" has no virtual server for the service; its log says why")
	}
	for _, server := range plan.GetVirtualServers() {
		describeServer(step, server)
	}
	for i, pending := range plan.GetPending() {
		if i == maxShown {
			step.addLine("  and %d more steps", len(plan.GetPending())-maxShown)
			break
		}
		step.addLine("  not done: %s: %s", pending.GetStep(), pending.GetReason())
	}
}

// setNodeState sets the state of the step for a node on which the service is not programmed.
func setNodeState(step *Step, node rollout.Node) {
	switch node.State {
	case rollout.Failing:
		step.setState(Broken, node.Name+": "+node.Reason)
	case rollout.Silent:
		step.setState(Unknown, "is the agent of "+node.Name+" running?")
	case rollout.Pending:
		step.setState(Notice, "portolan wait says when "+node.Name+" has come to the revision")
	}
}

func describeServer(step *Step, server *nodeagentv1.VirtualServer) {
	where := fmt.Sprintf("%s/%s", net.JoinHostPort(server.GetAddress(), strconv.Itoa(int(server.GetPort()))), spec.EnumName(server.GetProtocol()))
	step.addLine("  %s (%s, %s): %d of %d backends in use", where, server.GetExposure(), spec.EnumName(server.GetScheduler()),
		rollout.UsedBackends(server), len(server.GetRealServers()))
	for i, backend := range server.GetRealServers() {
		if i == maxShown {
			step.addLine("    and %d more", len(server.GetRealServers())-maxShown)
			break
		}
		step.addLine("    %s %s", net.JoinHostPort(backend.GetAddress(), strconv.Itoa(int(backend.GetPort()))), backend.GetReason())
	}
	if !server.GetProgrammed() {
		step.addLine("    not programmed")
		step.setState(Broken, server.GetError())
	}
}
