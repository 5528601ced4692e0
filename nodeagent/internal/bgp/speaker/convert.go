package speaker

import (
	"net/netip"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"portolan.dev/nodeagent/machine"
)

// peer returns a peer in the library's form. A session carries the routes of the family of its
// addresses, so that the next hop of each is the node's end of the session.
func (s *Speaker) peer(p machine.SpeakerPeer) *api.Peer {
	o := &s.opts
	addr, hold := p.Addr.Addr(), uint64(o.HoldTime/time.Second)
	family := &api.Family{Afi: api.Family_AFI_IP, Safi: api.Family_SAFI_UNICAST}
	if addr.Is6() {
		family.Afi = api.Family_AFI_IP6
	}
	restart := o.Restart > 0
	peer := &api.Peer{
		Conf: &api.PeerConf{NeighborAddress: addr.String(), PeerAsn: p.AS, LocalAsn: o.AS, AuthPassword: o.Password},
		Timers: &api.Timers{Config: &api.TimersConfig{
			HoldTime: hold, KeepaliveInterval: max(1, hold/3), ConnectRetry: uint64(connectEvery / time.Second), IdleHoldTimeAfterReset: uint64(connectEvery / time.Second),
		}},
		Transport: &api.Transport{RemotePort: uint32(p.Addr.Port())},
		GracefulRestart: &api.GracefulRestart{
			Enabled: restart, LocalRestarting: restart, RestartTime: uint32(o.Restart / time.Second), DeferralTime: uint32(deferral / time.Second),
		},
		AfiSafis: []*api.AfiSafi{{
			Config:            &api.AfiSafiConfig{Family: family, Enabled: true},
			MpGracefulRestart: &api.MpGracefulRestart{Config: &api.MpGracefulRestartConfig{Enabled: restart}},
			PrefixLimits:      &api.PrefixLimit{Family: family, MaxPrefixes: maxReceived},
		}},
	}
	if o.Hops > 1 {
		peer.EbgpMultihop = &api.EbgpMultihop{Enabled: true, MultihopTtl: uint32(o.Hops)}
	}
	if o.BFD > 0 {
		every := uint32(o.BFD / time.Microsecond)
		peer.Bfd = &api.BfdPeerConfig{Enabled: true, DesiredMinimumTxInterval: every, RequiredMinimumReceive: every, DetectionMultiplier: bfdMultiplier}
	}
	return peer
}

// path returns the route to an address. The next hop is left to the session.
func (s *Speaker) path(addr netip.Addr) *apiutil.Path {
	nlri, _ := bgp.NewIPAddrPrefix(netip.PrefixFrom(addr, addr.BitLen())) // valid
	path := &apiutil.Path{Nlri: nlri, Age: time.Now().Unix(), Attrs: []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0)}}
	if addr.Is4() {
		path.Family = bgp.RF_IPv4_UC
		hop, _ := bgp.NewPathAttributeNextHop(netip.IPv4Unspecified()) // valid
		path.Attrs = append(path.Attrs, hop)
	} else {
		path.Family = bgp.RF_IPv6_UC
		reach, _ := bgp.NewPathAttributeMpReachNLRI(bgp.RF_IPv6_UC, []bgp.PathNLRI{{NLRI: nlri}}, netip.IPv6Unspecified()) // valid
		path.Attrs = append(path.Attrs, reach)
	}
	if len(s.opts.Communities) > 0 {
		path.Attrs = append(path.Attrs, bgp.NewPathAttributeCommunities(s.opts.Communities))
	}
	if len(s.opts.LargeCommunities) > 0 {
		var large []*bgp.LargeCommunity
		for _, c := range s.opts.LargeCommunities {
			large = append(large, bgp.NewLargeCommunity(c[0], c[1], c[2]))
		}
		path.Attrs = append(path.Attrs, bgp.NewPathAttributeLargeCommunities(large))
	}
	return path
}
