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

func TestABurstIsOnePieceOfWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](options)
		start := time.Now()
		for range 5 {
			q.Add("a")
			time.Sleep(10 * time.Millisecond)
		}
		key, added, ok := q.Get(t.Context())
		if took := time.Since(start); key != "a" || !ok || !added.Equal(start) || took != 60*time.Millisecond {
			t.Errorf("got %q after %v, added %v; want it 20ms after the last of the burst", key, took, added.Sub(start))
		}
		q.Done(key, nil)
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
				q.Add("a")
				time.Sleep(10 * time.Millisecond)
			}
		})
		if _, _, ok := q.Get(t.Context()); !ok || time.Since(start) != options.Longest {
			t.Errorf("got it after %v, want %v", time.Since(start), options.Longest)
		}
		cancel()
		wg.Wait()
	})
}

func TestFailuresAreTriedAgainLaterAndLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](options)
		q.Add("a")
		want := []time.Duration{20 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second}
		for i, pause := range want {
			start := time.Now()
			key, _, _ := q.Get(t.Context())
			if took := time.Since(start); took != pause {
				t.Errorf("try %d came after %v, want %v", i, took, pause)
			}
			q.Done(key, errors.New("no luck"))
		}
		key, _, _ := q.Get(t.Context())
		q.Done(key, nil)
		if q.Len() != 0 {
			t.Error("it is still there after it went well")
		}
	})
}

func TestAChangeShortensThePauseAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](options)
		q.Add("a")
		for range 5 {
			key, _, _ := q.Get(t.Context())
			q.Done(key, errors.New("no luck"))
		}
		start := time.Now()
		q.Add("a")
		time.Sleep(options.Longest / 2)
		q.Add("a") // does not delay it further
		if q.Get(t.Context()); time.Since(start) != options.Longest {
			t.Errorf("a key with changes was tried again after %v, want %v", time.Since(start), options.Longest)
		}
	})
}

func TestAKeyIsWorkedOnByOneAndAgainWhenAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New[string](options)
		q.Add("a")
		key, _, _ := q.Get(t.Context())
		q.Add("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if other, _, ok := q.Get(ctx); ok {
			t.Fatalf("%q was handed out twice", other)
		}
		q.Done(key, nil)
		if again, _, ok := q.Get(t.Context()); again != "a" || !ok {
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
					key, _, ok := q.Get(ctx)
					if !ok {
						return
					}
					time.Sleep(time.Second)
					mu.Lock()
					seen[key]++
					mu.Unlock()
					q.Done(key, nil)
				}
			})
		}
		for i := range 40 {
			q.Add(i)
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
