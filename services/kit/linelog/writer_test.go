package linelog_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"portolan.dev/services/kit/linelog"
)

// run runs a writer that records the times of its calls.
func run(ticks <-chan time.Time) (w *linelog.Writer, calls *[]string) {
	w, calls, begun := linelog.NewWriter(time.Second), new([]string), time.Now()
	record := func(name string) func() {
		return func() { *calls = append(*calls, fmt.Sprint(name, " ", time.Since(begun))) }
	}
	go w.Run(record("flush"), ticks, record("tick"), record("end"))
	return w, calls
}

func wantCalls(t *testing.T, got *[]string, want ...string) {
	t.Helper()
	if fmt.Sprint(*got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", *got, want)
	}
}

func TestLinesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ticks := make(chan time.Time)
		w, calls := run(ticks)
		w.Wake()
		synctest.Wait()
		ticks <- time.Now() // is received after the flush
		w.Wake()
		synctest.Wait()
		w.Hurry()
		synctest.Wait()
		if !w.Close() || !w.Close() {
			t.Error("the end did not come")
		}
		wantCalls(t, calls, "flush 1s", "tick 1s", "flush 1s", "flush 1s", "end 1s")
	})
}

func TestCloseDoesNotWaitForLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, calls := run(nil)
		w.Wake()
		synctest.Wait()
		w.Close()
		wantCalls(t, calls, "flush 0s", "flush 0s", "end 0s")
	})
}

func TestCloseDoesNotWaitForAStuckDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := linelog.NewWriter(time.Second)
		stuck := make(chan struct{})
		go w.Run(func() { <-stuck }, nil, nil, func() {})
		begun := time.Now()
		if w.Close() || time.Since(begun) != linelog.CloseTimeout {
			t.Errorf("Close waited for %s", time.Since(begun))
		}
		close(stuck)
	})
}
