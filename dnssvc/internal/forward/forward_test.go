package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/services/kit/kittest"
)

// fakeServer is an upstream server.
type fakeServer struct {
	addr  netip.AddrPort
	asked atomic.Int64
}

// serve runs a server that answers with the result of answer. If the result is nil, it is silent.
func serve(t *testing.T, answer func(q dns.Question, network string) *dns.Msg) *fakeServer {
	t.Helper()
	pc, lis := listen(t)
	n := &fakeServer{addr: netip.MustParseAddrPort(pc.LocalAddr().String())}
	handler := dns.HandlerFunc(func(w dns.ResponseWriter, req *dns.Msg) {
		n.asked.Add(1)
		if m := answer(req.Question[0], w.LocalAddr().Network()); m != nil {
			reply := m.Copy()
			reply.SetReply(req)
			reply.Rcode, reply.Truncated = m.Rcode, m.Truncated
			if len(m.Question) > 0 {
				reply.Question = m.Question
			}
			_ = w.WriteMsg(reply) // the client may have gone
		}
	})
	srv := &dns.Server{PacketConn: pc, Handler: handler}
	kittest.Run(t, "upstream", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() {
			_ = srv.Shutdown() // has no effect on a server that has not started yet
			pc.Close()
		})()
		err := srv.ActivateAndServe()
		if ctx.Err() != nil {
			return nil
		}
		return err
	})
	tcp := &dns.Server{Listener: lis, Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tcp.ActivateAndServe()
	}()
	t.Cleanup(func() { lis.Close(); <-done })
	return n
}

// listen finds a port that is free by UDP and by TCP.
func listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	var last error
	for range 100 {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		lis, err := net.Listen("tcp", pc.LocalAddr().String())
		if err == nil {
			return pc, lis
		}
		pc.Close()
		last = err
	}
	t.Fatal(last)
	return nil, nil
}

func records(t testing.TB, lines ...string) []dns.RR {
	t.Helper()
	var rrs []dns.RR
	for _, line := range lines {
		rr, err := dns.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
	}
	return rrs
}

func newForwarder(t *testing.T, upstreams ...*fakeServer) *Forwarder {
	t.Helper()
	cfg := Config{Entries: 100, Timeout: 30 * time.Second, Log: kittest.Logger(t), Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for _, u := range upstreams {
		cfg.Upstreams = append(cfg.Upstreams, Server{Addr: u.addr})
	}
	return New(cfg)
}

func a(name string) dns.Question {
	return dns.Question{Name: name, Qtype: dns.TypeA, Qclass: dns.ClassINET}
}

func TestAnswersAreRemembered(t *testing.T) {
	u := serve(t, func(q dns.Question, _ string) *dns.Msg {
		return &dns.Msg{Answer: records(t, q.Name+" 60 IN A 192.0.2.1")}
	})
	f := newForwarder(t, u)
	for _, name := range []string{"www.example.", "WWW.example.", "www.EXAMPLE."} {
		m, err := f.Exchange(t.Context(), a(name))
		if err != nil || len(m.Answer) != 1 {
			t.Fatalf("%s: %v, %v", name, m, err)
		}
	}
	if n := u.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestFailover(t *testing.T) {
	bad := serve(t, func(dns.Question, string) *dns.Msg {
		return &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeServerFailure}}
	})
	good := serve(t, func(q dns.Question, _ string) *dns.Msg {
		return &dns.Msg{Answer: records(t, q.Name+" 60 IN A 192.0.2.1")}
	})
	f := newForwarder(t, bad, good)
	for i := range 10 {
		if _, err := f.Exchange(t.Context(), a(fmt.Sprintf("n%d.example.", i))); err != nil {
			t.Fatal(err)
		}
	}
	alone := newForwarder(t, bad)
	if _, err := alone.Exchange(t.Context(), a("x.example.")); !errors.Is(err, errFailed) {
		t.Errorf("got %v", err)
	}
}

// TestTruncatedAnswersComeByTCP checks that an answer that does not fit is asked for by TCP.
func TestTruncatedAnswersComeByTCP(t *testing.T) {
	u := serve(t, func(q dns.Question, network string) *dns.Msg {
		if network == "udp" {
			return &dns.Msg{MsgHdr: dns.MsgHdr{Truncated: true}}
		}
		return &dns.Msg{Answer: records(t, q.Name+" 60 IN A 192.0.2.1")}
	})
	m, err := newForwarder(t, u).Exchange(t.Context(), a("long.example."))
	if err != nil || len(m.Answer) != 1 {
		t.Errorf("got %v, %v", m, err)
	}
}

// TestOneFlight checks that identical questions at the same time are asked once.
func TestOneFlight(t *testing.T) {
	release := make(chan struct{})
	u := serve(t, func(q dns.Question, _ string) *dns.Msg {
		<-release
		return &dns.Msg{Answer: records(t, q.Name+" 0 IN A 192.0.2.1")} // TTL 0: the answer must not be cached
	})
	f := newForwarder(t, u)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := f.Exchange(t.Context(), a("same.example.")); err != nil {
				t.Error(err)
			}
		})
	}
	kittest.Eventually(t, "all are waiting", func() error {
		if n := f.shared.Load(); n != 19 {
			return fmt.Errorf("%d wait", n)
		}
		return nil
	})
	close(release)
	wg.Wait()
	if n := u.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	if _, err := f.Exchange(t.Context(), a("same.example.")); err != nil || u.asked.Load() != 2 {
		t.Errorf("TTL 0 was remembered: asked %d times, %v", u.asked.Load(), err)
	}
}

// TestLoop checks that a server that leads back here is detected and not asked again.
func TestLoop(t *testing.T) {
	var f *Forwarder
	ready := make(chan struct{})
	self := serve(t, func(q dns.Question, _ string) *dns.Msg {
		<-ready
		m, err := f.Exchange(t.Context(), q)
		if err != nil {
			return &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeServerFailure}}
		}
		return m
	})
	good := serve(t, func(q dns.Question, _ string) *dns.Msg {
		return &dns.Msg{Answer: records(t, q.Name+" 60 IN A 192.0.2.1")}
	})
	f = newForwarder(t, self, good)
	close(ready)
	kittest.Run(t, "forwarder", f.Run)
	kittest.Eventually(t, "the loop is found", func() error {
		if !f.upstreams[0].isLoop() {
			return errors.New("not yet")
		}
		return nil
	})
	if f.upstreams[1].isLoop() {
		t.Error("the good one was taken for a loop")
	}
	before := self.asked.Load()
	for i := range 5 {
		if _, err := f.Exchange(t.Context(), a(fmt.Sprintf("n%d.example.", i))); err != nil {
			t.Error(err)
		}
	}
	if self.asked.Load() != before {
		t.Error("the loop is still asked")
	}
}

// TestLoopOfNoServer checks that a question below the name of the probes, but for no server, marks
// none as a loop. A probed server learns the name and may ask for any name below it.
func TestLoopOfNoServer(t *testing.T) {
	f := newForwarder(t, serve(t, address(t)), serve(t, address(t)))
	for _, label := range []string{"", "x", "-1", "2", "1000000", "99999999999999999999"} {
		if m, err := f.Exchange(t.Context(), a(label+f.probe)); err == nil {
			t.Errorf("%q: answered with %v", label, m)
		}
	}
	for i, u := range f.upstreams {
		if u.isLoop() {
			t.Errorf("server %d was taken for a loop", i)
		}
	}
}

func TestAllowed(t *testing.T) {
	f := newForwarder(t)
	if !f.Allowed(netip.MustParseAddr("127.1.2.3")) || f.Allowed(netip.MustParseAddr("192.0.2.1")) || f.Allowed(netip.Addr{}) {
		t.Error("wrong clients")
	}
}

// TestDownAndUp checks that the pause of a failing server grows, and that it is usable again once
// it answers.
func TestDownAndUp(t *testing.T) {
	now := time.Unix(1e9, 0)
	u := &upstream{now: func() time.Time { return now }}
	broken := errors.New("broken")
	if u.recordResult(broken); !u.usable() {
		t.Error("one failure is enough to be left alone")
	}
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
		u.recordResult(broken)
		if now = now.Add(pause*time.Second - 1); u.usable() {
			t.Errorf("asked before %d s", pause)
		}
		if now = now.Add(1); !u.usable() {
			t.Errorf("left alone for longer than %d s", pause)
		}
	}
	u.recordResult(nil)
	if u.recordResult(broken); !u.usable() {
		t.Error("success is not remembered")
	}
}

func TestLifetime(t *testing.T) {
	soa := "example. 300 IN SOA ns.example. h.example. 1 2 3 4 60"
	tests := []struct {
		what   string
		rcode  int
		answer []string
		ns     []string
		want   time.Duration
	}{
		{"the shortest of its records", 0, []string{"q. 60 IN CNAME b.", "b. 30 IN A 192.0.2.1"}, nil, 30 * time.Second},
		{"at most an hour", 0, []string{"q. 86400 IN A 192.0.2.1"}, nil, time.Hour},
		{"NXDOMAIN: minimum of the SOA", dns.RcodeNameError, nil, []string{soa}, time.Minute},
		{"NODATA: TTL of the SOA if that is less", 0, nil, []string{strings.Replace(soa, "300", "20", 1)}, 20 * time.Second},
		{"NODATA at the end of an alias", 0, []string{"q. 10 IN CNAME b."}, []string{soa}, 10 * time.Second},
		{"NXDOMAIN without SOA", dns.RcodeNameError, nil, nil, 0},
		{"SERVFAIL", dns.RcodeServerFailure, nil, []string{soa}, 0},
	}
	for _, tt := range tests {
		m := new(dns.Msg).SetQuestion("q.", dns.TypeA)
		m.Rcode, m.Answer, m.Ns = tt.rcode, records(t, tt.answer...), records(t, tt.ns...)
		if got := cacheTTL(m); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
	}
}

// TestCache checks that TTLs decrease with time, that an expired answer is gone, and that the least
// recently used answers are evicted first.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(3, 0)
		put := func(name string) question {
			m := new(dns.Msg).SetQuestion(name, dns.TypeA)
			m.Answer = records(t, name+" 60 IN A 192.0.2.1")
			q := question{name, dns.TypeA}
			c.put(q, m)
			return q
		}
		q := put("a.")
		time.Sleep(59 * time.Second)
		if m, _ := c.get(q); m == nil || m.Answer[0].Header().Ttl != 1 {
			t.Errorf("after 59 s: %v", m)
		}
		time.Sleep(time.Second)
		if m, _ := c.get(q); m != nil {
			t.Errorf("after its end: %v", m)
		}
		if _, _, n := c.stats(); n != 0 {
			t.Errorf("%d entries after the end of the only one", n)
		}
		b := put("b.")
		for i := range 3 {
			if m, _ := c.get(b); m == nil {
				t.Error("what is used was dropped")
			}
			put(fmt.Sprintf("flood%d.", i))
		}
		if m, _ := c.get(question{"never.", dns.TypeA}); m != nil {
			t.Errorf("what was never asked for: %v", m)
		}
		if hits, misses, n := c.stats(); hits != 4 || misses != 2 || n != 3 {
			t.Errorf("%d hits, %d misses, %d entries; want 4, 2 and at most 3", hits, misses, n)
		}
	})
}
