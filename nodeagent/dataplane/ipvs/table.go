package ipvs

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

// readTable reads the backends of all virtual servers at once. Over netlink this
// takes a request for each server, which at ten thousand is the difference
// between seconds and minutes on a slow machine. What the list does not tell are
// the flags of a server: those come over netlink, all at once too.
func readTable(namespace string) (map[serviceID][]destination, error) {
	var out map[serviceID][]destination
	err := kernel.Within(namespace, func() error {
		// Not /proc/net: that is the main thread's namespace.
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

// parseTable understands the kernel's list: a line for each server, which starts
// with its protocol, and one for each backend, which starts with an arrow.
// Servers by packet mark are passed over with their backends.
func parseTable(r io.Reader) (map[serviceID][]destination, error) {
	out := map[serviceID][]destination{}
	var at *serviceID
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		protocol, known := map[string]plan.Protocol{"TCP": plan.TCP, "UDP": plan.UDP, "SCTP": plan.SCTP}[fields[0]]
		switch {
		case known:
			addr, err := parseHexAddr(fields[1])
			if err != nil {
				return nil, err
			}
			at = &serviceID{addr, protocol}
			out[*at] = nil
		case fields[0] == "FWM":
			at = nil
		case fields[0] == "->" && at != nil && len(fields) >= 6:
			d, err := parseBackend(fields[1:])
			if err != nil {
				return nil, err
			}
			out[*at] = append(out[*at], d)
		}
	}
	return out, lines.Err()
}

// parseBackend reads address, way of forwarding, weight and connections.
func parseBackend(fields []string) (destination, error) {
	addr, err := parseHexAddr(fields[0])
	if err != nil {
		return destination{}, err
	}
	var numbers [3]uint32
	for i := range numbers {
		n, err := strconv.ParseUint(fields[2+i], 10, 32)
		if err != nil {
			return destination{}, fmt.Errorf("backend %s: %w", addr, err)
		}
		numbers[i] = uint32(n)
	}
	return destination{addr: addr, weight: numbers[0], active: numbers[1], inactive: numbers[2]}, nil
}

// parseHexAddr reads 0A600001:0050 or [fd00:0000:…:0001]:0050.
func parseHexAddr(text string) (netip.AddrPort, error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	port, err := strconv.ParseUint(text[i+1:], 16, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is no address: %w", text, err)
	}
	host := text[:i]
	if strings.HasPrefix(host, "[") {
		addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
		return netip.AddrPortFrom(addr, uint16(port)), err
	}
	b, err := hex.DecodeString(host)
	addr, ok := netip.AddrFromSlice(b)
	if err != nil || !ok {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	return netip.AddrPortFrom(addr, uint16(port)), nil
}
