package nemesis

import (
	"testing"
	"time"

	"portolan.dev/faults/history"
)

// TestAllocationsAreMissingOnlyAfterALossOfTheStore has lists of allocations before, during and after the loss of the
// allocator's store, with another fault that lasts longer.
func TestAllocationsAreMissingOnlyAfterALossOfTheStore(t *testing.T) {
	start := time.Now()
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	loss := history.Fault{Description: Fault{Kind: loseAllocations}.String(), Began: at(2), Ended: at(3)}
	cut := history.Fault{Description: "0 1s 9s cut registry-0 allocator-0", Began: at(1), Ended: at(10)}
	for _, test := range []struct {
		name    string
		faults  []history.Fault
		seconds float64
		want    bool
	}{
		{"without a fault", nil, 5, false},
		{"another fault", []history.Fault{cut}, 5, false},
		{"before the loss", []history.Fault{cut, loss}, 1.5, false},
		{"during the loss", []history.Fault{loss}, 2.5, true},
		{"soon after the loss", []history.Fault{loss}, 7, true},
		{"later", []history.Fault{loss}, 9, false},
		{"soon after a fault that lasted longer", []history.Fault{cut, loss}, 14, true},
		{"later than that", []history.Fault{cut, loss}, 16, false},
		{"a fault that has not ended", []history.Fault{loss, {Description: "pause", Began: at(3)}}, 60, true},
	} {
		list := history.AllocationList{Began: at(test.seconds), Ended: at(test.seconds + 0.1)}
		if got := lostAllocations(&history.History{Faults: test.faults}, list); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
