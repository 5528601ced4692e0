package syncloop

import (
	"fmt"
	"net/netip"

	"portolan.dev/nodeagent/internal/events"
	"portolan.dev/nodeagent/plan"
)

// takenNodePorts returns the node ports of a plan that a program listens on too, with the program's
// address. Loopback addresses are left out, because node ports have sockets there in every mode,
// and a failure to open one is reported.
func takenNodePorts(servers map[plan.Key]*plan.VirtualServer, listening []plan.Frontend) map[otherFailure]netip.AddrPort {
	type port struct {
		number   uint16
		protocol plan.Protocol
	}
	by := map[port][]netip.AddrPort{}
	for _, l := range listening {
		if !l.Addr.Addr().IsLoopback() {
			p := port{l.Addr.Port(), l.Protocol}
			by[p] = append(by[p], l.Addr)
		}
	}
	taken := map[otherFailure]netip.AddrPort{}
	for key, v := range servers {
		if v.Exposure != plan.NodePort || key.Addr.Addr().IsLoopback() {
			continue
		}
		for _, l := range by[port{key.Addr.Port(), key.Protocol}] {
			dual := l.Addr() == netip.IPv6Unspecified() // usually accepts IPv4 too
			if l.Addr() == key.Addr.Addr() || dual || l.Addr().IsUnspecified() && l.Addr().Is6() == key.Addr.Addr().Is6() {
				taken[otherFailure{operation: fmt.Sprintf("node port %d/%s", key.Addr.Port(), key.Protocol), service: v.Service, notice: true}] = l
			}
		}
	}
	return taken
}

// CheckNodePorts reports node ports that a program of the machine listens on. A plane in the
// kernel still forwards them, and the program gets no connections.
func (s *Syncer) CheckNodePorts(listening []plan.Frontend) {
	if s.listens { // this plane could not listen, and has reported it
		return
	}
	s.tableMu.Lock()
	taken := takenNodePorts(s.table.State().Servers, listening)
	s.tableMu.Unlock()
	s.others.endNotices(taken)
	for id, at := range taken {
		err := fmt.Errorf("a program listens on %s and gets no connections of this port, because they go to the service", at)
		remedy := fmt.Sprintf("stop it, or give it another port (see: ss -lntup 'sport = :%d'); "+
			"sysctl net.ipv4.ip_local_reserved_ports keeps programs from taking node ports by chance", at.Port())
		if !s.others.set(id, err, remedy) {
			continue
		}
		if svc, _ := s.view.Service(id.service); svc != nil {
			s.events.WarnService(svc, events.NodePortTaken, id.operation+": "+err.Error()+"; "+remedy)
		}
	}
}
