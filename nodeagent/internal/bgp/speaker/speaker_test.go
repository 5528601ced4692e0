package speaker

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/osrg/gobgp/v4/pkg/packet/bgp"

	"portolan.dev/nodeagent/machine"
	"portolan.dev/services/kit/kittest"
)

// peer is a router that records the messages of the speaker. Its sessions have the routes of one family.
type peer struct {
	t       *testing.T
	lis     net.Listener
	v6      bool
	restart bool // it takes part in graceful restart
	as      uint16

	mu     sync.Mutex
	conn   net.Conn
	opened *bgp.BGPOpen // of the speaker
	said   []string
}

// startPeer starts a router of another AS on a loopback address.
func startPeer(t *testing.T, at string, restart bool) *peer {
	t.Helper()
	return startPeerOf(t, 64513, at, restart)
}

func startPeerOf(t *testing.T, as uint16, at string, restart bool) *peer {
	t.Helper()
	lis, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, lis: lis, v6: strings.HasPrefix(at, "["), restart: restart, as: as}
	t.Cleanup(func() { lis.Close(); p.end() })
	go func() {
		for {
			conn, err := lis.Accept()
			if err != nil {
				return
			}
			p.say("connected")
			if err := p.serve(conn); err != nil {
				p.say(err.Error())
			}
		}
	}()
	return p
}

// end ends the session without a message.
func (p *peer) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		p.conn.Close()
	}
}

func (p *peer) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, text)
}

// heard returns the recorded events.
func (p *peer) heard() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.said)
}

// await waits until the last recorded events are the given ones.
func (p *peer) await(want ...string) {
	p.t.Helper()
	kittest.Eventually(p.t, fmt.Sprint(want), func() error {
		heard := p.heard()
		if n := len(heard) - len(want); n < 0 || !slices.Equal(heard[n:], want) {
			return fmt.Errorf("%q", heard)
		}
		return nil
	})
}

func (p *peer) addr() netip.AddrPort { return p.lis.Addr().(*net.TCPAddr).AddrPort() }

// serve answers a speaker until the session ends.
func (p *peer) serve(conn net.Conn) error {
	p.mu.Lock()
	p.conn = conn
	p.mu.Unlock()
	defer conn.Close()
	family := bgp.RF_IPv4_UC
	if p.v6 {
		family = bgp.RF_IPv6_UC
	}
	capabilities := []bgp.ParameterCapabilityInterface{bgp.NewCapMultiProtocol(family), bgp.NewCapFourOctetASNumber(uint32(p.as))}
	if p.restart {
		capabilities = append(capabilities, bgp.NewCapGracefulRestart(false, false, 0, nil))
	}
	open, err := bgp.NewBGPOpenMessage(p.as, 90, netip.MustParseAddr("192.0.2.254"), []bgp.OptionParameterInterface{bgp.NewOptionParameterCapability(capabilities)})
	if err != nil {
		return err
	}
	for _, m := range []*bgp.BGPMessage{open, bgp.NewBGPKeepAliveMessage()} {
		if err := send(conn, m); err != nil {
			return err
		}
	}
	in := bufio.NewReader(conn)
	for {
		m, err := receive(in)
		if err != nil {
			return err
		}
		switch body := m.Body.(type) {
		case *bgp.BGPOpen:
			p.mu.Lock()
			p.opened = body
			p.mu.Unlock()
		case *bgp.BGPKeepAlive:
			if err := send(conn, bgp.NewBGPKeepAliveMessage()); err != nil {
				return err
			}
		case *bgp.BGPNotification:
			p.say(fmt.Sprintf("notification %d", body.ErrorCode))
		case *bgp.BGPUpdate:
			p.update(body)
		}
	}
}

func send(conn net.Conn, m *bgp.BGPMessage) error {
	data, err := m.Serialize()
	if err == nil {
		_, err = conn.Write(data)
	}
	return err
}

func receive(in io.Reader) (*bgp.BGPMessage, error) {
	header := make([]byte, bgp.BGP_HEADER_LENGTH)
	if _, err := io.ReadFull(in, header); err != nil {
		return nil, err
	}
	rest := make([]byte, int(binary.BigEndian.Uint16(header[16:]))-len(header))
	if _, err := io.ReadFull(in, rest); err != nil {
		return nil, err
	}
	return bgp.ParseBGPMessage(append(header, rest...))
}

// update records an update: its routes with their attributes, and the withdrawn routes.
func (p *peer) update(u *bgp.BGPUpdate) {
	if end, _ := u.IsEndOfRib(); end {
		p.say("end of routes")
		return
	}
	var attributes []string
	hop := ""
	var routes []bgp.PathNLRI
	for _, a := range u.PathAttributes {
		switch a := a.(type) {
		case *bgp.PathAttributeMpUnreachNLRI:
			for _, r := range a.Value {
				p.say("- " + r.NLRI.String())
			}
		case *bgp.PathAttributeMpReachNLRI:
			routes = a.Value
			hop = a.Nexthop.String()
		case *bgp.PathAttributeNextHop:
			hop = a.Value.String()
		case *bgp.PathAttributeAsPath, *bgp.PathAttributeLocalPref, *bgp.PathAttributeCommunities, *bgp.PathAttributeLargeCommunities:
			attributes = append(attributes, strings.TrimSpace(a.String()))
		}
	}
	for _, r := range append(routes, u.NLRI...) {
		p.say("+ " + r.NLRI.String() + " via " + hop + " " + strings.Join(attributes, " "))
	}
	for _, r := range u.WithdrawnRoutes {
		p.say("- " + r.NLRI.String())
	}
}

// flags returns the flags of the graceful restart that the speaker announced: whether it was
// restarted, and whether it has gone on forwarding.
func (p *peer) flags() (seconds uint16, restarted, forwarded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, parameter := range p.opened.OptParams {
		for _, c := range parameter.(*bgp.OptionParameterCapability).Capability {
			if gr, ok := c.(*bgp.CapGracefulRestart); ok {
				return gr.Time, gr.Flags&8 != 0, len(gr.Tuples) == 1 && gr.Tuples[0].Flags&0x80 != 0
			}
		}
	}
	return 0, false, false
}

// open opens a speaker with sessions to these routers.
func open(t *testing.T, routes string, change func(*machine.SpeakerOptions), peers ...netip.AddrPort) machine.Speaker {
	t.Helper()
	o := machine.SpeakerOptions{
		AS: 64512, RouterID: netip.MustParseAddr("192.0.2.1"), HoldTime: 9 * time.Second, Hops: 1, Log: kittest.Logger(t),
		Changed: func(machine.SpeakerPeer, bool, string) {}, Routes: addresses(routes),
	}
	for _, p := range peers {
		o.Peers = append(o.Peers, machine.SpeakerPeer{Addr: p, AS: 64513})
	}
	if change != nil {
		change(&o)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func addresses(text string) (addrs []netip.Addr) {
	for _, word := range strings.Fields(text) {
		addrs = append(addrs, netip.MustParseAddr(word))
	}
	return addrs
}

// TestRoutesOfEachFamily checks the routes that a peer of each family gets, and their attributes.
func TestRoutesOfEachFamily(t *testing.T) {
	four, six := startPeer(t, "127.0.0.1:0", false), startPeer(t, "[::1]:0", false)
	s := open(t, "203.0.113.1 fd00:203::1", func(o *machine.SpeakerOptions) {
		o.Communities, o.LargeCommunities = []uint32{64512<<16 | 100}, [][3]uint32{{64512, 1, 2}}
	}, four.addr(), six.addr())
	defer s.Close(false)
	const attributes = "{AsPath: 64512} {Communities: 64512:100} {LargeCommunity: [ 64512:1:2]}"
	four.await("connected", "+ 203.0.113.1/32 via 127.0.0.1 "+attributes)
	six.await("connected", "+ fd00:203::1/128 via ::1 "+attributes)
	if err := s.Change(addresses("203.0.113.2"), addresses("203.0.113.1 fd00:203::1")); err != nil {
		t.Fatal(err)
	}
	six.await("- fd00:203::1/128")
	kittest.Eventually(t, "the change", func() error {
		heard := four.heard()
		if !slices.Contains(heard, "- 203.0.113.1/32") || !strings.HasPrefix(heard[len(heard)-1], "+ 203.0.113.2/32") && !strings.HasPrefix(heard[len(heard)-2], "+ 203.0.113.2/32") {
			return fmt.Errorf("%q", heard)
		}
		return nil
	})
}

// TestRoutesInsideTheAS checks the routes that a router of the node's own AS gets.
func TestRoutesInsideTheAS(t *testing.T) {
	p := startPeerOf(t, 64512, "127.0.0.1:0", false)
	s := open(t, "203.0.113.1", func(o *machine.SpeakerOptions) { o.Peers[0].AS = 64512 }, p.addr())
	defer s.Close(false)
	p.await("connected", "+ 203.0.113.1/32 via 127.0.0.1 {AsPath: } {LocalPref: 100}")
}

// TestEndOfSessions checks that a session ends with a notification, which makes a router drop the routes,
// unless the router should keep them.
func TestEndOfSessions(t *testing.T) {
	const cease = "notification 6"
	for _, c := range []struct {
		name    string
		restart time.Duration
		keep    bool
		want    bool // a notification
	}{
		{"keep", 30 * time.Second, true, false},
		{"drop", 30 * time.Second, false, true},
		{"without graceful restart", 0, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startPeer(t, "127.0.0.1:0", true)
			s := open(t, "203.0.113.1", func(o *machine.SpeakerOptions) { o.Restart = c.restart }, p.addr())
			kittest.Eventually(t, "the route", func() error {
				if !slices.ContainsFunc(p.heard(), func(s string) bool { return strings.HasPrefix(s, "+ ") }) {
					return fmt.Errorf("%q", p.heard())
				}
				return nil
			})
			seconds, restarted, forwarded := p.flags()
			if want := c.restart > 0; restarted != want || forwarded != want || time.Duration(seconds)*time.Second != c.restart {
				t.Errorf("graceful restart of %d s, restarted %t, forwarded %t", seconds, restarted, forwarded)
			}
			s.Close(c.keep)
			kittest.Eventually(t, "the end", func() error {
				if heard := p.heard(); heard[len(heard)-1] != io.EOF.Error() {
					return fmt.Errorf("%q", heard)
				}
				return nil
			})
			if got := slices.Contains(p.heard(), cease); got != c.want {
				t.Errorf("%q", p.heard())
			}
		})
	}
}

// TestRoutesDoNotWaitForAnotherPeer checks that a router gets the routes and the end of routes although
// another router cannot be reached.
func TestRoutesDoNotWaitForAnotherPeer(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	at := gone.Addr().(*net.TCPAddr).AddrPort()
	gone.Close()
	p := startPeer(t, "127.0.0.1:0", true)
	s := open(t, "203.0.113.1", func(o *machine.SpeakerOptions) { o.Restart = 30 * time.Second }, p.addr(), at)
	defer s.Close(false)
	p.await("connected", "+ 203.0.113.1/32 via 127.0.0.1 {AsPath: 64512}", "end of routes")
}

// TestSessionsAreReported ends a session, and waits for the next one.
func TestSessionsAreReported(t *testing.T) {
	p := startPeer(t, "127.0.0.1:0", false)
	events := make(chan string, 10)
	s := open(t, "203.0.113.1", func(o *machine.SpeakerOptions) {
		o.Changed = func(peer machine.SpeakerPeer, established bool, reason string) {
			events <- fmt.Sprintf("%d established=%t reason=%t", peer.AS, established, reason != "")
		}
	}, p.addr())
	defer s.Close(false)
	for _, want := range []string{"64513 established=true reason=false", "64513 established=false reason=true", "64513 established=true reason=false"} {
		select {
		case got := <-events:
			if got != want {
				t.Fatalf("got %q, want %q", got, want)
			}
		case <-time.After(60 * time.Second):
			t.Fatalf("no event %q", want)
		}
		if strings.Contains(want, "true reason") && len(p.heard()) < 4 {
			p.end()
		}
	}
}

// TestRoutesOfPeersAreRefused checks that a route of one peer does not get to another one, and that a
// peer with too many routes loses its session.
func TestRoutesOfPeersAreRefused(t *testing.T) {
	loud, quiet := startPeer(t, "127.0.0.1:0", false), startPeer(t, "127.0.0.2:0", false)
	s := open(t, "203.0.113.1", nil, loud.addr(), quiet.addr())
	defer s.Close(false)
	for _, p := range []*peer{loud, quiet} {
		p.await("connected", "+ 203.0.113.1/32 via 127.0.0.1 {AsPath: 64512}")
	}
	loud.advertise(netip.MustParsePrefix("198.51.100.0/24"))
	// The speaker reads the route before the notification that ends the session.
	for i := range maxReceived / prefixesOfUpdate {
		var prefixes []netip.Prefix
		for j := range prefixesOfUpdate {
			n := i*prefixesOfUpdate + j
			prefixes = append(prefixes, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24))
		}
		loud.advertise(prefixes...)
	}
	kittest.Eventually(t, "the end of the session", func() error {
		if heard := loud.heard(); !slices.Contains(heard, "notification 6") {
			return fmt.Errorf("%q", heard)
		}
		return nil
	})
	if err := s.Change(addresses("203.0.113.2"), nil); err != nil {
		t.Fatal(err)
	}
	quiet.await("connected", "+ 203.0.113.1/32 via 127.0.0.1 {AsPath: 64512}", "+ 203.0.113.2/32 via 127.0.0.1 {AsPath: 64512}")
}

// prefixesOfUpdate is the number of routes that fit into one message.
const prefixesOfUpdate = 500

// advertise sends routes to the speaker.
func (p *peer) advertise(prefixes ...netip.Prefix) {
	p.t.Helper()
	var routes []bgp.PathNLRI
	for _, prefix := range prefixes {
		nlri, err := bgp.NewIPAddrPrefix(prefix)
		if err != nil {
			p.t.Fatal(err)
		}
		routes = append(routes, bgp.PathNLRI{NLRI: nlri})
	}
	hop, err := bgp.NewPathAttributeNextHop(p.addr().Addr())
	if err != nil {
		p.t.Fatal(err)
	}
	path := bgp.NewPathAttributeAsPath([]bgp.AsPathParamInterface{bgp.NewAs4PathParam(bgp.BGP_ASPATH_ATTR_TYPE_SEQ, []uint32{64513})})
	attributes := []bgp.PathAttributeInterface{bgp.NewPathAttributeOrigin(0), path, hop}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := send(p.conn, bgp.NewBGPUpdateMessage(nil, attributes, routes)); err != nil {
		p.said = append(p.said, err.Error())
	}
}
