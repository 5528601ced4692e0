package machine

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Interface is a network interface of the machine on which neighbours ask for addresses.
type Interface struct {
	Name     string
	Index    int
	Hardware net.HardwareAddr
	Prefixes []netip.Prefix // of its addresses
}

// Equal reports whether two values describe the same interface in the same state.
func (i Interface) Equal(other Interface) bool {
	return i.Name == other.Name && i.Index == other.Index && slices.Equal(i.Hardware, other.Hardware) && slices.Equal(i.Prefixes, other.Prefixes)
}

// Neighbors answers the neighbours on an interface, by ARP (IPv4) or by neighbour discovery (IPv6).
// Its methods may be called at the same time.
type Neighbors interface {
	// Receive waits for requests of neighbours, and returns the next one, until Close is called.
	Receive() (Request, error)
	// Answer tells the neighbour of a request that the interface has the requested address.
	Answer(Request) error
	// Announce tells all neighbours that the interface has an address.
	Announce(netip.Addr) error
	// Watch makes the interface receive requests for these addresses. It may receive requests for
	// others too. If it fails for several addresses, Watch returns the first error.
	Watch([]netip.Addr) error
	Close() error
}

// Request is a question of a neighbour for the hardware address of an address.
type Request struct {
	Address netip.Addr
	// Sender and Hardware are the addresses of the neighbour. Sender is unspecified if the neighbour
	// has none yet.
	Sender   netip.Addr
	Hardware net.HardwareAddr
}

// interfaces returns the interfaces that are up and have neighbours.
func interfaces() ([]Interface, error) {
	found, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("interfaces: %w", err)
	}
	var all []Interface
	for _, i := range found {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || i.Flags&net.FlagBroadcast == 0 || len(i.HardwareAddr) != macLength {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue // the interface is gone
		}
		one := Interface{Name: i.Name, Index: i.Index, Hardware: i.HardwareAddr}
		for _, a := range addrs {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				one.Prefixes = append(one.Prefixes, prefix)
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// macLength is the length of a hardware address of Ethernet in bytes.
const macLength = 6
