package machine

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
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
