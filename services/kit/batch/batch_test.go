package batch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"portolan.dev/services/kit/batch"
)

// gate is a run function that blocks until the test releases its batch.
type gate struct {
	batches [][]int
	release chan struct{}
}

func (g *gate) run(ctx context.Context, reqs []int) []batch.Outcome[string] {
	g.batches = append(g.batches, reqs)
	select {
	case <-g.release:
	case <-ctx.Done():
		return batch.Fail[string](len(reqs), ctx.Err())
	}
	outcomes := make([]batch.Outcome[string], len(reqs))
	for i, req := range reqs {
		outcomes[i].Value = fmt.Sprint(req)
		if req < 0 {
			outcomes[i].Err = errOdd
		}
	}
	return outcomes
}

var errOdd = errors.New("odd")

type answer struct {
	value string
	err   error
}

// do starts a request and returns once the request waits in the group.
func do(ctx context.Context, group *batch.Group[int, string], req int) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		value, err := group.Do(ctx, req)
		answers <- answer{value, err}
	}()
	synctest.Wait()
	return answers
}

func TestRequestsThatWaitAreOneBatchWithOutcomesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{release: make(chan struct{})}
		group := batch.New(batch.Options[int]{}, g.run)
		first := do(t.Context(), group, 1)
		var rest []<-chan answer
		for _, req := range []int{2, -3, 4} {
			rest = append(rest, do(t.Context(), group, req))
		}
		g.release <- struct{}{}
		g.release <- struct{}{}
		if got := <-first; got != (answer{"1", nil}) {
			t.Errorf("the first request: %v", got)
		}
		for i, want := range []answer{{"2", nil}, {"-3", errOdd}, {"4", nil}} {
			if got := <-rest[i]; got != want {
				t.Errorf("request %d: got %v, want %v", i, got, want)
			}
		}
		if got, want := fmt.Sprint(g.batches), "[[1] [2 -3 4]]"; got != want {
			t.Errorf("batches %s, want %s", got, want)
		}
	})
}

// TestManyRequestsOfOneCaller checks that they are one batch, behind those that waited before, that
// each has its own outcome, and that those which have not started are withdrawn.
func TestManyRequestsOfOneCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{release: make(chan struct{})}
		group := batch.New(batch.Options[int]{MaxItems: 3}, g.run)
		many := func(ctx context.Context, reqs ...int) <-chan string {
			got := make(chan string, 1)
			go func() {
				text := ""
				for _, outcome := range group.DoMany(ctx, reqs) {
					text += fmt.Sprintf("%s %v, ", outcome.Value, outcome.Err)
				}
				got <- text
			}()
			synctest.Wait()
			return got
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := do(t.Context(), group, 1)
		three := many(t.Context(), 2, -3, 4)
		partly := many(ctx, 5, 6, 7, 8)
		g.release <- struct{}{}
		<-first
		g.release <- struct{}{}
		if got, want := <-three, "2 <nil>, -3 odd, 4 <nil>, "; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		synctest.Wait() // 5, 6 and 7 run
		cancel()
		synctest.Wait() // 8 is withdrawn
		g.release <- struct{}{}
		if got, want := <-partly, "5 <nil>, 6 <nil>, 7 <nil>,  context canceled, "; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := fmt.Sprint(g.batches), "[[1] [2 -3 4] [5 6 7]]"; got != want {
			t.Errorf("batches %s, want %s", got, want)
		}
		if got := <-many(ctx, 9); got != " context canceled, " {
			t.Errorf("a dead context: %q", got)
		}
		group.Close()
		if got := <-many(t.Context(), 9, 10); got != " batch group closed,  batch group closed, " {
			t.Errorf("a closed group: %q", got)
		}
		if got := group.DoMany(t.Context(), nil); len(got) != 0 {
			t.Errorf("no requests have %d outcomes", len(got))
		}
	})
}

func TestACancelledRequestIsWithdrawnOnlyBeforeItsBatchBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{release: make(chan struct{})}
		group := batch.New(batch.Options[int]{}, g.run)
		ctx, cancel := context.WithCancel(t.Context())
		running := do(ctx, group, 1)
		waiting := do(ctx, group, 2)
		stays := do(t.Context(), group, 3)
		cancel()
		if got := <-waiting; !errors.Is(got.err, context.Canceled) {
			t.Errorf("the waiting request: %v, want it withdrawn", got)
		}
		close(g.release)
		if got := <-running; got != (answer{"1", nil}) {
			t.Errorf("the running request: %v, want its outcome", got)
		}
		<-stays
		if got, want := fmt.Sprint(g.batches), "[[1] [3]]"; got != want {
			t.Errorf("batches %s, want %s", got, want)
		}
		if got := <-do(ctx, group, 4); !errors.Is(got.err, context.Canceled) {
			t.Errorf("a request with a dead context: %v", got)
		}
	})
}

func TestBatchesKeepTheirBounds(t *testing.T) {
	tests := []struct {
		name    string
		options batch.Options[int]
		want    string
	}{
		{"items", batch.Options[int]{MaxItems: 2}, "[[0] [1 2] [3 4] [9]]"},
		{"bytes", batch.Options[int]{MaxBytes: 5, Size: func(req int) int { return req }}, "[[0] [1 2] [3] [4] [9]]"},
		{"none", batch.Options[int]{}, "[[0] [1 2 3 4 9]]"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &gate{release: make(chan struct{})}
				group := batch.New(test.options, g.run)
				var all []<-chan answer
				for _, req := range []int{0, 1, 2, 3, 4, 9} {
					all = append(all, do(t.Context(), group, req))
				}
				close(g.release)
				for _, answers := range all {
					<-answers
				}
				if got := fmt.Sprint(g.batches); got != test.want {
					t.Errorf("batches %s, want %s", got, test.want)
				}
			})
		})
	}
}

func TestABatchHasADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{release: make(chan struct{})}
		group := batch.New(batch.Options[int]{Timeout: time.Minute}, g.run)
		begin := time.Now()
		if _, err := group.Do(t.Context(), 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

func TestCloseRefusesWhatWaitsAndWaitsForWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{release: make(chan struct{})}
		group := batch.New(batch.Options[int]{}, g.run)
		running := do(t.Context(), group, 1)
		waiting := do(t.Context(), group, 2)
		closed := make(chan struct{})
		go func() { group.Close(); close(closed) }()
		synctest.Wait()
		if got := <-waiting; !errors.Is(got.err, batch.ErrClosed) {
			t.Errorf("the waiting request: %v", got)
		}
		if got := <-do(t.Context(), group, 3); !errors.Is(got.err, batch.ErrClosed) {
			t.Errorf("a late request: %v", got)
		}
		select {
		case <-closed:
			t.Error("Close did not wait for the batch under way")
		default:
		}
		g.release <- struct{}{}
		<-closed
		if got := <-running; got != (answer{"1", nil}) {
			t.Errorf("the running request: %v", got)
		}
	})
}

// TestEveryRequestIsRunOnce runs many concurrent callers, some of which cancel their requests.
func TestEveryRequestIsRunOnce(t *testing.T) {
	const callers, each = 32, 200
	ran := map[int]int{}
	busy := false
	group := batch.New(batch.Options[int]{MaxItems: 8}, func(_ context.Context, reqs []int) []batch.Outcome[int] {
		if busy { // batches must not overlap; the race detector would notice as well
			t.Error("two batches at once")
		}
		busy = true
		outcomes := make([]batch.Outcome[int], len(reqs))
		for i, req := range reqs {
			ran[req]++
			outcomes[i].Value = -req
		}
		busy = false
		return outcomes
	})
	var wg sync.WaitGroup
	var mu sync.Mutex
	withdrawn := map[int]bool{}
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				req := caller*each + i + 1
				ctx, cancel := context.WithCancel(t.Context())
				if i%3 == 0 {
					go cancel()
				}
				got, err := group.Do(ctx, req)
				cancel()
				switch {
				case err != nil:
					mu.Lock()
					withdrawn[req] = true
					mu.Unlock()
				case got != -req:
					t.Errorf("request %d got the outcome %d", req, got)
				}
			}
		})
	}
	wg.Wait()
	group.Close()
	for req := 1; req <= callers*each; req++ {
		want := 1
		if withdrawn[req] {
			want = 0
		}
		if ran[req] != want {
			t.Errorf("request %d ran %d times, want %d", req, ran[req], want)
		}
	}
}
