package forward

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/services/kit/kittest"
)

// TestOldAnswersServeWhenServersFail checks that an expired answer is given while the servers fail
// or are silent, with a short TTL and for a bounded time, and that a new answer is given as soon as
// there is one.
func TestOldAnswersServeWhenServersFail(t *testing.T) {
	const works, fails, hangs = 0, 1, 2
	var mode atomic.Int64
	release := make(chan struct{})
	u := serve(t, func(q dns.Question, _ string) *dns.Msg {
		switch mode.Load() {
		case fails:
			return &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeServerFailure}}
		case hangs:
			<-release
		}
		return &dns.Msg{Answer: records(t, q.Name+" 60 IN A 192.0.2.1")}
	})
	f := newForwarder(t, u)
	f.cache.stale = time.Hour
	var later atomic.Int64
	f.cache.now = func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	ask := func() (*dns.Msg, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second) // less than the timeout of the server
		defer cancel()
		return f.Exchange(ctx, a("x.example."))
	}
	ttl := func(what string, low, high uint32) {
		t.Helper()
		m, err := ask()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := m.Answer[0].Header().Ttl; got < low || got > high {
			t.Errorf("%s: TTL %d, want %d to %d", what, got, low, high)
		}
	}
	ttl("fresh", 50, 60)
	later.Store(int64(2 * time.Minute))
	mode.Store(fails)
	ttl("servers fail", staleTTL, staleTTL)
	mode.Store(hangs)
	ttl("servers say nothing", staleTTL, staleTTL)
	if n := f.stale.Load(); n != 2 {
		t.Errorf("%d old answers were counted, want 2", n)
	}
	mode.Store(works)
	close(release)
	kittest.Eventually(t, "a new answer", func() error {
		m, err := ask()
		if err == nil && m.Answer[0].Header().Ttl == staleTTL {
			err = fmt.Errorf("still the old one")
		}
		return err
	})
	later.Add(int64(time.Minute + time.Hour))
	mode.Store(fails)
	if m, err := ask(); err == nil {
		t.Errorf("an hour after its end: %s", m)
	}
}

// TestAnswersWithoutLifetimeAreNeverOld checks that an answer that must not be cached is not kept
// for the time when servers fail.
func TestAnswersWithoutLifetimeAreNeverOld(t *testing.T) {
	c := newCache(10, time.Hour)
	q := question{"x.example.", dns.TypeA}
	m := new(dns.Msg).SetQuestion(q.name, q.qtype)
	m.Answer = records(t, "x.example. 0 IN A 192.0.2.1")
	c.put(q, m)
	if old, fresh := c.get(q); old != nil {
		t.Errorf("kept (fresh: %t): %v", fresh, old)
	}
}
