package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"portolan.dev/faults/history"
)

// simulation generates the calls of clients of one correct register. Each call takes effect at a
// random time between its beginning and its end, or never, or after its client gave up.
type simulation struct {
	random  *rand.Rand
	builder *historyBuilder
	now     float64
	state   register
	delayed []delayedWrite
}

// delayedWrite is a write that takes effect after its client gave up.
type delayedWrite struct {
	call history.Call
	at   float64
}

const (
	clients = 8
	rounds  = 150
)

func simulate(seed uint64) *history.History {
	s := &simulation{random: rand.New(rand.NewPCG(seed, 1)), builder: &historyBuilder{}}
	seen := make([]history.Version, clients)
	for n := range rounds {
		s.round(n, seen)
	}
	s.builder.Log.ReadAt = second(s.now + 1)
	return &s.builder.History
}

// round makes one concurrent call of every client. The calls take effect in a random order.
func (s *simulation) round(n int, seen []history.Version) {
	began := s.now
	for i, client := range s.random.Perm(clients) {
		s.now = began + float64(i+1)/clients
		s.applyDelayed()
		c := s.call(fmt.Sprintf("%d-%d", n, client), seen[client])
		c.Client, c.Began = fmt.Sprint(client), second(began+s.random.Float64()/clients)
		switch s.random.IntN(8) {
		case 0: // the request is lost or delayed
			if c.Ended = second(s.now); s.random.IntN(2) == 0 {
				s.delayed = append(s.delayed, delayedWrite{c, s.now + 3*s.random.Float64()})
			}
		case 1: // the answer is lost
			s.apply(&c)
			c.Outcome, c.Result, c.Ended = history.Unknown, history.Version{}, second(s.now)
		default:
			s.apply(&c)
			c.Ended = second(s.now + s.random.Float64()/clients)
			if c.Outcome == history.OK {
				seen[client] = c.Result
			}
		}
		s.builder.Calls = append(s.builder.Calls, c)
	}
	s.now = began + 1.2
}

// applyDelayed applies the delayed writes that are due.
func (s *simulation) applyDelayed() {
	s.delayed = slices.DeleteFunc(s.delayed, func(l delayedWrite) bool {
		if l.at <= s.now {
			s.apply(&l.call)
		}
		return l.at <= s.now
	})
}

func (s *simulation) call(writeID string, seen history.Version) history.Call {
	verbs := []history.Verb{history.Create, history.Update, history.Update, history.Delete, history.Get}
	c := history.Call{Key: podKey, Verb: verbs[s.random.IntN(len(verbs))]}
	if c.Verb == history.Create || c.Verb == history.Update {
		c.WriteID = writeID
	}
	if s.random.IntN(3) > 0 && (c.Verb == history.Update || c.Verb == history.Delete) {
		c.IfUID, c.IfRevision = seen.UID, seen.Revision
	}
	return c
}

// apply lets a call take effect now, and sets its outcome.
func (s *simulation) apply(c *history.Call) {
	fits := s.state.present && s.state.mustMatch(c)
	switch {
	case c.Verb == history.Create && s.state.present:
		refused(codes.AlreadyExists)(c)
		return
	case c.Verb != history.Create && !s.state.present:
		refused(codes.NotFound)(c)
		return
	case (c.Verb == history.Update || c.Verb == history.Delete) && !fits:
		refused(codes.Aborted)(c)
		return
	}
	c.Outcome, c.Result = history.OK, s.state.version
	switch c.Verb {
	case history.Get:
		return
	case history.Delete:
		del(pod(s.state.version.UID, s.state.version.WriteID))(s.builder)
		s.state = register{}
		return
	}
	uid := s.state.version.UID
	if c.Verb == history.Create {
		uid = "uid of " + c.WriteID
	}
	put(pod(uid, c.WriteID))(s.builder)
	s.state = register{true, history.Version{UID: uid, Revision: s.builder.lastRevision, WriteID: c.WriteID}}
	c.Result = s.state.version
}

// TestLinearizableAtRandom checks that the search ends soon for a correct register with random
// outcomes, and that a read of an outdated version is found.
func TestLinearizableAtRandom(t *testing.T) {
	for seed := range uint64(8) {
		h := simulate(seed)
		checkers := []Checker{Linearizable{}, Writes{}, Order{}}
		if found := Run(h, checkers...); len(found) > 0 {
			t.Fatalf("seed %d: %s", seed, found[0])
		}
		random := rand.New(rand.NewPCG(seed, 2))
		reads := slices.Collect(func(yield func(int) bool) {
			for n, c := range h.Calls {
				if c.Verb == history.Get && c.Outcome == history.OK && n > len(h.Calls)/2 && !yield(n) {
					return
				}
			}
		})
		stale := &h.Calls[reads[random.IntN(len(reads))]]
		for _, c := range h.Calls {
			if c.Verb == history.Create && c.Outcome == history.OK {
				stale.Result = c.Result // long outdated
				break
			}
		}
		if found := Run(h, Linearizable{}); len(found) == 0 {
			t.Errorf("seed %d: the read of version %d at %s is not found", seed, stale.Result.Revision, stale.Began)
		}
	}
}
