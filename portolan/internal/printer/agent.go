package printer

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/spec"
)

// Agents prints the last heartbeats of all node agents, one per line.
func Agents(w io.Writer, listed *registryv1.ListAgentsResponse) error {
	out := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	_, _ = fmt.Fprintln(out, "NODE\tSTATE\tMODE\tBEHIND\tFAILING\tAGENT\tVERSION")
	for _, agent := range listed.GetAgents() {
		beat := agent.GetHeartbeat()
		behind := max(listed.GetHeadRevision(), beat.GetAppliedRevision()) - beat.GetAppliedRevision()
		printf(out, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", beat.GetNode(), agentState(agent), orDash(beat.GetProxyMode()), behind, beat.GetFailingSteps(),
			orDash(beat.GetAddress()), orDash(beat.GetVersion()))
	}
	return out.Flush()
}

func agentState(agent *registryv1.Agent) string {
	beat := agent.GetHeartbeat()
	switch {
	case !agent.GetAlive():
		return fmt.Sprintf("silent for %.0fs", agent.GetAgeSeconds())
	case !beat.GetSynced():
		return "without registry"
	case beat.GetNodeFailure() != "" || beat.GetFailingSteps() > 0:
		return "failing"
	default:
		return "ok"
	}
}

// AgentStatus prints the status of one agent.
func AgentStatus(w io.Writer, s *nodeagentv1.GetStatusResponse) error {
	d := description{out: tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	d.line("Node", "%s", s.GetNode())
	mode := s.GetProxyMode()
	if s.GetFallbackReason() != "" {
		mode += ": " + s.GetFallbackReason()
	}
	d.line("Proxy mode", "%s", mode)
	d.line("View", "%s", viewOf(s))
	if s.GetDiskViewRefused() != "" {
		d.line("View on disk", "refused: %s", s.GetDiskViewRefused())
	}
	d.line("Applied", "revision %d", s.GetAppliedRevision())
	if s.GetQueueAgeSeconds() > 0 {
		d.line("Waiting", "changes, for %s", seconds(s.GetQueueAgeSeconds()))
	}
	d.line("Forwards", "%d virtual servers, %d backends", s.GetVirtualServers(), s.GetRealServers())
	d.line("Draining", "%t", s.GetDraining())
	if a := s.GetAnnouncing(); a != nil {
		d.line("Announces", "%s", announcingOf(a))
	}
	if r := s.GetRouting(); r != nil {
		d.line("Advertises", "%s", advertisingOf(r))
		d.lines("BGP peers", peersOf(r))
	}
	if p := s.GetProxy(); p != nil {
		d.line("Edge", "%s", edgeOf(p))
		d.lines("Edge's addresses", proxiedOf(p))
	}
	d.line("Pods probed", "%d", s.GetProbedPods())
	audit := "never"
	if s.GetLastAudit() != nil {
		audit = Age(s.GetLastAudit().AsTime(), time.Now()) + " ago"
	}
	d.line("Last audit", "%s; %d differences repaired since the start", audit, s.GetDriftRepaired())
	d.lines("Kernel settings", s.GetSysctls())
	var failures []string
	for _, f := range s.GetFailures() {
		failures = append(failures, failureLine(f))
	}
	d.lines("Failures", failures)
	d.lines("Warnings", s.GetWarnings())
	return d.out.Flush()
}

// announcingOf describes the load-balancer addresses that a node announces.
func announcingOf(a *nodeagentv1.Announcing) string {
	var addresses []string
	for _, one := range a.GetAddresses() {
		text := fmt.Sprintf("%s (for %s", one.GetAddress(), Age(one.GetSince().AsTime(), time.Now()))
		if previous := one.GetPreviousNode(); previous != "" {
			text += ", earlier connections at " + previous
		}
		addresses = append(addresses, text+")")
	}
	text := cmp.Or(strings.Join(addresses, ", "), "nothing") + " on " + cmp.Or(strings.Join(a.GetInterfaces(), ", "), "no interface")
	if a.GetError() != "" {
		text += "; " + a.GetError()
	}
	return text
}

// edgeOf describes the proxy on a node.
func edgeOf(p *nodeagentv1.LocalProxy) string {
	age := Age(p.GetSince().AsTime(), time.Now())
	switch {
	case !p.GetConnected():
		return "not connected for " + age
	case p.GetDraining():
		return "draining, connected for " + age
	}
	return "connected for " + age
}

// proxiedOf describes the addresses of the proxy on a node.
func proxiedOf(p *nodeagentv1.LocalProxy) []string {
	var lines []string
	for _, a := range p.GetAddresses() {
		state := "served"
		switch {
		case a.GetError() != "":
			state = a.GetError()
		case !a.GetLocal():
			state = "not local yet"
		case !a.GetServed():
			state = "local, not served"
		}
		lines = append(lines, a.GetAddress()+": "+state)
	}
	return lines
}

// advertisingOf describes the load-balancer addresses that a node advertises by BGP.
func advertisingOf(r *nodeagentv1.Routing) string {
	text := cmp.Or(strings.Join(r.GetAddresses(), ", "), "nothing")
	switch {
	case r.GetRouterId() == "":
		text += ": the sessions begin when the node forwards"
	case !r.GetEligible():
		text += ": the node takes no traffic of load balancers"
	}
	if r.GetError() != "" {
		text += "; " + r.GetError()
	}
	return text
}

// peersOf describes the sessions with the peers of a node.
func peersOf(r *nodeagentv1.Routing) []string {
	var lines []string
	for _, p := range r.GetPeers() {
		switch {
		case p.GetEstablished():
			lines = append(lines, fmt.Sprintf("%s: established for %s", p.GetPeer(), Age(p.GetSince().AsTime(), time.Now())))
		case p.GetSince() == nil:
			lines = append(lines, p.GetPeer()+": no session yet")
		default:
			lines = append(lines, fmt.Sprintf("%s: lost %s ago: %s", p.GetPeer(), Age(p.GetSince().AsTime(), time.Now()), p.GetReason()))
		}
	}
	return lines
}

func viewOf(s *nodeagentv1.GetStatusResponse) string {
	text := fmt.Sprintf("revision %d, current %s ago", s.GetViewRevision(), seconds(s.GetViewAgeSeconds()))
	switch {
	case s.GetFromDisk():
		text += "; from disk: the registry has not answered since the start"
	case !s.GetSynced():
		text = "none: the registry has not answered since the start"
	}
	return text
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(100 * time.Millisecond).String()
}

func failureLine(f *nodeagentv1.StepFailure) string {
	line := fmt.Sprintf("%s: %s: %s", cmp.Or(f.GetService(), "the node"), f.GetStep(), f.GetError())
	if f.GetRemedy() != "" {
		line += "; " + f.GetRemedy()
	}
	return line + fmt.Sprintf(" (for %s)", Age(f.GetSince().AsTime(), time.Now()))
}

// Plan prints virtual servers with their backends, and the pending changes.
func Plan(w io.Writer, plan *nodeagentv1.GetPlanResponse) error {
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, server := range plan.GetVirtualServers() {
		state := "in force"
		if !server.GetProgrammed() {
			state = "NOT in force: " + server.GetError()
		}
		printf(out, "%s/%s  %s of %s, %s, for %s: %s\n", hostPort(server.GetAddress(), server.GetPort()), spec.EnumName(server.GetProtocol()),
			server.GetExposure(), server.GetService(), spec.EnumName(server.GetScheduler()), server.GetAudience(), state)
		for _, backend := range server.GetRealServers() {
			printf(out, "  %s\t%s\t%s\n", hostPort(backend.GetAddress(), backend.GetPort()), backendState(backend), backend.GetReason())
		}
		if len(server.GetRealServers()) == 0 {
			printf(out, "  no backends: clients are %s\n", map[string]string{"refuse": "refused", "drop": "dropped"}[server.GetWithoutBackends()])
		}
	}
	if plan.GetNotCompared() != "" {
		printf(out, "not compared with the registry: %s\n", plan.GetNotCompared())
	}
	if len(plan.GetPending()) == 0 {
		printf(out, "nothing is pending at revision %d\n", plan.GetRevision())
		return out.Flush()
	}
	printf(out, "pending at revision %d:\n", plan.GetRevision())
	for _, step := range plan.GetPending() {
		printf(out, "  %s: %s\n", step.GetStep(), step.GetReason())
	}
	if plan.GetMorePending() > 0 {
		printf(out, "  and %d more\n", plan.GetMorePending())
	}
	return out.Flush()
}

func backendState(backend *nodeagentv1.RealServer) string {
	switch {
	case backend.GetDraining():
		return fmt.Sprintf("draining, %d connections", backend.GetActiveConnections())
	case backend.GetUsed():
		return fmt.Sprintf("weight %d, %d connections", backend.GetWeight(), backend.GetActiveConnections())
	default:
		return "not used"
	}
}

func hostPort(address string, port int32) string {
	return net.JoinHostPort(address, strconv.Itoa(int(port)))
}
