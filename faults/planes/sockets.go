package planes

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	corev1 "portolan.dev/api/core/v1"
)

// The states of sockets that accept packets of any client, in the kernel's notation.
const (
	listening   = "0A" // TCP
	unconnected = "07" // UDP
)

// maxReads is the maximum number of times that the socket tables are read until all expected
// frontends are found. The kernel writes a table in portions, and a socket that opens or closes in
// between may hide another one.
const maxReads = 3

// Sockets reads the frontends with listening sockets in the calling thread's namespace. It cannot
// read the backends, which only the process with the sockets has.
func Sockets(expected []Frontend) (content Content, err error) {
	for range maxReads {
		content, err = readSockets()
		missing := func(f Frontend) bool { _, present := content[f]; return !present }
		if err != nil || !slices.ContainsFunc(expected, missing) {
			break
		}
	}
	return content, err
}

func readSockets() (Content, error) {
	content := Content{}
	for _, table := range []struct {
		name     string
		protocol corev1.Protocol
		state    string
	}{
		{"tcp", corev1.Protocol_PROTOCOL_TCP, listening}, {"tcp6", corev1.Protocol_PROTOCOL_TCP, listening},
		{"udp", corev1.Protocol_PROTOCOL_UDP, unconnected}, {"udp6", corev1.Protocol_PROTOCOL_UDP, unconnected},
	} {
		text, err := os.ReadFile("/proc/thread-self/net/" + table.name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line) // number, local address, remote address, state, …
			if len(fields) < 4 || fields[3] != table.state {
				continue
			}
			at, err := socketAddress(fields[1])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", table.name, err)
			}
			content[Frontend{at, table.protocol}] = nil
		}
	}
	return content, nil
}

// socketAddress parses an address of a table of sockets: words in the byte order of the machine, a
// colon, and the port.
func socketAddress(text string) (netip.AddrPort, error) {
	words, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	b, err := hex.DecodeString(words)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for n := 0; n+4 <= len(b); n += 4 {
		binary.NativeEndian.PutUint32(b[n:], binary.BigEndian.Uint32(b[n:]))
	}
	addr, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", text)
	}
	return netip.AddrPortFrom(addr, uint16(number)), nil
}
