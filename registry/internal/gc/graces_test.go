package gc

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"portolan.dev/services/object"
)

// TestOneTimerForEachObject sets timers repeatedly, as each sweep and each change of an object
// does, cancels one, and stops the others. Without the replacement, timers of one pod would
// accumulate for the length of its grace period.
func TestOneTimerForEachObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graces := newGraces()
		var mu sync.Mutex // timers run in goroutines of their own
		calls := map[string]int{}
		wait := func(name string, grace time.Duration) {
			graces.start(object.Key{Kind: "Pod", Namespace: "default", Name: name}, time.Now().Add(grace), func() {
				mu.Lock()
				defer mu.Unlock()
				calls[name]++
			})
		}
		check := func(when, name string, want int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if calls[name] != want {
				t.Errorf("%s: %d calls for %s, want %d", when, calls[name], name, want)
			}
		}
		for range 3 {
			wait("longer", time.Minute)
		}
		wait("longer", time.Hour)
		wait("gone", time.Minute)
		graces.cancel(object.Key{Kind: "Pod", Namespace: "default", Name: "gone"})
		if n := len(graces.timers); n != 1 {
			t.Errorf("%d timers are kept, want that of the object that is left", n)
		}
		wait("passed", -time.Minute)
		check("at once", "passed", 1)
		time.Sleep(2 * time.Minute)
		check("the period was prolonged", "longer", 0)
		check("the object is gone", "gone", 0)
		time.Sleep(time.Hour)
		check("the period is over", "longer", 1)

		wait("last", time.Minute)
		graces.stop()
		wait("late", time.Minute)
		time.Sleep(time.Hour)
		check("stopped", "last", 0)
		check("stopped before", "late", 0)
	})
}
