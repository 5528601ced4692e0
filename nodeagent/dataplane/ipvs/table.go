package ipvs

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"

	"portolan.dev/nodeagent/dataplane/host"
	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// readTable reads the backends of all virtual servers from the kernel's list in /proc. Over netlink
// this would take a request for each server. With ten thousand servers on a slow machine, that is
// the difference between seconds and minutes. The list does not contain the flags of servers; those
// are read over netlink, also all at once. If other network namespaces have servers too, the kernel
// loses its position in the list between two reads and omits servers. Those are read one by one.
func readTable(namespace string) (map[plan.Frontend][]kernel.Backend, error) {
	var out map[plan.Frontend][]kernel.Backend
	err := host.Within(namespace, func() error {
		// Not /proc/net, which shows the main thread's namespace.
		f, err := os.Open("/proc/thread-self/net/ip_vs")
		if err != nil {
			return err
		}
		defer f.Close()
		out, err = parseTable(f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read backends: %w", err)
	}
	return out, nil
}

// parseTable parses the kernel's list. The line of a server starts with its protocol, the line of a
// backend with an arrow. Servers with a packet mark and their backends are skipped.
func parseTable(r io.Reader) (map[plan.Frontend][]kernel.Backend, error) {
	out := map[plan.Frontend][]kernel.Backend{}
	var id plan.Frontend
	var list []kernel.Backend
	known := false // whether id is the server of the following lines
	keep := func() {
		if known {
			out[id] = slices.Clone(list)
		}
		list = list[:0]
	}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		first, rest := field(lines.Bytes())
		var err error
		switch string(first) {
		case "TCP", "UDP", "SCTP", "FWM":
			keep()
			if id.Protocol, known = protocols[string(first)]; known {
				at, _ := field(rest)
				id.Addr, err = parseHexAddr(at)
			}
		case "->":
			if known {
				var b kernel.Backend
				b, err = parseBackend(id.Protocol, rest)
				list = append(list, b)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	keep()
	return out, lines.Err()
}

var protocols = map[string]plan.Protocol{"TCP": plan.TCP, "UDP": plan.UDP, "SCTP": plan.SCTP}

// field splits off the first word of a line.
func field(line []byte) (word, rest []byte) {
	start := 0
	for start < len(line) && line[start] == ' ' {
		start++
	}
	end := start
	for end < len(line) && line[end] != ' ' {
		end++
	}
	return line[start:end], line[end:]
}

// parseBackend parses address, forwarding method, weight and connections.
func parseBackend(p plan.Protocol, line []byte) (kernel.Backend, error) {
	at, rest := field(line)
	addr, err := parseHexAddr(at)
	if err != nil {
		return kernel.Backend{}, err
	}
	_, rest = field(rest)
	var numbers [3]uint32 // weight, active and inactive connections
	for i := range numbers {
		var digits []byte
		digits, rest = field(rest)
		n, ok := numberOf(digits, 10, 32)
		if !ok {
			return kernel.Backend{}, fmt.Errorf("backend %s: %q is no number", addr, digits)
		}
		numbers[i] = n
	}
	return backendOf(p, addr, numbers[0], numbers[1], numbers[2]), nil
}

// parseHexAddr parses 0A600001:0050 or [fd00:0000:…:0001]:0050.
func parseHexAddr(text []byte) (netip.AddrPort, error) {
	i := bytes.LastIndexByte(text, ':')
	if i < 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	host := text[:i]
	port, ok := numberOf(text[i+1:], 16, 16)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	if bytes.HasPrefix(host, []byte("[")) {
		addr, err := netip.ParseAddr(string(bytes.Trim(host, "[]")))
		return netip.AddrPortFrom(addr, uint16(port)), err
	}
	v4, ok := numberOf(host, 16, 32)
	if !ok || len(host) != 8 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(v4 >> 24), byte(v4 >> 16), byte(v4 >> 8), byte(v4)}), uint16(port)), nil
}

// numberOf parses a number of at most the given bits.
func numberOf(text []byte, base, bits int) (uint32, bool) {
	n, err := strconv.ParseUint(string(text), base, bits)
	return uint32(n), err == nil
}
