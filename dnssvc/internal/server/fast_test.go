package server

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"pgregory.net/rapid"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/zone"
	"portolan.dev/services/object"
)

// fastWorld returns a table with names that the fast path answers and names that it must decline.
func fastWorld(t testing.TB, pods zone.PodMode) *zone.Table {
	t.Helper()
	crowd := []string{"9376:peer/tcp", "9377:gossip/udp"}
	for i := range 90 {
		crowd = append(crowd, fmt.Sprintf("10.64.7.%d", i+1))
	}
	huge := []string{"1:x/tcp"}
	for i := range 700 {
		huge = append(huge, fmt.Sprintf("10.65.%d.%d", i/250, i%250))
	}
	return dnstest.Table(t, zone.Config{
		Zones: []string{"cluster.local", "other.example"}, TTL: 7, Pods: pods,
		Reverse:     []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")},
		Nameservers: []netip.Addr{netip.MustParseAddr("10.96.0.10")},
	}, []object.Object{
		dnstest.Namespace("default"),
		dnstest.Service("default/web", "10.96.0.1", "2001:db8::1", "80:http", "443:https"),
		dnstest.Slice("default/web/w", "80:http/tcp", "10.64.0.1=a", "10.64.0.2"),
		dnstest.Service("default/api", "10.96.0.3", "80"),
		dnstest.Slice("default/api/w", "80:/tcp", "10.64.0.1"),
		dnstest.Service("default/peers", "None"),
		dnstest.Slice("default/peers/p4", "9376:peer/tcp", "10.64.1.1=a", "10.64.1.2=b", "10.64.1.3"),
		dnstest.Slice("default/peers/p6", "9376:peer/tcp", "2001:db8::a1=a"),
		dnstest.Slice("default/peers/other", "9376:peer/tcp", "10.96.0.3"), // a cluster IP
		dnstest.Service("default/crowd", "None"), dnstest.Slice("default/crowd/c", crowd...),
		dnstest.Service("default/huge", "None"), dnstest.Slice("default/huge/h", huge...),
		dnstest.Service("default/ext", "=db.example.com"),
		dnstest.Service("default/in", "=web.default.svc.cluster.local"),
		dnstest.Service("default/deep", "=very."+string(bytes.Repeat([]byte("long.name.at."), 17))+"example"),
	}...)
}

var fastNames = []string{
	"web.default.svc.cluster.local.", "WEB.default.SVC.cluster.local.", "api.default.svc.other.example.", "peers.default.svc.cluster.local.",
	"_http._tcp.web.default.svc.cluster.local.", "_tcp.web.default.svc.cluster.local.", "_peer._tcp.peers.default.svc.cluster.local.",
	"_Peer._tcp.peers.default.svc.other.example.", "crowd.default.svc.cluster.local.", "_peer._tcp.crowd.default.svc.cluster.local.",
	"huge.default.svc.cluster.local.", "a.peers.default.svc.cluster.local.", "10-64-1-3.peers.default.svc.cluster.local.",
	"ext.default.svc.cluster.local.", "in.default.svc.cluster.local.", "deep.default.svc.cluster.local.", "x.ext.default.svc.cluster.local.",
	"nosuch.default.svc.cluster.local.", "nosuch.default.svc.other.example.", "default.svc.cluster.local.", "svc.cluster.local.", "cluster.local.",
	"other.example.", "local.", ".", "www.example.com.", "dns-version.cluster.local.", "ns.dns.cluster.local.",
	"1.0.96.10.in-addr.arpa.", "3.0.96.10.in-addr.arpa.", "1.0.64.10.in-addr.arpa.", "2.0.64.10.in-addr.arpa.", "9.9.9.10.in-addr.arpa.", "10.in-addr.arpa.",
	"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa.", "10-1-1-1.default.pod.cluster.local.",
}

var fastTypes = []uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeCNAME, dns.TypeNS, dns.TypeSOA, dns.TypeTXT, dns.TypeMX, dns.TypeANY,
	dns.TypeHTTPS, dns.TypeAXFR, dns.TypeOPT, dns.TypeNone, 65280,
}

// oracle compares a fast path with the handler.
type oracle struct {
	fast    *fastPath
	handler *Handler
}

func newOracle(table *zone.Table) *oracle {
	cfg := Config{Names: table.Snapshot, MaxUDP: 1232}
	return &oracle{
		fast:    New(cfg).newFastPath(),
		handler: NewHandler(cfg),
	}
}

// compare returns the differences between the two answers as an error, and reports whether the fast
// path answered.
func (o *oracle) compare(packet []byte, tcp bool) (answered bool, err error) {
	sent := slices.Clone(packet)
	prefix := []byte("before")
	got, ok := o.fast.answer(slices.Clone(prefix), packet, tcp, false)
	if !bytes.Equal(sent, packet) {
		return ok, fmt.Errorf("the packet was changed")
	}
	if !ok {
		if !bytes.Equal(got, prefix) {
			return false, fmt.Errorf("declined, and left %x", got)
		}
		return false, nil
	}
	if !bytes.HasPrefix(got, prefix) {
		return true, fmt.Errorf("overwrote what was there")
	}
	got = got[len(prefix):]
	want, later := o.handler.Handle(Query{Packet: packet, TCP: tcp})
	if later != nil || want == nil {
		return true, fmt.Errorf("the handler does not answer at once")
	}
	return true, sameReply(got, want)
}

// sameReply compares packed answers without regard to the order of records and the compression of
// names.
func sameReply(got, want []byte) error {
	a, b := new(dns.Msg), new(dns.Msg)
	if err := a.Unpack(got); err != nil {
		return fmt.Errorf("fast: %w in %x", err, got)
	}
	if err := b.Unpack(want); err != nil {
		return fmt.Errorf("handler: %w in %x", err, want)
	}
	for _, m := range []*dns.Msg{a, b} {
		for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
			slices.SortFunc(section, func(x, y dns.RR) int {
				return strings.Compare(strings.ToLower(x.String()), strings.ToLower(y.String()))
			})
		}
	}
	// Names that point to the question have its spelling.
	if a.Question[0] != b.Question[0] || !strings.EqualFold(a.String(), b.String()) {
		return fmt.Errorf("fast:\n%s\nhandler:\n%s", a, b)
	}
	return nil
}

// shapes are variations of a question besides name and type.
var shapes = []func(m *dns.Msg){
	func(*dns.Msg) {},
	func(m *dns.Msg) { m.RecursionDesired = false },
	func(m *dns.Msg) { m.CheckingDisabled, m.AuthenticatedData, m.Zero = true, true, true },
	func(m *dns.Msg) { m.SetEdns0(4096, true) },
	func(m *dns.Msg) { m.SetEdns0(700, false) },
	func(m *dns.Msg) { m.SetEdns0(0, false) },
	func(m *dns.Msg) {
		m.SetEdns0(1232, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}}
	},
	func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) },
	func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS },
	func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify },
	func(m *dns.Msg) { m.Truncated = true },
}

// TestFastPathAgrees sends every question in every shape. It checks that the fast path agrees with
// the handler or declines, and that it does not decline frequent questions.
func TestFastPathAgrees(t *testing.T) {
	for _, pods := range []zone.PodMode{zone.PodsDisabled, zone.PodsInsecure} {
		o := newOracle(fastWorld(t, pods))
		for _, name := range fastNames {
			for _, qtype := range fastTypes {
				for i, shape := range shapes {
					m := new(dns.Msg).SetQuestion(name, qtype)
					shape(m)
					packet, err := m.Pack()
					if err != nil {
						t.Fatal(err)
					}
					for _, tcp := range []bool{false, true} {
						answered, err := o.compare(packet, tcp)
						if err != nil {
							t.Errorf("%s %s, shape %d, tcp %v: %v", name, dns.Type(qtype), i, tcp, err)
						}
						if !answered && i == 0 && pods == zone.PodsDisabled && shouldBeFast(name, qtype) {
							t.Errorf("%s %s: declined", name, dns.Type(qtype))
						}
					}
				}
			}
		}
	}
}

func shouldBeFast(name string, qtype uint16) bool {
	switch name {
	case "in.default.svc.cluster.local.", "deep.default.svc.cluster.local.", "huge.default.svc.cluster.local.", "1.0.64.10.in-addr.arpa.",
		"local.", ".", "www.example.com.":
		return false
	}
	return qtype == dns.TypeA || qtype == dns.TypeAAAA || qtype == dns.TypePTR || qtype == dns.TypeSRV
}

// TestFastPathUnsynced compares the answers before the first complete view.
func TestFastPathUnsynced(t *testing.T) {
	table, err := zone.New(zone.Config{Zones: []string{"cluster.local"}, TTL: 5})
	if err != nil {
		t.Fatal(err)
	}
	o := newOracle(table)
	for _, name := range fastNames {
		m := new(dns.Msg).SetQuestion(name, dns.TypeA)
		packet, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.compare(packet, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func seedPackets(add func([]byte)) {
	for i, name := range fastNames {
		for j, qtype := range fastTypes[:6] {
			m := new(dns.Msg).SetQuestion(name, qtype)
			shapes[(i+j)%len(shapes)](m)
			if packet, err := m.Pack(); err == nil {
				add(packet)
			}
		}
	}
}

// FuzzPackets checks that for any packet the fast path agrees with the handler or declines, and
// that neither panics.
func FuzzPackets(f *testing.F) {
	seedPackets(func(packet []byte) { f.Add(packet, false); f.Add(packet, true) })
	o := newOracle(fastWorld(f, zone.PodsDisabled))
	f.Fuzz(func(t *testing.T, packet []byte, tcp bool) {
		if len(packet) > maxQuery {
			return
		}
		if _, err := o.compare(packet, tcp); err != nil {
			t.Errorf("%x: %v", packet, err)
		}
		reply, later := o.handler.Handle(Query{Packet: packet, TCP: tcp})
		if later != nil {
			reply = later(context.Background())
		}
		if short, _ := o.handler.Handle(Query{Packet: packet, NoAmplification: true}); len(short) > len(packet) {
			t.Errorf("%x: %d bytes where %d are allowed", packet, len(short), len(packet))
		}
		if reply == nil {
			return
		}
		m := new(dns.Msg)
		if err := m.Unpack(reply); err != nil || !m.Response {
			t.Errorf("%x: the answer %x is none: %v", packet, reply, err)
		}
		if !tcp && len(reply) > 1232 {
			t.Errorf("%x: %d bytes by UDP", packet, len(reply))
		}
	})
}

// TestNearlyValidPackets checks packets that are nearly valid, which find more than random ones.
func TestNearlyValidPackets(t *testing.T) {
	o := newOracle(fastWorld(t, zone.PodsDisabled))
	var packets [][]byte
	seedPackets(func(packet []byte) { packets = append(packets, packet) })
	rapid.Check(t, func(t *rapid.T) {
		packet := slices.Clone(rapid.SampledFrom(packets).Draw(t, "packet"))
		for range rapid.IntRange(0, 3).Draw(t, "bends") {
			at := rapid.IntRange(0, len(packet)-1).Draw(t, "at")
			packet[at] = rapid.Byte().Draw(t, "byte")
		}
		packet = packet[:rapid.IntRange(max(0, len(packet)-3), len(packet)).Draw(t, "length")]
		if _, err := o.compare(packet, rapid.Bool().Draw(t, "tcp")); err != nil {
			t.Fatalf("%x: %v", packet, err)
		}
	})
}

func TestFastPathAllocatesNothing(t *testing.T) {
	o := newOracle(fastWorld(t, zone.PodsDisabled))
	out := make([]byte, 0, 1232)
	for _, name := range []string{"web.default.svc.cluster.local.", "nosuch.default.svc.cluster.local.", "_peer._tcp.peers.default.svc.cluster.local."} {
		m := new(dns.Msg).SetQuestion(name, dns.TypeSRV)
		packet, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { o.fast.answer(out, packet, false, false) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkFastPath(b *testing.B) {
	o := newOracle(fastWorld(b, zone.PodsDisabled))
	m := new(dns.Msg).SetQuestion("web.default.svc.cluster.local.", dns.TypeA)
	packet, err := m.Pack()
	if err != nil {
		b.Fatal(err)
	}
	out := make([]byte, 0, 1232)
	for b.Loop() {
		o.fast.answer(out, packet, false, false)
	}
}
