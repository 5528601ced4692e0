package stores

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"portolan.dev/faults/sim/netem"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/object"
)

// silence is how long a session waits for an answer that was lost, until it takes its connection
// for broken.
const replyTimeout = time.Second

// Session is the connection of one registry to its database. It implements store.Store.
type Session struct {
	*store.Committer
	store.Waker
	store.RecentLog
	link

	database *Database

	mu   sync.Mutex
	dead bool
}

var _ store.Store = (*Session)(nil)

// Open connects the registry with this name. Its link in the weather is named "database " and the
// name.
func (d *Database) Open(name string, commits store.CommitterOptions) *Session {
	s := &Session{database: d, link: link{d.emulator, "database " + name}}
	s.Committer = store.NewCommitter(commits, s.Commit)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions[s] = struct{}{}
	return s
}

// Kill ends the connection as the death of the registry does: no answer comes any more.
func (s *Session) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
}

func (s *Session) killed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dead
}

var errLost = fmt.Errorf("%w: the connection is lost", store.ErrUnavailable)

// Commit carries out a batch. If its connection breaks, the outcome is sometimes known afterwards,
// and sometimes store.ErrUnknown.
func (s *Session) Commit(ctx context.Context, ops []store.Op) []batch.Outcome[store.Result] {
	if s.killed() {
		return batch.Fail[store.Result](len(ops), errLost)
	}
	request, reply := s.next(), s.next()
	if request.Lost {
		sleep(ctx, replyTimeout)
		return batch.Fail[store.Result](len(ops), s.errorAfterLoss(request, errLost))
	}
	if !sleep(ctx, request.Delay) {
		return batch.Fail[store.Result](len(ops), fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err()))
	}
	decision, head := s.database.execute(s, ops)
	if reply.Lost {
		sleep(ctx, replyTimeout)
	}
	if !sleep(ctx, reply.Delay) || reply.Lost {
		if err := s.errorAfterLoss(reply, nil); err != nil {
			return batch.Fail[store.Result](len(ops), err)
		}
	}
	if s.killed() {
		return batch.Fail[store.Result](len(ops), store.ErrUnknown)
	}
	if len(decision.Records) > 0 {
		s.Committed(head, decision.Records)
		s.Notify()
	}
	return decision.Outcomes
}

// lostError returns the error for a batch if its question or answer was lost: either
// store.ErrUnknown, or truth, the real outcome.
func (s *Session) errorAfterLoss(fate netem.Fate, outcome error) error {
	if fate.Delay%2 == 0 {
		return store.ErrUnknown
	}
	return outcome
}

// ask waits while a question and its answer travel.
func (s *Session) roundTrip(ctx context.Context) error {
	fate := s.next()
	if fate.Lost || s.killed() {
		if !sleep(ctx, replyTimeout) {
			return ctx.Err()
		}
		return errLost
	}
	if !sleep(ctx, fate.Delay) {
		return ctx.Err()
	}
	return nil
}

// Head is the Head of [store.Store].
func (s *Session) Head(ctx context.Context) (store.Head, error) {
	if err := s.roundTrip(ctx); err != nil {
		return store.Head{}, err
	}
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	return s.database.head, nil
}

// Snapshot is the Snapshot of [store.Store].
func (s *Session) Snapshot(ctx context.Context, read func(store.Head, iter.Seq2[store.Row, error]) error) error {
	if err := s.roundTrip(ctx); err != nil {
		return err
	}
	s.database.mu.Lock()
	head, rows := s.database.head, s.database.sorted()
	s.database.mu.Unlock()
	return read(head, func(yield func(store.Row, error) bool) {
		for _, row := range rows {
			if err := ctx.Err(); err != nil {
				yield(store.Row{}, err)
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	})
}

// Changes is the Changes of [store.Store].
func (s *Session) Changes(ctx context.Context, after uint64, limit int) ([]store.Record, store.Head, error) {
	if err := s.roundTrip(ctx); err != nil {
		return nil, store.Head{}, err
	}
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	head := s.database.head
	if after < head.Oldest {
		return nil, head, &store.Pruned{Oldest: head.Oldest}
	}
	return s.database.after(after, limit), head, nil
}

// Prune is the Prune of [store.Store].
func (s *Session) Prune(ctx context.Context, through uint64) (int64, error) {
	if err := s.roundTrip(ctx); err != nil {
		return 0, err
	}
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	head := &s.database.head
	through = min(through, head.Revision)
	if through <= head.Oldest {
		return 0, nil
	}
	pruned := int64(through - head.Oldest) //nolint:gosec // far from that many
	head.Oldest = through
	return pruned, nil
}

// NewEpoch is the NewEpoch of [store.Store].
func (s *Session) NewEpoch(ctx context.Context) (store.Head, error) {
	if err := s.roundTrip(ctx); err != nil {
		return store.Head{}, err
	}
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	s.database.startEpoch()
	s.database.notify(nil)
	return s.database.head, nil
}

// Restore is the Restore of [store.Store].
func (s *Session) Restore(ctx context.Context, at, revision uint64, rows iter.Seq2[store.Row, error]) error {
	if err := s.roundTrip(ctx); err != nil {
		return err
	}
	restored := map[object.Key]store.Row{}
	for row, err := range rows {
		if err := errors.Join(err, store.CheckRestored(row, revision)); err != nil {
			return err
		}
		if _, duplicate := restored[row.Key]; duplicate {
			return fmt.Errorf("restore %s: it comes twice", row.Key)
		}
		restored[row.Key] = row
	}
	d := s.database
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.head.Revision != at {
		return &store.ConflictError{Have: d.head.Revision}
	}
	d.startEpoch()
	d.rows, d.records, d.base = restored, nil, max(at, revision)
	d.head.Revision, d.head.Oldest = d.base, d.base
	d.notify(nil)
	return nil
}

// Lock is the Lock of [store.Store].
func (s *Session) Lock(ctx context.Context, name string, fn func(context.Context) error) error {
	lock := s.database.lock(name)
	select {
	case lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-lock }()
	return fn(ctx)
}

// Close is the Close of [store.Store].
func (s *Session) Close() error {
	s.Committer.Close()
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	delete(s.database.sessions, s)
	return nil
}
