package check

import (
	"context"
	"fmt"
	"net/netip"

	"google.golang.org/grpc"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/e2e/churn/model"
)

// Node is a node that forwards.
type Node struct {
	Name      string
	Addresses []netip.Addr
	Agent     nodeagentv1.NodeAgentServiceClient
	// Inside runs fn so that sockets that it opens belong to the node.
	Inside func(fn func() error) error
}

// Forwarding checks a node's plan, the state that its agent reports, and its data plane.
type Forwarding struct {
	Node     Node
	Registry grpc.ClientConnInterface
	// Plan leaves out the audit of the data plane, because an audit repairs the differences that it
	// finds.
	Plan bool
}

// Name implements Checker.
func (c Forwarding) Name() string { return "forwarding on " + c.Node.Name }

// Check implements Checker. Once the agent reports that it has applied everything, each difference
// is final.
func (c Forwarding) Check(ctx context.Context, want *model.World) ([]Finding, error) {
	head, err := registryv1.NewChangeServiceClient(c.Registry).GetHead(ctx, &registryv1.GetHeadRequest{})
	if err != nil {
		return nil, err
	}
	status, err := c.Node.Agent.GetStatus(ctx, &nodeagentv1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	if status.GetAppliedRevision() < head.GetRevision() {
		return []Finding{{Check: c.Name(), Problem: fmt.Sprintf("at revision %d of %d", status.GetAppliedRevision(), head.GetRevision())}}, nil
	}
	var findings []Finding
	for _, f := range status.GetFailures() {
		problem := fmt.Sprintf("%s failed: %s", f.GetStep(), f.GetError())
		findings = append(findings, Finding{Check: c.Name(), Object: serviceKey(f.GetService()), Problem: problem, Final: true})
	}
	planned, err := c.planned(ctx, want)
	if err != nil || c.Plan {
		return append(findings, planned...), err
	}
	audited, err := c.audited(ctx)
	return append(append(findings, planned...), audited...), err
}

// planned compares the plan with the model, and checks the state that the plan reports.
func (c Forwarding) planned(ctx context.Context, want *model.World) ([]Finding, error) {
	plan, err := c.Node.Agent.GetPlan(ctx, &nodeagentv1.GetPlanRequest{})
	if err != nil {
		return nil, err
	}
	got := model.Lines{}
	var findings []Finding
	for _, v := range plan.GetVirtualServers() {
		key := serviceKey(v.GetService())
		at := netip.AddrPortFrom(netip.MustParseAddr(v.GetAddress()), uint16(v.GetPort()))
		if v.GetExposure() == "nodePort" && !c.own(at.Addr()) {
			continue // loopback, or another address at which the node serves node ports
		}
		var backends []string
		for _, r := range v.GetRealServers() {
			if r.GetUsed() {
				backends = append(backends, netip.AddrPortFrom(netip.MustParseAddr(r.GetAddress()), uint16(r.GetPort())).String())
			}
		}
		line := model.Forwarded(v.GetExposure(), at.String(), model.Protocol(v.GetProtocol()), backends)
		got[key] = append(got[key], line)
		if !v.GetProgrammed() {
			findings = append(findings, Finding{Check: c.Name(), Object: key, Problem: line + " is not in force: " + v.GetError(), Final: true})
		}
	}
	return append(findings, compare(c.Name(), want.Forwarding(c.Node.Addresses), got, true)...), nil
}

func (c Forwarding) own(a netip.Addr) bool {
	for _, addr := range c.Node.Addresses {
		if addr == a {
			return true
		}
	}
	return false
}

// audited makes the agent compare its data plane with its plan.
func (c Forwarding) audited(ctx context.Context) ([]Finding, error) {
	audit, err := c.Node.Agent.Resync(ctx, &nodeagentv1.ResyncRequest{})
	var findings []Finding
	for _, difference := range audit.GetDifferences() {
		findings = append(findings, Finding{Check: c.Name(), Problem: "the data plane lacked: " + difference, Final: true})
	}
	return findings, err
}
