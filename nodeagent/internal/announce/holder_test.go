package announce

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
)

var pool = []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("2001:db8::1")}

// TestRightsEndWithTheMessage checks in random histories that the node may announce an address if
// and only if the last answer to a message has it, and the validity has not passed since that
// message was made.
func TestRightsEndWithTheMessage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Hour
		h := NewHolder(func() time.Duration { return now }, "i", fakeProxy{}.Serves)
		var sequence, answers uint64
		sent := map[uint64]time.Duration{}
		until, last := time.Duration(0), []netip.Addr(nil)
		h.Begin()
		rt.Repeat(map[string]func(*rapid.T){
			"stream": func(*rapid.T) {
				h.Begin()
				sequence, answers, sent = 0, 0, map[uint64]time.Duration{}
				h.Follow(&loadbalancerv1.AnnounceResponse{Sequence: 1}, time.Now())
				answers = 1
			},
			"message": func(rt *rapid.T) {
				sequence++
				sent[sequence] = now
				m := h.Message(State{Node: "n"})
				held := texts(expected(now, until, last))
				if m.GetSequence() != sequence || m.GetFollowedAnswer() != answers || !slices.Equal(m.GetAddresses(), held) {
					rt.Fatalf("message %v, want number %d after answer %d with %v", m, sequence, answers, held)
				}
				if former := texts(last); now >= until && len(former) > 0 && (!slices.Equal(m.GetFormerAddresses(), former) || m.GetFormerSince().AsDuration() != now-until) {
					rt.Fatalf("message %v, want the former addresses %v", m, former)
				}
			},
			"answer": func(rt *rapid.T) {
				if sequence == 0 {
					return
				}
				answers++
				to := rapid.Uint64Range(max(1, sequence)-min(1, sequence-1), sequence).Draw(rt, "answered")
				before := expected(now, until, last)
				last = nil
				for _, addr := range pool {
					if rapid.Bool().Draw(rt, addr.String()) {
						last = append(last, addr)
					}
				}
				if _, ok := sent[to]; !ok {
					to = sequence
				}
				for old := range sent {
					if old < to {
						delete(sent, old)
					}
				}
				until = sent[to] + 2*time.Second
				began, ended, _ := h.Follow(&loadbalancerv1.AnnounceResponse{
					Sequence: answers, AnsweredMessage: to, Validity: durationpb.New(2 * time.Second), Addresses: texts(last),
				}, time.Now())
				after := expected(now, until, last)
				if !slices.Equal(began, without(after, before)) || !slices.Equal(ended, without(before, after)) {
					rt.Fatalf("began %v, ended %v; before %v, after %v", began, ended, before, after)
				}
			},
			"time": func(rt *rapid.T) {
				now += time.Duration(rapid.IntRange(0, 1500).Draw(rt, "ms")) * time.Millisecond
			},
			"drop": func(*rapid.T) {
				h.Drop()
				last = nil
			},
			"": func(rt *rapid.T) {
				held := expected(now, until, last)
				for _, addr := range pool {
					if may := may(h, addr); may != slices.Contains(held, addr) {
						rt.Fatalf("%s may be announced: %v, and held are %v", addr, may, held)
					}
				}
				if got := h.Held(); !slices.Equal(got, held) {
					rt.Fatalf("held are %v, want %v", got, held)
				}
			},
		})
	})
}

// expected returns the addresses that may be announced.
func expected(now, until time.Duration, last []netip.Addr) []netip.Addr {
	if now >= until {
		return nil
	}
	return last
}

// TestAnswersToNothingGiveNoRight checks the greeting, and answers to messages that were not sent on
// the stream.
func TestAnswersToNothingGiveNoRight(t *testing.T) {
	h := NewHolder(func() time.Duration { return time.Hour }, "i", fakeProxy{}.Serves)
	h.Begin()
	h.Message(State{Node: "n"})
	h.Begin()
	for _, to := range []uint64{0, 1, 7} {
		h.Follow(&loadbalancerv1.AnnounceResponse{Sequence: 1, AnsweredMessage: to, Validity: durationpb.New(time.Hour), Addresses: []string{"192.0.2.1"}}, time.Now())
		if held := h.Held(); len(held) > 0 {
			t.Errorf("an answer to message %d gives the right for %v", to, held)
		}
	}
}

// may reports whether the node may announce an address.
func may(h *Holder, addr netip.Addr) bool {
	may, _ := h.Send(addr, func() error { return nil })
	return may
}

// TestARightDoesNotEndWhileAPacketIsSent ends all rights during a send. If the end did not wait, lbctl could hear of it,
// and another node could answer, before the packet of this node.
func TestARightDoesNotEndWhileAPacketIsSent(t *testing.T) {
	h := NewHolder(func() time.Duration { return time.Hour }, "i", fakeProxy{}.Serves)
	h.Begin()
	h.Message(State{Node: "n"})
	h.Follow(&loadbalancerv1.AnnounceResponse{Sequence: 1, AnsweredMessage: 1, Addresses: texts(pool), Validity: durationpb.New(time.Second)}, time.Now())
	dropped := make(chan struct{})
	sent, err := h.Send(pool[0], func() error {
		go func() {
			h.Drop()
			close(dropped)
		}()
		select {
		case <-dropped:
			t.Error("the right ended during the send")
		case <-time.After(20 * time.Millisecond): // far longer than Drop needs
		}
		return nil
	})
	if !sent || err != nil {
		t.Errorf("sent %v, %v", sent, err)
	}
	<-dropped
	if may(h, pool[0]) {
		t.Error("the node may announce an address after the end of its right")
	}
}
