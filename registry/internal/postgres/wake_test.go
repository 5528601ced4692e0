package postgres

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/kittest"
)

// lines counts log lines by message and records when the first of each was logged.
type lines struct {
	slog.Handler

	mu    sync.Mutex
	count map[string]int
	first map[string]time.Time
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count[r.Message]++; l.count[r.Message] == 1 {
		l.first[r.Message] = r.Time
	}
	return nil
}

func (l *lines) of(message string) (int, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count[message], time.Since(l.first[message])
}

// TestAnOutageIsToldOnce checks that the beginning and the end of an outage are logged once,
// however often the store tries to listen in between.
func TestAnOutageIsToldOnce(t *testing.T) {
	t.Parallel()
	cluster := kittest.NewCluster(t)
	log := &lines{Handler: slog.DiscardHandler, count: map[string]int{}, first: map[string]time.Time{}}
	s, err := Open(t.Context(), Config{DSN: cluster.Database(t), Log: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	const begun, over = "store notifications interrupted", "store notifications are back"
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "an outage of several attempts", func() error {
		if n, since := log.of(begun); n == 0 || since < 25*pollEvery {
			return errors.New("too short")
		}
		return nil
	})
	if n, _ := log.of(begun); n != 1 {
		t.Errorf("the outage was told %d times", n)
	}
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the end of the outage", func() error {
		if n, _ := log.of(over); n == 0 {
			return errors.New("not told")
		}
		return nil
	})
}

// TestNobodyIsWokenForNothing waits until the polls after a commit are over. No waiter may be woken
// after that, because each of thousands of followers would read the log ten times a second.
func TestNobodyIsWokenForNothing(t *testing.T) {
	t.Parallel()
	s := openStore(t, kittest.Postgres(t), store.CommitterOptions{})
	defer closeStore(t, s)
	kittest.Eventually(t, "several polls that wake nobody", func() error {
		select {
		case <-s.Wake():
			return errors.New("woken")
		case <-time.After(5 * pollEvery):
			return nil
		}
	})
}
