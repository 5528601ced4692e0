package nodeagent

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"portolan.dev/nodeagent/plan"
)

// socketTables are the tables of sockets in this network namespace. They are not read below
// /proc/net, which shows the main thread's namespace.
var socketTables = []struct {
	path     string
	protocol plan.Protocol
	state    string // of sockets that accept connections, or datagrams from any address
}{
	{"/proc/thread-self/net/tcp", plan.TCP, "0A"},
	{"/proc/thread-self/net/tcp6", plan.TCP, "0A"},
	{"/proc/thread-self/net/udp", plan.UDP, "07"},
	{"/proc/thread-self/net/udp6", plan.UDP, "07"},
}

// listeners returns the addresses that programs of this machine listen on. Tables that cannot be
// read are skipped.
func listeners() []plan.Frontend {
	var out []plan.Frontend
	for _, table := range socketTables {
		file, err := os.Open(table.path)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(file); lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 4 || fields[3] != table.state {
				continue
			}
			if addr, ok := socketAddr(fields[1]); ok {
				out = append(out, plan.Frontend{Addr: addr, Protocol: table.protocol})
			}
		}
		file.Close()
	}
	return out
}

// socketAddr parses an address in a table: words in the byte order of the machine, a colon, and the
// port.
func socketAddr(text string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(text, ":")
	words, err := hex.DecodeString(host)
	number, portErr := strconv.ParseUint(port, 16, 16)
	if err != nil || portErr != nil || len(words)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(words); i += 4 {
		binary.NativeEndian.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
	}
	addr, ok := netip.AddrFromSlice(words)
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), ok
}

// takenNodePorts returns the node ports of a plan that a program listens on too, with the program's
// address. Loopback addresses are left out, because node ports have sockets there in every mode,
// and a failure to open one is reported.
func takenNodePorts(servers map[plan.Key]*plan.VirtualServer, listening []plan.Frontend) map[trouble]netip.AddrPort {
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
	taken := map[trouble]netip.AddrPort{}
	for key, v := range servers {
		if v.Exposure != plan.NodePort || key.Addr.Addr().IsLoopback() {
			continue
		}
		for _, l := range by[port{key.Addr.Port(), key.Protocol}] {
			dual := l.Addr() == netip.IPv6Unspecified() // usually accepts IPv4 too
			if l.Addr() == key.Addr.Addr() || dual || l.Addr().IsUnspecified() && l.Addr().Is6() == key.Addr.Addr().Is6() {
				taken[trouble{what: fmt.Sprintf("node port %d/%s", key.Addr.Port(), key.Protocol), service: v.Service, notice: true}] = l
			}
		}
	}
	return taken
}

// lookAtNodePorts reports node ports that a program of the machine listens on. A plane in the
// kernel still forwards them, and the program gets no connections.
func (s *syncer) lookAtNodePorts(listening []plan.Frontend) {
	if s.plane.Name() == userspaceMode { // this plane could not listen, and has reported it
		return
	}
	s.tableMu.Lock()
	taken := takenNodePorts(s.table.State().Servers, listening)
	s.tableMu.Unlock()
	s.troubles.endNotices(taken)
	for id, at := range taken {
		err := fmt.Errorf("a program listens on %s and gets no connections of this port, because they go to the service", at)
		remedy := fmt.Sprintf("stop it, or give it another port (see: ss -lntup 'sport = :%d'); "+
			"sysctl net.ipv4.ip_local_reserved_ports keeps programs from taking node ports by chance", at.Port())
		if !s.troubles.set(id, err, remedy) {
			continue
		}
		if svc, _ := s.view.Service(id.service); svc != nil {
			s.events.warn(svc, reasonNodePortTaken, id.what+": "+err.Error()+"; "+remedy)
		}
	}
}
