package bgp

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"portolan.dev/nodeagent/machine"
)

// Config is the BGP part of an agent's configuration. Its fields are the texts of the flags with the same
// names.
type Config struct {
	Peers           []string
	AS              uint32
	RouterID        string
	Communities     []string
	HoldTime        time.Duration
	GracefulRestart time.Duration
	BFD             time.Duration
	Hops            int
	PasswordFile    string
}

const (
	minHoldTime   = 3 * time.Second
	maxHoldTime   = 65535 * time.Second
	maxRestart    = 4095 * time.Second // 12 bits
	minBFD        = 50 * time.Millisecond
	maxBFD        = 10 * time.Second
	maxHops       = 255
	shortestWords = 2 // of a community
	largestWords  = 3
)

// Enabled reports whether there are peers.
func (c *Config) Enabled() bool { return len(c.Peers) > 0 }

// Validate returns all errors in the configuration.
func (c *Config) Validate() error {
	if !c.Enabled() {
		return nil
	}
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	seen := map[netip.Addr]bool{}
	for _, text := range c.Peers {
		peer, err := ParsePeer(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("bgp-peers: %w", err))
			continue
		}
		if seen[peer.Addr.Addr()] {
			bad("bgp-peers: %s is there twice", peer.Addr.Addr())
		}
		seen[peer.Addr.Addr()] = true
	}
	if c.AS == 0 {
		bad("bgp-as: must be set, because bgp-peers is")
	}
	if id, err := netip.ParseAddr(c.RouterID); c.RouterID != "" && (err != nil || !id.Is4() || id.IsUnspecified()) {
		bad("bgp-router-id: %q is no IPv4 address", c.RouterID)
	}
	if _, _, err := parseCommunities(c.Communities); err != nil {
		errs = append(errs, err)
	}
	if c.HoldTime < minHoldTime || c.HoldTime > maxHoldTime || c.HoldTime%time.Second != 0 {
		bad("bgp-hold-time: %s is not a number of whole seconds from %s to %s", c.HoldTime, minHoldTime, maxHoldTime)
	}
	if c.GracefulRestart < 0 || c.GracefulRestart > maxRestart || c.GracefulRestart%time.Second != 0 {
		bad("bgp-graceful-restart: %s is not a number of whole seconds up to %s, or 0", c.GracefulRestart, maxRestart)
	}
	if c.BFD != 0 && (c.BFD < minBFD || c.BFD > maxBFD) {
		bad("bgp-bfd: %s is not between %s and %s, or 0", c.BFD, minBFD, maxBFD)
	}
	if c.BFD != 0 && c.GracefulRestart != 0 {
		bad("bgp-bfd: BFD ends with the agent, so peers would drop the routes that bgp-graceful-restart asks them to keep: set one of the two to 0")
	}
	if c.Hops < 1 || c.Hops > maxHops {
		bad("bgp-hops: %d is not between 1 and %d", c.Hops, maxHops)
	}
	return errors.Join(errs...)
}

// ParsePeer parses ADDRESS@AS, or ADDRESS:PORT@AS.
func ParsePeer(text string) (machine.SpeakerPeer, error) {
	none := machine.SpeakerPeer{}
	at, number, ok := strings.Cut(text, "@")
	as, err := strconv.ParseUint(number, 10, 32)
	if !ok || err != nil || as == 0 {
		return none, fmt.Errorf("%q is not ADDRESS@AS, such as 10.0.0.1@64513", text)
	}
	addr, err := netip.ParseAddrPort(at)
	if err != nil {
		var host netip.Addr
		host, err = netip.ParseAddr(at)
		addr = netip.AddrPortFrom(host, machine.BGPPort)
	}
	if host := addr.Addr(); err != nil || addr.Port() == 0 || host.Zone() != "" || host.Is4In6() || host.IsUnspecified() || host.IsMulticast() || host.IsLinkLocalUnicast() {
		return none, fmt.Errorf("%q: %q is no address of a router, such as 10.0.0.1 or fd00::1, with a port or without", text, at)
	}
	return machine.SpeakerPeer{Addr: addr, AS: uint32(as)}, nil
}

// parseCommunities parses A:B, with two numbers of 16 bits, and large communities A:B:C, with three
// numbers of 32 bits.
func parseCommunities(texts []string) (communities []uint32, large [][3]uint32, err error) {
	for _, text := range texts {
		parts := strings.Split(text, ":")
		bits := 32
		if len(parts) == shortestWords {
			bits = 16
		}
		var numbers [largestWords]uint32
		valid := len(parts) == shortestWords || len(parts) == largestWords
		for i := 0; valid && i < len(parts); i++ {
			n, err := strconv.ParseUint(parts[i], 10, bits)
			numbers[i], valid = uint32(n), err == nil
		}
		switch {
		case !valid:
			return nil, nil, fmt.Errorf("bgp-communities: %q is no community, such as 64512:100 or 64512:1:100", text)
		case bits == 16:
			communities = append(communities, numbers[0]<<16|numbers[1])
		default:
			large = append(large, numbers)
		}
	}
	return communities, large, nil
}
