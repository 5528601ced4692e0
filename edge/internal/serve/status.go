package serve

import (
	"net/netip"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	edgev1 "portolan.dev/api/edge/v1"

	"portolan.dev/edge/internal/health"
)

// Status returns the ports of the services that match, ordered by address.
func (s *Server) Status(matches func(namespace, name string) bool) []*edgev1.Port {
	s.mu.Lock()
	defer s.mu.Unlock()
	var frontends []netip.AddrPort
	for frontend, p := range s.ports {
		if matches(p.plan.Service.Namespace, p.plan.Service.Name) {
			frontends = append(frontends, frontend)
		}
	}
	slices.SortFunc(frontends, netip.AddrPort.Compare)
	ports := make([]*edgev1.Port, len(frontends))
	for i, frontend := range frontends {
		ports[i] = s.ports[frontend].status()
	}
	return ports
}

// status returns the state of a port.
func (p *port) status() *edgev1.Port {
	out := &edgev1.Port{
		Frontend: p.plan.Frontend.String(), Namespace: p.plan.Service.Namespace, Service: p.plan.Service.Name, PortName: p.plan.Name,
		BackendProtocol: p.plan.Settings.BackendProtocol.String(), Tls: p.plan.TLS, Listening: p.listener != nil,
		Connections: uint32(p.connections()), ConnectionsTotal: p.accepted.Load(), // #nosec G115 -- fewer than file descriptors
	}
	if p.err != nil {
		out.Error = p.err.Error()
	}
	if svc := p.server.services[p.plan.Service]; svc != nil {
		for _, problem := range svc.problems {
			out.Problems = append(out.Problems, problem.message)
		}
	}
	if p.logProblem != "" {
		out.Problems = append(out.Problems, p.logProblem)
	}
	judged := map[netip.AddrPort]health.Status{}
	for _, status := range slices.Concat(p.group.Status(), p.ejector.Status()) { // an ejected backend is not usable
		if before, ok := judged[status.Backend]; !ok || before.Usable {
			judged[status.Backend] = status
		}
	}
	sessions := p.pool.Sessions()
	for _, real := range p.plan.Server.Backends {
		b := &edgev1.Backend{Address: real.Addr.String(), Weight: real.Weight, Usable: true, Sessions: sessions[real.Addr]}
		if status, ok := judged[real.Addr]; ok {
			b.Usable, b.Reason, b.Since = status.Usable, status.Reason, timestamppb.New(status.Since)
		}
		out.Backends = append(out.Backends, b)
	}
	return out
}
