package server

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/miekg/dns"

	"portolan.dev/services/kit/kittest"

	"portolan.dev/dnssvc/internal/zone"
)

// fakeNetwork is a network with packets from any source address. No socket can send from port 0,
// and few processes may send from port 53.
type fakeNetwork struct {
	from    netip.AddrPort
	packets [][]byte // not yet received
	batch   [][]byte
	answers [][]byte // by packet of the batch; nil without an answer
	spaces  [batchSize][1232]byte
	done    func(packet, answer []byte)
}

func (w *fakeNetwork) receive() (int, error) {
	if len(w.packets) == 0 {
		return 0, net.ErrClosed
	}
	n := min(len(w.packets), batchSize)
	w.batch, w.packets = w.packets[:n], w.packets[n:]
	w.answers = make([][]byte, n)
	return n, nil
}

func (w *fakeNetwork) packet(i int) []byte        { return w.batch[i] }
func (w *fakeNetwork) client(int) netip.AddrPort  { return w.from }
func (w *fakeNetwork) replyBuffer(i int) []byte   { return w.spaces[i][:] }
func (w *fakeNetwork) route(int) route            { return route{client: w.from} }
func (w *fakeNetwork) stage(i int, answer []byte) { w.answers[i] = answer }

func (w *fakeNetwork) send() error {
	for i, answer := range w.answers {
		w.done(w.batch[i], slices.Clone(answer))
	}
	return nil
}

// exchange sends packets from an address, and calls done with each packet and its answer, which is
// nil if there is none.
func exchange(t *testing.T, s *Server, from string, packets [][]byte, done func(packet, answer []byte)) {
	t.Helper()
	w := &fakeNetwork{from: netip.MustParseAddrPort(from), packets: packets, done: done}
	var wait pendingQueries
	if err := s.udpWorker(t.Context(), &wait, nil, w); err != nil {
		t.Fatal(err)
	}
	wait.wg.Wait()
}

// oddPackets returns questions of every name, type and shape, nearly valid packets, and garbage.
func oddPackets(t testing.TB) [][]byte {
	t.Helper()
	var packets [][]byte
	for _, name := range fastNames {
		for _, qtype := range append(slices.Clone(fastTypes), dns.TypeIXFR, dns.TypeDNSKEY) {
			for _, shape := range shapes {
				m := new(dns.Msg).SetQuestion(name, qtype)
				shape(m)
				packet, err := m.Pack()
				if err != nil {
					t.Fatal(err)
				}
				packets = append(packets, packet)
			}
		}
	}
	whole := packets[0]
	for n := range len(whole) {
		packets = append(packets, whole[:n])
	}
	text := make([]byte, 72) // output of a character generator
	for i := range text {
		text[i] = byte(' ' + i)
	}
	return append(packets, text, make([]byte, 12), make([]byte, maxQuery),
		// The name of the question is a pointer into the header.
		[]byte("\x01w\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x00\x00\x01\x00\x01"))
}

func forgedServers(t *testing.T, change func(*Config)) map[string]*Server {
	servers := map[string]*Server{}
	for name, ordinary := range map[string]bool{"ordinary": true, "fast": false} {
		cfg := Config{Names: fastWorld(t, zone.PodsDisabled).Snapshot, Log: kittest.Logger(t), OrdinaryOnly: ordinary}
		change(&cfg)
		servers[name] = New(cfg)
	}
	return servers
}

// TestForgedPorts checks that packets from ports of services that would answer get no answer, and
// that a name server at port 53 gets one answer to a question and none to an answer.
func TestForgedPorts(t *testing.T) {
	packets := oddPackets(t)
	for name, s := range forgedServers(t, func(*Config) {}) {
		for _, port := range []uint16{0, 7, 13, 17, 19, 37} {
			before := s.stats.sum().ignored.Load()
			exchange(t, s, fmt.Sprintf("192.0.2.1:%d", port), packets, func(packet, answer []byte) {
				if answer != nil {
					t.Errorf("%s: port %d was answered: %x to %x", name, port, answer, packet)
				}
			})
			if n := s.stats.sum().ignored.Load() - before; n != uint64(len(packets)) {
				t.Errorf("%s: port %d: %d of %d packets were counted as ignored", name, port, n, len(packets))
			}
		}
		var answers [][]byte
		exchange(t, s, "192.0.2.1:53", packets, func(_, answer []byte) {
			if answer != nil {
				answers = append(answers, answer)
			}
		})
		if len(answers) < len(packets)/2 {
			t.Fatalf("%s: port 53: %d answers to %d packets", name, len(answers), len(packets))
		}
		exchange(t, s, "192.0.2.1:53", answers, func(packet, answer []byte) {
			if answer != nil {
				t.Errorf("%s: an answer was answered: %x to %x", name, answer, packet)
			}
		})
	}
}

// localForwarder forwards questions of this machine only.
type localForwarder struct{ t *testing.T }

func (localForwarder) Allowed(client netip.Addr) bool { return client.IsLoopback() }

func (l localForwarder) Exchange(_ context.Context, q dns.Question) (*dns.Msg, error) {
	l.t.Errorf("%s was asked for upstream", q.Name)
	return nil, net.ErrClosed
}

// TestNothingIsAmplified checks that no question makes the server send more bytes to a forged source
// address outside of the clients than the attacker has sent.
func TestNothingIsAmplified(t *testing.T) {
	packets := oddPackets(t)
	clients := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fc00::/7")}
	for _, forward := range []Forwarder{nil, localForwarder{t}} {
		for name, s := range forgedServers(t, func(c *Config) { c.Clients, c.Forward = clients, forward }) {
			for _, from := range []string{"192.0.2.1:4711", "[2001:db8::1]:53"} {
				answered, truncated := 0, 0
				exchange(t, s, from, packets, func(packet, answer []byte) {
					if len(answer) > len(packet) {
						t.Errorf("%s: %d bytes to %s for %d: %x to %x", name, len(answer), from, len(packet), answer, packet)
					}
					if answer != nil {
						answered++
					}
					if len(answer) >= headerSize && answer[2]&(flagTC>>8) != 0 {
						truncated++
					}
				})
				if answered < len(packets)/2 || truncated == 0 {
					t.Errorf("%s: %d of %d packets were answered, %d truncated", name, answered, len(packets), truncated)
				}
			}
		}
	}
	s := forgedServers(t, func(c *Config) { c.Clients = clients })["fast"]
	most := 0.0
	exchange(t, s, "10.1.2.3:4711", packets, func(packet, answer []byte) {
		most = max(most, float64(len(answer))/float64(max(1, len(packet))))
	})
	if most < 5 {
		t.Errorf("those who are allowed to get at most %.1f times what they send", most)
	}
	t.Logf("largest answer / question: at most 1 outside, %.1f inside", most)
}

// TestShortAnswers checks that a truncated answer to an outsider can be parsed, and has an OPT
// record if the question has one.
func TestShortAnswers(t *testing.T) {
	s := New(Config{
		Names: fastWorld(t, zone.PodsDisabled).Snapshot, Log: kittest.Logger(t), Clients: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	for _, edns := range []bool{false, true} {
		m := new(dns.Msg).SetQuestion("web.default.svc.cluster.local.", dns.TypeA)
		if edns {
			m.SetEdns0(4096, true)
		}
		packet, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, s, "192.0.2.1:4711", [][]byte{packet}, func(_, answer []byte) {
			reply := new(dns.Msg)
			if err := reply.Unpack(answer); err != nil {
				t.Fatal(err)
			}
			if !reply.Truncated || reply.Id != m.Id || len(reply.Answer) != 0 || reply.Question[0] != m.Question[0] || (reply.IsEdns0() != nil) != edns {
				t.Errorf("EDNS %v: got %s", edns, reply)
			}
		})
	}
}

// TestClients checks that the ranges contain the same addresses as the prefixes, at their ends too.
func TestClients(t *testing.T) {
	list := []string{"127.0.0.0/8", "10.1.2.3/32", "172.16.0.0/12", "192.168.7.9/16", "fc00::/7", "2001:db8::1/128"}
	var prefixes []netip.Prefix
	for _, text := range list {
		prefixes = append(prefixes, netip.MustParsePrefix(text))
	}
	everybody := newClients([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")})
	c := newClients(prefixes)
	for _, text := range []string{
		"126.255.255.255", "127.0.0.0", "127.255.255.255", "128.0.0.0", "10.1.2.2", "10.1.2.3", "10.1.2.4", "172.15.255.255", "172.16.0.0", "172.31.255.255",
		"172.32.0.0", "192.168.0.0", "192.169.0.0", "0.0.0.0", "255.255.255.255", "fbff::1", "fc00::", "fdff::1", "fe00::", "2001:db8::1", "2001:db8::2", "::1",
	} {
		addr := netip.MustParseAddr(text)
		want := slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
		if got := c.contains(addr); got != want {
			t.Errorf("%s: %v, want %v", addr, got, want)
		}
		if everybody.contains(addr) != addr.Is4() {
			t.Errorf("%s: everybody with IPv4 is not %v", addr, addr.Is4())
		}
	}
	if none := newClients(nil); !none.empty() || none.contains(netip.MustParseAddr("::1")) || c.empty() {
		t.Error("emptiness")
	}
}
