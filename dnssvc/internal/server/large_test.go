package server

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/zone"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

const (
	largeName = "large.default.svc.cluster.local."
	largePort = "_peer._tcp." + largeName
)

// largeTable returns a table with a headless service that has serving endpoints and other ones,
// which are only published.
func largeTable(t testing.TB, serving, spare int) *zone.Table {
	t.Helper()
	args := []string{"9376:peer/tcp"}
	for i := range serving + spare {
		mark := ""
		if i < spare {
			mark = "~"
		}
		args = append(args, fmt.Sprintf("%s10.%d.%d.%d", mark, 64+i/62500, i/250%250, 1+i%250))
	}
	return dnstest.Table(t, zone.Config{Zones: []string{"cluster.local"}, TTL: 5}, []object.Object{
		dnstest.Service("default/large", "None"), dnstest.Slice("default/large/l-1", args...),
	}...)
}

// unique returns the targets or addresses of an answer's records, and fails if one occurs twice.
func unique(t *testing.T, m *dns.Msg) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	for _, rr := range m.Answer {
		text := ""
		switch rr := rr.(type) {
		case *dns.A:
			text = rr.A.String()
		case *dns.SRV:
			text = rr.Target
		}
		if text == "" || seen[text] {
			t.Fatalf("%s is there twice, or no answer", rr)
		}
		seen[text] = true
	}
	return seen
}

func askPacked(t *testing.T, reply []byte) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(reply); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAnswersThatNoTransportCarriesArePartial asks for more records than 64 KiB hold. It checks
// that an answer has as many as fit, that two connections get different parts, and that a metric
// counts partial answers.
func TestAnswersThatNoTransportCarriesArePartial(t *testing.T) {
	table := largeTable(t, 5000, 0)
	for _, ordinary := range []bool{false, true} {
		s := New(Config{Names: table.Snapshot, Log: kittest.Logger(t), OrdinaryOnly: ordinary})
		if err := s.Listen("127.53.255.1:0"); err != nil {
			t.Fatal(err)
		}
		kittest.Run(t, "dns server", s.Run)
		addr := s.Addrs()[0]
		for _, q := range []struct {
			name  string
			qtype uint16
			least int
		}{{largeName, dns.TypeA, 4085}, {largePort, dns.TypeSRV, 1000}} {
			all := map[string]bool{}
			for _, w := range dnstest.Transports {
				m := dnstest.Ask(t, w, addr, q.name, q.qtype)
				if w.Net == "udp" {
					if !m.Truncated || len(m.Answer) > 0 {
						t.Errorf("%s, %s: %d records, truncated %v", w.Name, q.name, len(m.Answer), m.Truncated)
					}
					continue
				}
				if m.Truncated || len(m.Answer) < q.least || m.Rcode != dns.RcodeSuccess {
					t.Errorf("%s, %s: %d records, truncated %v", w.Name, q.name, len(m.Answer), m.Truncated)
				}
				for text := range unique(t, m) {
					all[text] = true
				}
			}
			for range 20 {
				for text := range unique(t, dnstest.Ask(t, dnstest.Transport{Net: "tcp"}, addr, q.name, q.qtype)) {
					all[text] = true
				}
			}
			if len(all) < q.least+20 {
				t.Errorf("%s: %d different records in 22 answers", q.name, len(all))
			}
		}
		if got := values(t, s)["partial_total"]; got != 44 {
			t.Errorf("%v answers are counted as partial, want 44", got)
		}
	}
}

// TestRecordsAreCapped asks with bounds on records. It checks that no answer has more records or
// the TC flag, and that all records are answered in time.
func TestRecordsAreCapped(t *testing.T) {
	const endpoints = 40
	table := largeTable(t, endpoints, 0)
	cfg := Config{Names: table.Snapshot, Log: kittest.Logger(t), MaxRecordsUDP: 7, MaxRecordsTCP: 30}
	fast, handler := New(cfg).newFastPath(), NewHandler(cfg)
	for _, q := range []dns.Question{{Name: largeName, Qtype: dns.TypeA}, {Name: largePort, Qtype: dns.TypeSRV}} {
		packet, err := new(dns.Msg).SetQuestion(q.Name, q.Qtype).SetEdns0(1232, false).Pack()
		if err != nil {
			t.Fatal(err)
		}
		for tcp, want := range map[bool]int{false: 7, true: 30} {
			for way, ask := range map[string]func() []byte{
				"handler": func() []byte { reply, _ := handler.Handle(Query{Packet: packet, TCP: tcp}); return reply },
				"fast path": func() []byte {
					reply, ok := fast.answer(nil, packet, tcp, false)
					if !ok {
						t.Fatal("declined")
					}
					return reply
				},
			} {
				all := map[string]bool{}
				for range endpoints {
					m := askPacked(t, ask())
					if len(m.Answer) != want || m.Truncated {
						t.Fatalf("%s, %s, tcp %v: %d records, want %d; truncated %v", way, q.Name, tcp, len(m.Answer), want, m.Truncated)
					}
					if glue := len(dnstest.Text(m.Extra)); q.Qtype == dns.TypeSRV && glue != want {
						t.Fatalf("%s, tcp %v: %d addresses of %d targets", way, tcp, glue, want)
					}
					for text := range unique(t, m) {
						all[text] = true
					}
				}
				if len(all) != endpoints {
					t.Errorf("%s, %s, tcp %v: %d of %d records in %d answers", way, q.Name, tcp, len(all), endpoints, endpoints)
				}
			}
		}
	}
}

// TestReadyFirst asks for a service that publishes endpoints that are not ready. It checks that
// part of the endpoints has all serving ones before any other.
func TestReadyFirst(t *testing.T) {
	const serving, spare = 5, 20
	table := largeTable(t, serving, spare)
	isServing := func(text string) bool {
		for i := spare; i < serving+spare; i++ {
			addr := netip.AddrFrom4([4]byte{10, 64, 0, byte(1 + i)})
			if text == addr.String() || text == zone.Dashed(addr)+"."+largeName {
				return true
			}
		}
		return false
	}
	for _, most := range []int{3, 5, 9, 25} {
		cfg := Config{Names: table.Snapshot, Log: kittest.Logger(t), MaxRecordsUDP: most, MaxRecordsTCP: most}
		fast, handler := New(cfg).newFastPath(), NewHandler(cfg)
		for _, q := range []dns.Question{{Name: largeName, Qtype: dns.TypeA}, {Name: largePort, Qtype: dns.TypeSRV}} {
			packet, err := new(dns.Msg).SetQuestion(q.Name, q.Qtype).Pack()
			if err != nil {
				t.Fatal(err)
			}
			firsts := map[string]bool{}
			for range 2 * serving * spare {
				reply, ok := fast.answer(nil, packet, true, false)
				if !ok {
					t.Fatal("declined")
				}
				ordinary, _ := handler.Handle(Query{Packet: packet, TCP: true})
				for _, m := range []*dns.Msg{askPacked(t, reply), askPacked(t, ordinary)} {
					ready := 0
					for text := range unique(t, m) {
						if isServing(text) {
							ready++
						}
					}
					if want := min(most, serving); ready != want || len(m.Answer) != most {
						t.Fatalf("%s: %d of %d records serve, want %d of %d", q.Name, ready, len(m.Answer), want, most)
					}
					if a, ok := m.Answer[0].(*dns.A); ok {
						firsts[a.A.String()] = true
					}
				}
			}
			if q.Qtype == dns.TypeA && len(firsts) != serving {
				t.Errorf("%d records were ever the first, want %d", len(firsts), serving)
			}
		}
	}
}

// TestPartsAgree compares the fast path with the handler for partial answers: the number of
// records, the number of addresses and the flags must be equal.
func TestPartsAgree(t *testing.T) {
	for _, n := range []int{1, 40, 1500} {
		table := largeTable(t, n, n/3)
		for _, most := range []int{0, 1, 30, 1200} {
			cfg := Config{Names: table.Snapshot, Log: kittest.Logger(t), MaxRecordsUDP: most, MaxRecordsTCP: most}
			fast, handler := New(cfg).newFastPath(), NewHandler(cfg)
			for _, q := range []dns.Question{{Name: largeName, Qtype: dns.TypeA}, {Name: largePort, Qtype: dns.TypeSRV}} {
				for shape, tcp := range map[int]bool{0: true, 3: true, 1: false, 4: false} {
					m := new(dns.Msg).SetQuestion(q.Name, q.Qtype)
					shapes[shape](m)
					packet, err := m.Pack()
					if err != nil {
						t.Fatal(err)
					}
					reply, ok := fast.answer(nil, packet, tcp, false)
					if !ok {
						continue
					}
					parts := handler.partial.Load()
					ordinary, _ := handler.Handle(Query{Packet: packet, TCP: tcp})
					got, want := askPacked(t, reply), askPacked(t, ordinary)
					// The number that fits depends on the length of the names at which a part
					// begins.
					differ := func(a, b []dns.RR) bool { return max(len(a)-len(b), len(b)-len(a)) > len(a)/100 }
					if got.MsgHdr != want.MsgHdr || differ(got.Answer, want.Answer) || differ(got.Extra, want.Extra) {
						t.Errorf("%d endpoints, at most %d, %s, tcp %v: %d and %d records, the handler has %d and %d",
							n, most, q.Name, tcp, len(got.Answer), len(got.Extra), len(want.Answer), len(want.Extra))
					}
					if fast.partial != (handler.partial.Load() > parts) {
						t.Errorf("%d endpoints, at most %d, %s, tcp %v: the fast path says partial %v", n, most, q.Name, tcp, fast.partial)
					}
				}
			}
		}
	}
}
