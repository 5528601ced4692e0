package lease

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"
)

// journal records the replicas that led.
type journal struct {
	mu         sync.Mutex
	leading    map[string]uint64
	maxLeaders int
	fences     []string
}

func (j *journal) lead(name string) func(context.Context, int, uint64, uint64) {
	return func(ctx context.Context, _ int, epoch, _ uint64) {
		md, _ := metadata.FromOutgoingContext(ctx)
		j.mu.Lock()
		j.leading[name] = epoch
		j.maxLeaders = max(j.maxLeaders, len(j.leading))
		j.fences = append(j.fences, md.Get(fenceHeader)...)
		j.mu.Unlock()
		<-ctx.Done()
		j.mu.Lock()
		delete(j.leading, name)
		j.mu.Unlock()
	}
}

func (j *journal) leaders() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for name := range j.leading {
		return name
	}
	return ""
}

const duration = 5 * time.Second

// compete runs replicas with these names, and returns a function for each that stops it.
func compete(t *testing.T, l *fakeRegistry, j *journal, names ...string) map[string]func() {
	stops := map[string]func(){}
	for _, name := range names {
		e := New(Config{
			Client: l, Log: slog.New(slog.DiscardHandler), Namespace: "default", Name: "x", Identity: name, Duration: duration, Shards: 1, Lead: j.lead(name),
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- e.Run(ctx) }()
		stops[name] = sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // so that the first of the list leads first
	}
	return stops
}

func TestOneLeadsAndAnotherTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := newFakeRegistry(), &journal{leading: map[string]uint64{}}
		stops := compete(t, l, j, "a", "b", "c")
		time.Sleep(time.Minute)
		synctest.Wait()
		if j.leaders() != "a" {
			t.Fatalf("%q leads, want a", j.leaders())
		}

		l.set(func() { l.unreachable["a"] = true })
		time.Sleep(duration * 2)
		synctest.Wait()
		heir := j.leaders()
		if heir == "" || heir == "a" {
			t.Fatalf("%q leads twice the duration after the first fell silent", heir)
		}
		l.set(func() { l.unreachable["a"] = false })
		time.Sleep(time.Minute)
		synctest.Wait()
		if j.leaders() != heir {
			t.Errorf("%q leads, though %q never fell silent", j.leaders(), heir)
		}

		stops[heir]()
		time.Sleep(duration / 2)
		synctest.Wait()
		if now := j.leaders(); now == "" || now == heir {
			t.Errorf("%q leads after %q gave the lease back", now, heir)
		}
		for _, stop := range stops {
			stop()
		}
		if j.maxLeaders != 1 {
			t.Errorf("%d led at once", j.maxLeaders)
		}
		if want := []string{"default/x=1", "default/x=2", "default/x=3"}; !slices.Equal(j.fences, want) {
			t.Errorf("fences %q, want %q", j.fences, want)
		}
		if holder := l.leases["x"].GetSpec().GetHolderIdentity(); holder != "" {
			t.Errorf("in the end %q holds the lease", holder)
		}
	})
}

func TestShortTroubleIsNoReasonToGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := newFakeRegistry(), &journal{leading: map[string]uint64{}}
		stops := compete(t, l, j, "a", "b")
		for range 10 {
			l.set(func() { l.unreachable["a"] = true })
			time.Sleep(duration / 4)
			l.set(func() { l.unreachable["a"] = false })
			time.Sleep(duration)
		}
		synctest.Wait()
		if j.leaders() != "a" || l.leases["x"].GetSpec().GetEpoch() != 1 {
			t.Errorf("%q leads, epoch %d", j.leaders(), l.leases["x"].GetSpec().GetEpoch())
		}
		for _, stop := range stops {
			stop()
		}
	})
}

func TestARenewalWithoutAnAnswerIsFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, j := newFakeRegistry(), &journal{leading: map[string]uint64{}}
		stops := compete(t, l, j, "a", "b")
		l.set(func() { l.lostAcks = 1 })
		time.Sleep(duration * 3)
		synctest.Wait()
		if j.leaders() != "a" || l.leases["x"].GetSpec().GetEpoch() != 1 {
			t.Errorf("%q leads, epoch %d", j.leaders(), l.leases["x"].GetSpec().GetEpoch())
		}
		for _, stop := range stops {
			stop()
		}
	})
}
