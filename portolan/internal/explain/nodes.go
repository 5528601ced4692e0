package explain

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/portolan/internal/client"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/spec"
)

// nodes reports by heartbeats on which nodes the service is programmed. It also asks the agents of
// some nodes for their plan of the service, first those where it is not programmed.
func (c *chain) nodes(ctx context.Context) Step {
	step := Step{Title: "nodes", State: OK}
	meta := c.service.GetMetadata()
	if label := spec.ForeignProxy(meta.GetLabels()); label != "" {
		step.say("node agents leave the service to another proxy, because it has the label %s", label)
		step.mark(Notice, "without the label the node agents forward it")
		return step
	}
	progress, err := rollout.Look(ctx, client.New(c.Registry), rollout.Question{
		Namespace: meta.GetNamespace(), Name: meta.GetName(), Revision: max(c.newest, meta.GetResourceVersion()), Dial: c.Dial,
	})
	if err != nil {
		return silent(step, "registry", err)
	}
	if len(progress.Nodes) == 0 {
		step.mark(Broken, "no node agent has been heard of; start one on each node")
		return step
	}
	step.say("%s, at revision %d", progress, progress.Revision)
	slices.SortStableFunc(progress.Nodes, func(a, b rollout.Node) int { return cmp.Compare(urgency[b.State], urgency[a.State]) })
	for i, node := range progress.Nodes {
		if i == shown {
			step.say("and %d more nodes, of which the service is programmed on %d", len(progress.Nodes)-shown, rollout.Progress{Nodes: progress.Nodes[shown:]}.Done())
			break
		}
		c.node(ctx, &step, node)
	}
	for _, node := range progress.Missing() { // also for nodes that are not shown
		mark(&step, node)
	}
	return step
}

// urgency orders the nodes: those that need attention come first.
var urgency = map[rollout.State]int{rollout.Programmed: 0, rollout.Behind: 1, rollout.Silent: 2, rollout.Failing: 3}

func (c *chain) node(ctx context.Context, step *Step, node rollout.Node) {
	line := fmt.Sprintf("node %s: %s, applied revision %d", node.Name, cmp.Or(node.Mode, "no agent"), node.Applied)
	if node.State != rollout.Programmed {
		line += ", " + string(node.State) + ": " + node.Why
	}
	step.say("%s", line)
	if node.State == rollout.Silent || node.Address == "" {
		return
	}
	meta := c.service.GetMetadata()
	plan, err := rollout.Plan(ctx, c.Dial, node.Address, meta.GetNamespace(), meta.GetName())
	if err != nil {
		*step = silent(*step, "the agent of "+node.Name, err)
		return
	}
	if len(plan.GetVirtualServers()) == 0 {
		step.say("  nothing is programmed")
		step.mark(Broken, "the agent of "+node.Name+" has no virtual server for the service; its log says why")
	}
	for _, server := range plan.GetVirtualServers() {
		describeServer(step, server)
	}
	for i, pending := range plan.GetPending() {
		if i == shown {
			step.say("  and %d more steps", len(plan.GetPending())-shown)
			break
		}
		step.say("  not done: %s: %s", pending.GetStep(), pending.GetReason())
	}
}

// mark sets the state of the step for a node on which the service is not programmed.
func mark(step *Step, node rollout.Node) {
	switch node.State {
	case rollout.Failing:
		step.mark(Broken, node.Name+": "+node.Why)
	case rollout.Silent:
		step.mark(Unknown, "is the agent of "+node.Name+" running?")
	case rollout.Behind:
		step.mark(Notice, "portolan wait says when "+node.Name+" has come to the revision")
	}
}

func describeServer(step *Step, server *nodeagentv1.VirtualServer) {
	where := fmt.Sprintf("%s/%s", net.JoinHostPort(server.GetAddress(), strconv.Itoa(int(server.GetPort()))), spec.EnumName(server.GetProtocol()))
	step.say("  %s (%s, %s): %d of %d backends in use", where, server.GetExposure(), spec.EnumName(server.GetScheduler()),
		rollout.UsedBackends(server), len(server.GetRealServers()))
	for i, backend := range server.GetRealServers() {
		if i == shown {
			step.say("    and %d more", len(server.GetRealServers())-shown)
			break
		}
		step.say("    %s %s", net.JoinHostPort(backend.GetAddress(), strconv.Itoa(int(backend.GetPort()))), backend.GetReason())
	}
	if !server.GetProgrammed() {
		step.say("    not programmed")
		step.mark(Broken, server.GetError())
	}
}
