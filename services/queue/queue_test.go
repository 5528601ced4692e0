package queue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var options = Options{Quiet: 20 * time.Millisecond, Longest: 500 * time.Millisecond, RetryMin: time.Second, RetryMax: 10 * time.Second}

// get returns the next due key.
func get(t *testing.T, q *Queue[string]) string {
	t.Helper()
	due, ok := q.Get(t.Context())
	if !ok {
		t.Fatal("no key is due")
	}
	return due.Key
}

func TestABurstIsOnePieceOfWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](options)
		start := time.Now()
		for range 5 {
			q.Add("a", 1)
			time.Sleep(10 * time.Millisecond)
		}
		due, ok := q.Get(t.Context())
		if took := time.Since(start); due.Key != "a" || !ok || !due.Added.Equal(start) || due.Changes != 5 || took != 60*time.Millisecond {
			t.Errorf("got %+v after %v, added %v; want 5 changes, 20ms after the last of the burst", due, took, due.Added.Sub(start))
		}
		q.Done(due.Key, nil, 0)
		if q.Len() != 0 {
			t.Errorf("%d keys are left", q.Len())
		}
	})
}

func TestAnEndlessBurstIsNotPutOffForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](options)
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			for ctx.Err() == nil {
				q.Add("a", 1)
				time.Sleep(10 * time.Millisecond)
			}
		})
		if _, ok := q.Get(t.Context()); !ok || time.Since(start) != options.Longest {
			t.Errorf("got it after %v, want %v", time.Since(start), options.Longest)
		}
		cancel()
		wg.Wait()
	})
}

func TestFailuresAreTriedAgainLaterAndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](options)
		q.Add("a", 1)
		want := []time.Duration{20 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second}
		for i, pause := range want {
			start := time.Now()
			key := get(t, q)
			if took := time.Since(start); took != pause {
				t.Errorf("try %d came after %v, want %v", i, took, pause)
			}
			q.Done(key, errors.New("no luck"), 0)
		}
		key := get(t, q)
		q.Done(key, nil, 0)
		if q.Len() != 0 {
			t.Error("it is still there after it went well")
		}
	})
}

func TestAChangeShortensThePauseAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](options)
		q.Add("a", 1)
		for range 5 {
			key := get(t, q)
			q.Done(key, errors.New("no luck"), 0)
		}
		start := time.Now()
		q.Add("a", 1)
		time.Sleep(options.Longest / 2)
		q.Add("a", 1) // does not delay it further
		if q.Get(t.Context()); time.Since(start) != options.Longest {
			t.Errorf("a key with changes was tried again after %v, want %v", time.Since(start), options.Longest)
		}
	})
}

func TestAKeyIsWorkedOnByOneAndAgainWhenAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](options)
		q.Add("a", 1)
		key := get(t, q)
		q.Add("a", 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if other, ok := q.Get(ctx); ok {
			t.Fatalf("%v was handed out twice", other)
		}
		q.Done(key, nil, 0)
		if again := get(t, q); again != "a" {
			t.Fatal("what was added in the meantime was lost")
		}
	})
}

func TestWorkersShareTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[int](options)
		ctx, cancel := context.WithCancel(t.Context())
		var (
			mu   sync.Mutex
			seen = map[int]int{}
			wg   sync.WaitGroup
		)
		for range 4 {
			wg.Go(func() {
				for {
					due, ok := q.Get(ctx)
					if !ok {
						return
					}
					key := due.Key
					time.Sleep(time.Second)
					mu.Lock()
					seen[key]++
					mu.Unlock()
					q.Done(key, nil, 0)
				}
			})
		}
		for i := range 40 {
			q.Add(i, 1)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		mu.Lock()
		if len(seen) != 40 || q.Len() != 0 {
			t.Errorf("after the time that four need, %d of 40 are done", len(seen))
		}
		mu.Unlock()
		cancel()
		wg.Wait()
	})
}

// TestAKeyIsDueAgainWhenItsWorkerSaysSo checks the time of a key that is to be worked on again, which
// has no changes, and that a change makes it due earlier.
func TestAKeyIsDueAgainWhenItsWorkerSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](options)
		q.Add("a", 1)
		q.Done(get(t, q), nil, time.Minute)
		if q.Len() != 0 {
			t.Error("a key without changes is counted")
		}
		start := time.Now()
		due, ok := q.Get(t.Context())
		if took := time.Since(start); !ok || due.Key != "a" || due.Changes != 0 || took != time.Minute {
			t.Errorf("got %+v after %v, want a without changes after a minute", due, took)
		}
		q.Done("a", nil, time.Minute)
		time.Sleep(time.Second)
		start = time.Now()
		q.Add("a", 3)
		if q.Len() != 1 {
			t.Errorf("%d keys are counted, want the one with changes", q.Len())
		}
		due, ok = q.Get(t.Context())
		if took := time.Since(start); !ok || due.Changes != 3 || !due.Added.Equal(start) || took != options.Quiet {
			t.Errorf("got %+v after %v, want 3 changes after the quiet time", due, took)
		}
		q.Done("a", nil, 0)
		if q.Len() != 0 {
			t.Error("it is still there")
		}
	})
}

func TestNothingIsDueAfterClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](Options{})
		q.Add("a", 1)
		q.Add("b", 1)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if due, ok := q.Get(ctx); ok {
			t.Errorf("%v is handed out although the context is done", due)
		}
		q.Clear()
		if n := q.Len(); n != 0 {
			t.Errorf("%d keys wait", n)
		}
		q.Add("b", 1)
		if due, ok := q.Get(t.Context()); !ok || due.Key != "b" || due.Changes != 1 {
			t.Errorf("got %v, %v", due, ok)
		}
	})
}
