package server_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/dnstest"
	"portolan.dev/dnssvc/internal/server"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// largeService returns a headless service with n endpoints, which has long answers.
func largeService(n int) []object.Object {
	args := []string{"9376:peer/tcp"}
	for i := range n {
		args = append(args, fmt.Sprintf("10.64.%d.%d", 100+i/200, 1+i%200))
	}
	return []object.Object{dnstest.Service("default/crowd", "None"), dnstest.Slice("default/crowd/c-1", args...)}
}

// TestTruncation checks that sets are whole or absent, that the TC flag is set if one is absent,
// and that TCP carries all records.
func TestTruncation(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), append(world(), largeService(60)...)...))
	const crowdName, port = "crowd.default" + loc, "_peer._tcp.crowd.default" + loc
	tests := []struct {
		name      string
		qtype     uint16
		size      uint16
		truncated bool
		answers   int
	}{
		{crowdName, dns.TypeA, 0, true, 0},
		{crowdName, dns.TypeA, 512, true, 0},
		{crowdName, dns.TypeA, 100, true, 0}, // less than 512 counts as 512
		{crowdName, dns.TypeA, 1232, false, 60},
		{crowdName, dns.TypeA, 4096, false, 60},
		{port, dns.TypeSRV, 4096, true, 0},
		{"inside.other" + loc, dns.TypeA, 0, false, 2},
	}
	for _, tt := range tests {
		m := dnstest.Ask(t, dnstest.Transport{Net: "udp", Size: tt.size}, addr, tt.name, tt.qtype)
		if m.Truncated != tt.truncated || len(m.Answer) != tt.answers {
			t.Errorf("%s, %d bytes: truncated %v with %d records, want %v with %d", tt.name, tt.size, m.Truncated, len(m.Answer), tt.truncated, tt.answers)
		}
		limit := min(max(int(tt.size), 512), 1232)
		if size := packedSize(t, m); size > limit {
			t.Errorf("%s: %d bytes, at most %d", tt.name, size, limit)
		}
		if all := dnstest.Ask(t, dnstest.Transport{Net: "tcp"}, addr, tt.name, tt.qtype); all.Truncated || len(all.Answer) < tt.answers || len(all.Answer) == 0 {
			t.Errorf("%s by tcp: %s", tt.name, dnstest.Describe(all))
		}
	}
}

func packedSize(t *testing.T, m *dns.Msg) int {
	t.Helper()
	m.Compress = true
	packed, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return len(packed)
}

// TestOutsiders checks that addresses outside of the clients are referred to TCP, and get all
// records there.
func TestOutsiders(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...), func(c *server.Config) {
		c.Clients = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
	for _, w := range dnstest.Transports {
		m := dnstest.Ask(t, w, addr, "web.default"+loc, dns.TypeA)
		if byUDP := w.Net == "udp"; m.Truncated != byUDP || (len(m.Answer) == 0) != byUDP {
			t.Errorf("%s: %s", w.Name, m)
		}
	}
}

// TestGlueThatDoesNotFit checks that additional records that do not fit are left out without the TC
// flag, one whole set at a time.
func TestGlueThatDoesNotFit(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), largeService(6)...))
	const port = "_peer._tcp.crowd.default" + loc
	for _, size := range []uint16{0, 700, 1232} {
		m := dnstest.Ask(t, dnstest.Transport{Net: "udp", Size: size}, addr, port, dns.TypeSRV)
		glue := len(dnstest.Text(m.Extra))
		if m.Truncated || len(m.Answer) != 6 || size == 0 && glue == 6 || size == 1232 && glue != 6 {
			t.Errorf("%d bytes: truncated %v, %d records and %d addresses", size, m.Truncated, len(m.Answer), glue)
		}
	}
}

func TestEDNS(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...))
	question := func(change func(m *dns.Msg, opt *dns.OPT)) *dns.Msg {
		m := new(dns.Msg).SetQuestion("web.default"+loc, dns.TypeA)
		m.SetEdns0(4096, false)
		change(m, m.IsEdns0())
		return m
	}
	tests := []struct {
		what  string
		m     *dns.Msg
		rcode int
		check func(reply *dns.Msg, opt *dns.OPT) bool
	}{
		{"our size is announced", question(func(*dns.Msg, *dns.OPT) {}), dns.RcodeSuccess, func(_ *dns.Msg, opt *dns.OPT) bool { return opt.UDPSize() == 1232 }},
		{"another version", question(func(_ *dns.Msg, opt *dns.OPT) { opt.SetVersion(1) }), dns.RcodeBadVers,
			func(m *dns.Msg, opt *dns.OPT) bool { return opt.Version() == 0 && len(m.Answer) == 0 }},
		{"options are ignored", question(func(_ *dns.Msg, opt *dns.OPT) {
			opt.Option = append(opt.Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}, &dns.EDNS0_LOCAL{Code: 65001, Data: []byte("x")})
		}), dns.RcodeSuccess, func(m *dns.Msg, opt *dns.OPT) bool { return len(opt.Option) == 0 && len(m.Answer) == 1 }},
		{"DO is copied", question(func(_ *dns.Msg, opt *dns.OPT) { opt.SetDo() }), dns.RcodeSuccess, func(_ *dns.Msg, opt *dns.OPT) bool { return opt.Do() }},
		{"two OPT records", question(func(m *dns.Msg, opt *dns.OPT) { m.Extra = append(m.Extra, opt) }), dns.RcodeFormatError, nil},
		{"other additional records", question(func(m *dns.Msg, _ *dns.OPT) {
			m.Extra = append(m.Extra, &dns.TXT{Hdr: dns.RR_Header{Name: "x.", Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{"x"}})
		}), dns.RcodeSuccess, nil},
	}
	for _, tt := range tests {
		for _, network := range []string{"udp", "tcp"} {
			reply := dnstest.Exchange(t, network, addr, tt.m.Copy())
			if reply.Rcode != tt.rcode {
				t.Errorf("%s by %s: %s", tt.what, network, dns.RcodeToString[reply.Rcode])
			} else if tt.check != nil && (reply.IsEdns0() == nil || !tt.check(reply, reply.IsEdns0())) {
				t.Errorf("%s by %s: %s", tt.what, network, reply)
			}
		}
	}
}

// TestOddQuestions checks the answers to unsupported questions.
func TestOddQuestions(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...))
	question := func(change func(m *dns.Msg)) *dns.Msg {
		m := new(dns.Msg).SetQuestion("web.default"+loc, dns.TypeA)
		change(m)
		return m
	}
	tests := []struct {
		what  string
		m     *dns.Msg
		rcode int
	}{
		{"opcode UPDATE", question(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }), dns.RcodeNotImplemented},
		{"opcode NOTIFY", question(func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }), dns.RcodeNotImplemented},
		{"class CH", question(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }), dns.RcodeRefused},
		{"class ANY", question(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassANY }), dns.RcodeRefused},
		{"two questions", question(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }), dns.RcodeFormatError},
		{"AXFR", question(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }), dns.RcodeRefused},
		{"IXFR", question(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeIXFR }), dns.RcodeRefused},
		{"type OPT", question(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeOPT }), dns.RcodeFormatError},
		{"without RD", question(func(m *dns.Msg) { m.RecursionDesired = false }), dns.RcodeSuccess},
		{"with CD and AD", question(func(m *dns.Msg) { m.CheckingDisabled, m.AuthenticatedData = true, true }), dns.RcodeSuccess},
	}
	for _, tt := range tests {
		for _, network := range []string{"udp", "tcp"} {
			reply := dnstest.Exchange(t, network, addr, tt.m.Copy())
			flags := reply.RecursionDesired == tt.m.RecursionDesired && !reply.AuthenticatedData
			if reply.Rcode != tt.rcode || reply.Id != tt.m.Id || !flags {
				t.Errorf("%s by %s: %s", tt.what, network, reply)
			}
		}
	}
}

// frames packs messages with their lengths, as TCP carries them.
func frames(t testing.TB, msgs ...*dns.Msg) []byte {
	t.Helper()
	var out []byte
	for _, m := range msgs {
		packed, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(packed))), packed...)
	}
	return out
}

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(dnstest.AnswerTimeout)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// TestPipelining checks that pipelined questions are all answered, wherever the stream is cut.
func TestPipelining(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), append(world(), largeService(200)...)...))
	var msgs []*dns.Msg
	var want []uint16
	for i := range 300 {
		name := []string{"web.default" + loc, "crowd.default" + loc, "nosuch.default" + loc, "_peer._tcp.crowd.default" + loc}[i%4]
		qtype := []uint16{dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeSRV}[i%4]
		m := new(dns.Msg).SetQuestion(name, qtype)
		m.Id = uint16(i)
		msgs = append(msgs, m)
		want = append(want, m.Id)
	}
	conn := dial(t, addr)
	go func() {
		sent := frames(t, msgs...)
		for size := 1; len(sent) > 0; size = size*3 + 1 {
			n := min(size, len(sent))
			if _, err := conn.Write(sent[:n]); err != nil {
				return // the reader fails then
			}
			sent = sent[n:]
		}
	}()
	reader := &dns.Conn{Conn: conn}
	var got []uint16
	for range msgs {
		m, err := reader.ReadMsg()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Id)
		if m.Truncated || m.Id%4 != 2 && len(m.Answer) == 0 {
			t.Fatalf("question %d: %s", m.Id, dnstest.Describe(m))
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Error("not every question was answered once")
	}
}

// TestLongMessage checks that a message of 64 kB is refused, and that the connection stays open.
func TestLongMessage(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...))
	conn := dial(t, addr)
	long := make([]byte, 2+65535)
	binary.BigEndian.PutUint16(long, 65535)
	binary.BigEndian.PutUint16(long[2:], 4711)
	long[7] = 1 // one question
	if _, err := conn.Write(append(long, frames(t, new(dns.Msg).SetQuestion("web.default"+loc, dns.TypeA))...)); err != nil {
		t.Fatal(err)
	}
	reader := &dns.Conn{Conn: conn}
	if m, err := reader.ReadMsg(); err != nil || m.Id != 4711 || m.Rcode != dns.RcodeFormatError {
		t.Fatalf("got %v, %v", m, err)
	}
	if m, err := reader.ReadMsg(); err != nil || len(m.Answer) != 1 {
		t.Fatalf("got %v, %v", m, err)
	}
}

// TestIdleConnections checks that the server closes connections that send nothing, send too slowly,
// or do not begin with a question.
func TestIdleConnections(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...), func(c *server.Config) { c.IdleTimeout = 50 * time.Millisecond })
	question := frames(t, new(dns.Msg).SetQuestion("web.default"+loc, dns.TypeA))
	response := slices.Clone(question)
	response[4] |= 0x80
	for what, sent := range map[string][]byte{
		"nothing": nil, "half a length": question[:1], "half a question": question[:20], "a response": response,
		"half a long message": append([]byte{0xff, 0xff}, make([]byte, 1000)...), "too short": {0, 3, 1, 2, 3},
	} {
		conn := dial(t, addr)
		if _, err := conn.Write(sent); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); len(got) > 0 || isTimeout(err) {
			t.Errorf("%s: got %x, %v", what, got, err)
		}
	}
}

// isTimeout reports whether the test's own deadline has passed, as opposed to the server closing
// the connection.
func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}

// TestConnectionLimit checks that the connections of one client are bounded and do not keep other
// clients out.
func TestConnectionLimit(t *testing.T) {
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...), func(c *server.Config) { c.MaxConnsPerClient = 3 })
	question := frames(t, new(dns.Msg).SetQuestion("web.default"+loc, dns.TypeA))
	works := func(conn net.Conn) bool {
		if _, err := conn.Write(question); err != nil {
			return false
		}
		_, err := (&dns.Conn{Conn: conn}).ReadMsg()
		if isTimeout(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	for range 3 {
		if !works(dial(t, addr)) {
			t.Fatal("refused below the limit")
		}
	}
	if works(dial(t, addr)) {
		t.Error("accepted above the limit")
	}
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 77)}}
	other, err := from.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.SetDeadline(time.Now().Add(dnstest.AnswerTimeout)); err != nil {
		t.Fatal(err)
	}
	if !works(other) {
		t.Error("another client was refused")
	}
}

// TestSlowClients checks that slow clients that take all connections lose them again: clients by
// UDP are not affected, and other clients by TCP get in.
func TestSlowClients(t *testing.T) {
	const most = 4
	addr, _ := serve(t, dnstest.Table(t, zoneConfig(), world()...), func(c *server.Config) {
		c.MaxConns, c.IdleTimeout = most, 500*time.Millisecond
	})
	question := frames(t, new(dns.Msg).SetQuestion("web.default"+loc, dns.TypeA))
	for i := range 3 * most {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i))}}
		conn, err := from.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = conn.Write(question[:1+i]) // the connection may have been refused
	}
	if m := dnstest.Ask(t, dnstest.Transports[0], addr, "web.default"+loc, dns.TypeA); len(m.Answer) != 1 {
		t.Errorf("by UDP: %s", m)
	}
	kittest.Eventually(t, "an answer by TCP", func() error {
		client := &dns.Client{Net: "tcp", Timeout: dnstest.AnswerTimeout}
		_, _, err := client.Exchange(new(dns.Msg).SetQuestion("web.default"+loc, dns.TypeA), addr)
		return err
	})
}

// TestAnyAddress checks that a server that listens on all addresses answers from the address in
// question. Clients drop answers from other addresses.
func TestAnyAddress(t *testing.T) {
	table := dnstest.Table(t, zoneConfig(), world()...)
	s := server.New(server.Config{Names: table.Snapshot, Log: discard})
	if err := s.Listen(":0"); err != nil {
		t.Fatal(err)
	}
	run(t, s)
	_, port, err := net.SplitHostPort(s.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.53.250.1", "127.53.250.2"} {
		m := dnstest.Ask(t, dnstest.Transports[0], net.JoinHostPort(host, port), "web.default"+loc, dns.TypeA)
		if len(m.Answer) != 1 {
			t.Errorf("by %s: %s", host, m)
		}
	}
}
