package machine

import (
	"fmt"
	"log/slog"
	"net/netip"
	"time"
)

// Speaker keeps sessions of BGP with routers and tells them which addresses they reach through this
// machine. Its methods may be called at the same time.
type Speaker interface {
	// Change advertises addresses, as routes to a single address, and withdraws others.
	Change(advertise, withdraw []netip.Addr) error
	// Close ends the sessions. If keep is true, routers that agreed to it keep the routes for the
	// restart time, and all others drop them.
	Close(keep bool)
}

// SpeakerOptions are the settings of a Speaker.
type SpeakerOptions struct {
	AS       uint32
	RouterID netip.Addr // IPv4
	Peers    []SpeakerPeer
	// Communities and LargeCommunities are on every route.
	Communities      []uint32
	LargeCommunities [][3]uint32
	// HoldTime is proposed to the peers: the smaller one of both sides counts.
	HoldTime time.Duration
	// Restart is the time for which peers are asked to keep the routes while the agent restarts; 0:
	// they are not asked.
	Restart time.Duration
	// BFD is the time between two packets of BFD; 0: no BFD. A peer is lost after three of them.
	BFD time.Duration
	// Hops is the number of hops to peers of another AS; 1: they are on a network of this machine.
	Hops uint8
	// Password is the password of TCP MD5; empty: none.
	Password string
	// Routes are the addresses to advertise when a session begins for the first time.
	Routes []netip.Addr
	// Changed is called when a session with a peer has begun (reason is empty) or ended.
	Changed func(peer SpeakerPeer, established bool, reason string)
	Log     *slog.Logger
}

// SpeakerPeer is a router.
type SpeakerPeer struct {
	Addr netip.AddrPort
	AS   uint32
}

// String returns the peer as it is configured, without the port of BGP.
func (p SpeakerPeer) String() string {
	at := p.Addr.String()
	if p.Addr.Port() == BGPPort {
		at = p.Addr.Addr().String()
	}
	return fmt.Sprintf("%s@%d", at, p.AS)
}

// BGPPort is the TCP port of BGP.
const BGPPort = 179
