package forward

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/services/kit/kittest"
)

func address(t *testing.T) func(dns.Question, string) *dns.Msg {
	return func(q dns.Question, _ string) *dns.Msg {
		return &dns.Msg{Answer: records(t, q.Name+" 60 IN A 192.0.2.1")}
	}
}

func silent(dns.Question, string) *dns.Msg { return nil }

// TestSilentServersAreLeftAlone checks that each question is answered although one server is
// silent, and that this server is not asked after two failures.
func TestSilentServersAreLeftAlone(t *testing.T) {
	dead, good := serve(t, silent), serve(t, address(t))
	f := newForwarder(t, dead, good)
	now := time.Unix(1e9, 0)
	for _, u := range f.upstreams {
		u.now = func() time.Time { return now }
	}
	f.upstreams[0].timeout = 50 * time.Millisecond
	for i := range 10 {
		if _, err := f.Exchange(t.Context(), a(fmt.Sprintf("n%d.example.", i))); err != nil {
			t.Fatalf("question %d: %v", i, err)
		}
	}
	if f.upstreams[0].usable() || !f.upstreams[1].usable() {
		t.Error("the silent server is not left alone, or the good one is")
	}
	if n := dead.asked.Load(); n > failuresToDown {
		t.Errorf("the silent server was asked %d times, want at most %d", n, failuresToDown)
	}
	if n := good.asked.Load(); n != 10 {
		t.Errorf("the good server was asked %d times, want 10", n)
	}
}

// TestServersTakeTurns checks that all working servers are asked.
func TestServersTakeTurns(t *testing.T) {
	one, two := serve(t, address(t)), serve(t, address(t))
	f := newForwarder(t, one, two)
	for i := range 10 {
		if _, err := f.Exchange(t.Context(), a(fmt.Sprintf("n%d.example.", i))); err != nil {
			t.Fatal(err)
		}
	}
	if one.asked.Load() != 5 || two.asked.Load() != 5 {
		t.Errorf("asked %d and %d times", one.asked.Load(), two.asked.Load())
	}
}

// TestWhenAllAreDownOneMayHaveRecovered checks that paused servers are asked if there is no other,
// and that one that answers is usable again.
func TestWhenAllAreDownOneMayHaveRecovered(t *testing.T) {
	u := serve(t, address(t))
	f := newForwarder(t, u)
	for range failuresToDown {
		f.upstreams[0].recordResult(errors.New("down"))
	}
	if f.upstreams[0].usable() {
		t.Fatal("it is not down")
	}
	if _, err := f.Exchange(t.Context(), a("x.example.")); err != nil {
		t.Error(err)
	}
	if !f.upstreams[0].usable() {
		t.Error("it answered, and is still left alone")
	}
}

// TestTriesAreBounded checks that a question that no server can answer is not sent to all of them.
func TestTriesAreBounded(t *testing.T) {
	var all []*fakeServer
	for range maxTries + 2 {
		all = append(all, serve(t, func(dns.Question, string) *dns.Msg {
			return &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeServerFailure}}
		}))
	}
	f := newForwarder(t, all...)
	if _, err := f.Exchange(t.Context(), a("x.example.")); !errors.Is(err, errFailed) {
		t.Errorf("got %v", err)
	}
	asked := int64(0)
	for _, u := range all {
		asked += u.asked.Load()
	}
	if asked != maxTries || f.failed.Load() != 1 {
		t.Errorf("%d servers were asked, %d failures counted; want %d and 1", asked, f.failed.Load(), maxTries)
	}
	for i := range 10 {
		if _, err := f.Exchange(t.Context(), a(fmt.Sprintf("n%d.example.", i))); !errors.Is(err, errFailed) {
			t.Errorf("got %v", err)
		}
	}
	for _, u := range f.upstreams {
		if !u.usable() {
			t.Error("a server that answers is taken for a dead one")
		}
	}
}

// TestStoppingEndsQuestions checks that stopping the forwarder cuts a question to a silent server
// off at once, and that this does not count as a failure of the server.
func TestStoppingEndsQuestions(t *testing.T) {
	asked := make(chan struct{}, 10)
	u := serve(t, func(dns.Question, string) *dns.Msg { asked <- struct{}{}; return nil })
	f := newForwarder(t, u) // its servers have a timeout of 30 s
	ended := make(chan error, failuresToDown)
	for i := range failuresToDown {
		go func() {
			_, err := f.Exchange(context.Background(), a(fmt.Sprintf("n%d.example.", i)))
			ended <- err
		}()
		kittest.Receive(t, "the question", asked)
	}
	f.stop()
	for range failuresToDown {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a silent server answered")
			}
		case <-time.After(15 * time.Second):
			t.Fatal("a question was not cut short")
		}
	}
	if !f.upstreams[0].usable() {
		t.Error("the server is taken for a dead one")
	}
}

func TestCheck(t *testing.T) {
	m := new(dns.Msg).SetQuestion("x.example.", dns.TypeA)
	good := new(dns.Msg).SetReply(m)
	upper := good.Copy()
	upper.Question[0].Name = "X.EXAMPLE."
	for what, reply := range map[string]*dns.Msg{"an answer": good, "an answer in capitals": upper} {
		if err := (&upstream{}).checkReply(m, reply); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	none, two := good.Copy(), good.Copy()
	none.Question, two.Question = nil, append(two.Question, two.Question...)
	for what, reply := range map[string]*dns.Msg{"a question": m, "no question": none, "two questions": two} {
		if (&upstream{}).checkReply(m, reply) == nil {
			t.Errorf("%s was taken for an answer", what)
		}
	}
}

// TestOnlyTheAnswerIsKept checks that additional records of other servers are dropped.
func TestOnlyTheAnswerIsKept(t *testing.T) {
	u := serve(t, func(q dns.Question, _ string) *dns.Msg {
		return &dns.Msg{Answer: records(t, q.Name+" 60 IN A 192.0.2.1"), Extra: records(t, "bank.example. 60 IN A 192.0.2.66")}
	})
	f := newForwarder(t, u)
	for range 2 {
		if m, err := f.Exchange(t.Context(), a("x.example.")); err != nil || len(m.Extra) > 0 {
			t.Errorf("got %v, %v", m, err)
		}
	}
}

// TestCacheKeepsOneAnswerToAQuestion checks that a newer answer replaces the older one, and that an
// answer that is too long is not cached.
func TestCacheKeepsOneAnswerToAQuestion(t *testing.T) {
	c := newCache(10, 0)
	q := question{"x.example.", dns.TypeA}
	for range 3 {
		m := new(dns.Msg).SetQuestion(q.name, q.qtype)
		m.Answer = records(t, "x.example. 60 IN A 192.0.2.1")
		c.put(q, m)
	}
	if _, _, n := c.stats(); n != 1 {
		t.Errorf("%d entries for one question", n)
	}
	long := question{"long.example.", dns.TypeA}
	m := new(dns.Msg).SetQuestion(long.name, long.qtype)
	for i := range maxBytes / 16 {
		m.Answer = append(m.Answer, records(t, fmt.Sprintf("long.example. 60 IN A 192.0.%d.%d", i/250, i%250))...)
	}
	c.put(long, m)
	if kept, _ := c.get(long); kept != nil {
		t.Errorf("an answer of %d bytes was kept", m.Len())
	}
}

// TestAnswersToOtherQuestionsAreRefused checks that an answer to another question is refused.
func TestAnswersToOtherQuestionsAreRefused(t *testing.T) {
	for what, question := range map[string]dns.Question{
		"another name": a("other.example."),
		"another type": {Name: "x.example.", Qtype: dns.TypeAAAA, Qclass: dns.ClassINET},
	} {
		liar := serve(t, func(q dns.Question, _ string) *dns.Msg {
			return &dns.Msg{Question: []dns.Question{question}, Answer: records(t, q.Name+" 60 IN A 192.0.2.66")}
		})
		if m, err := newForwarder(t, liar).Exchange(t.Context(), a("x.example.")); err == nil {
			t.Errorf("%s was taken: %s", what, m)
		}
		m, err := newForwarder(t, liar, serve(t, address(t))).Exchange(t.Context(), a("x.example."))
		if err != nil || len(m.Answer) != 1 || m.Answer[0].(*dns.A).A.String() != "192.0.2.1" {
			t.Errorf("%s: the other server's answer is %v, %v", what, m, err)
		}
	}
}
