package explain

import (
	"context"
	"fmt"
	"net"
	"strconv"

	nodeagentv1 "portolan.dev/proto/portolan/nodeagent/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/spec"
)

// nodes asks every node agent what it has programmed for the service.
func (c *chain) nodes(ctx context.Context) Step {
	step := Step{Title: "nodes", State: OK}
	listed, err := registryv1.NewAgentServiceClient(c.Registry).ListAgents(ctx, &registryv1.ListAgentsRequest{})
	if err != nil {
		return silent(step, "registry", err)
	}
	if len(listed.GetAgents()) == 0 {
		step.mark(Broken, "no node agent has been heard of; start one on each node")
	}
	for _, agent := range listed.GetAgents() {
		c.node(ctx, &step, agent, listed.GetHeadRevision())
	}
	return step
}

func (c *chain) node(ctx context.Context, step *Step, agent *registryv1.Agent, head uint64) {
	beat := agent.GetHeartbeat()
	step.say("node %s: %s, applied revision %d of %d", beat.GetNode(), beat.GetProxyMode(), beat.GetAppliedRevision(), head)
	if !agent.GetAlive() {
		step.say("  not heard of for %.0f s; it may still forward what it has", agent.GetAgeSeconds())
		step.mark(Unknown, "is the agent of "+beat.GetNode()+" running?")
		return
	}
	conn, err := c.Dial(beat.GetAddress())
	if err != nil {
		*step = silent(*step, "the agent of "+beat.GetNode(), err)
		return
	}
	defer func() { _ = conn.Close() }()
	meta := c.service.GetMetadata()
	plan, err := nodeagentv1.NewNodeAgentServiceClient(conn).GetPlan(ctx, &nodeagentv1.GetPlanRequest{Namespace: meta.GetNamespace(), Name: meta.GetName()})
	if err != nil {
		*step = silent(*step, "the agent of "+beat.GetNode(), err)
		return
	}
	if len(plan.GetVirtualServers()) == 0 {
		step.say("  nothing is programmed")
		step.mark(Broken, "the agent of "+beat.GetNode()+" has no virtual server for the service; its log says why")
	}
	for _, server := range plan.GetVirtualServers() {
		describeServer(step, server)
	}
}

func describeServer(step *Step, server *nodeagentv1.VirtualServer) {
	where := fmt.Sprintf("%s/%s", net.JoinHostPort(server.GetAddress(), strconv.Itoa(int(server.GetPort()))), spec.EnumName(server.GetProtocol()))
	used := 0
	for _, backend := range server.GetRealServers() {
		if backend.GetUsed() {
			used++
		}
	}
	step.say("  %s (%s, %s): %d of %d backends in use", where, server.GetExposure(), spec.EnumName(server.GetScheduler()), used, len(server.GetRealServers()))
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
