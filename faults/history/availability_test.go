package history

import (
	"testing"
	"time"
)

var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func second(n int) time.Time { return origin.Add(time.Duration(n) * time.Second) }

// TestAvailability checks the limits of an outage: from the first request that fails to the end of
// the next one that is served.
func TestAvailability(t *testing.T) {
	h := &History{Calls: []Call{
		{Client: "a", Verb: Create, Began: second(0), Ended: second(1), Outcome: OK},
		{Client: "b", Verb: Create, Began: second(0), Ended: second(3), Outcome: Unknown},
		{Client: "a", Verb: Create, Began: second(2), Ended: second(4), Outcome: Unknown},
		{Client: "b", Verb: Create, Began: second(4), Ended: second(5), Outcome: Refused}, // served
		{Client: "a", Verb: Create, Began: second(6), Ended: second(7), Outcome: Unknown},
		{Client: "a", Verb: Create, Began: second(8), Ended: second(10), Outcome: OK},
		{Client: "a", Verb: Get, Began: second(0), Ended: second(1), Outcome: OK},
		{Client: "a", Verb: Get, Began: second(2), Ended: second(9), Outcome: Unknown},
		{Client: "a", Verb: Get, Began: second(9)}, // in progress
	}}
	got := h.Availability()
	if len(got) != 2 {
		t.Fatalf("%d kinds of clients, want 2: %v", len(got), got)
	}
	if want := (Availability{Kind: "read", Clients: 1, Longest: 7 * time.Second, LongestFrom: second(2), Total: 7 * time.Second, Failed: 1, Served: 1}); got[0] != want {
		t.Errorf("reads: %+v, want %+v", got[0], want)
	}
	if want := (Availability{Kind: "write", Clients: 2, Longest: 8 * time.Second, LongestFrom: second(2), Total: 10 * time.Second, Failed: 3, Served: 3}); got[1] != want {
		t.Errorf("writes: %+v, want %+v", got[1], want)
	}
}

// TestFaultDuration checks that simultaneous faults count once, and that a fault that has not ended
// counts up to the end of the time.
func TestFaultDuration(t *testing.T) {
	h := &History{Faults: []Fault{
		{Began: second(0), Ended: second(4)}, {Began: second(2), Ended: second(5)}, {Began: second(10)},
	}}
	for _, c := range []struct {
		from, to, effect, want int
	}{
		{0, 20, 0, 15}, {3, 12, 0, 4}, {5, 10, 0, 0}, {5, 10, 2, 2}, {0, 6, 1, 6},
	} {
		if got := h.FaultDuration(second(c.from), second(c.to), time.Duration(c.effect)*time.Second); got != time.Duration(c.want)*time.Second {
			t.Errorf("from %d to %d, effect for %d: %s, want %d s", c.from, c.to, c.effect, got, c.want)
		}
	}
}
