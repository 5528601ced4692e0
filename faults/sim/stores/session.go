package stores

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"portolan.dev/faults/sim/netem"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/object"
)

// replyTimeout is the time after which a session without a reply considers its connection broken.
const replyTimeout = time.Second

// Session is the connection of one registry to its database. It implements store.Store.
type Session struct {
	*store.Committer
	store.Waker
	store.RecentLog
	link

	database *Database
	usage    store.UsageFunc

	mu   sync.Mutex
	dead bool
}

var _ store.Store = (*Session)(nil)

// Open connects the registry with the given name. The name of the link is "database " and the
// registry's name.
func (d *Database) Open(name string, commits store.CommitterOptions) *Session {
	s := &Session{database: d, usage: commits.Usage, link: link{d.emulator, "database " + name}}
	s.Committer = store.NewCommitter(commits, s.Commit)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions[s] = struct{}{}
	return s
}

// Kill closes the connection, as if the registry's process had died. No further replies arrive.
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

// Commit executes a batch. If the connection breaks, Commit returns either the real outcome or
// store.ErrUnknown.
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
		store.ShareObjects(decision.Records, ops, decision.Outcomes)
		s.Committed(head, decision.Records)
		s.Notify()
	}
	return decision.Outcomes
}

// errorAfterLoss returns the error of a batch with a lost request or reply: store.ErrUnknown in
// half of the cases, otherwise outcome.
func (s *Session) errorAfterLoss(fate netem.Fate, outcome error) error {
	if fate.Delay%2 == 0 {
		return store.ErrUnknown
	}
	return outcome
}

// roundTrip waits for the time of a request and its reply. It returns an error if one of them is
// lost.
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

// Head implements [store.Store].
func (s *Session) Head(ctx context.Context) (store.Head, error) {
	if err := s.roundTrip(ctx); err != nil {
		return store.Head{}, err
	}
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	return s.database.head, nil
}

// Snapshot implements [store.Store].
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

// Changes implements [store.Store].
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

// LogSize implements [store.Store].
func (s *Session) LogSize(ctx context.Context, keep int64) (size int64, through uint64, err error) {
	if err := s.roundTrip(ctx); err != nil {
		return 0, 0, err
	}
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	for _, record := range slices.Backward(s.database.after(s.database.head.Oldest, math.MaxInt)) {
		if size += int64(len(record.Data)); size > keep && through == 0 {
			through = record.Revision
		}
	}
	return size, through, nil
}

// Prune implements [store.Store].
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
	pruned := int64(through - head.Oldest)
	head.Oldest = through
	return pruned, nil
}

// NewEpoch implements [store.Store].
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

// Restore implements [store.Store].
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
			return fmt.Errorf("restore %s: duplicate row", row.Key)
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

// Installation implements [store.Store].
func (s *Session) Installation(ctx context.Context) (string, error) {
	if err := s.roundTrip(ctx); err != nil {
		return "", err
	}
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	return s.database.installation, nil
}

// SetInstallation implements [store.Store].
func (s *Session) SetInstallation(ctx context.Context, id string) error {
	if err := s.roundTrip(ctx); err != nil {
		return err
	}
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	s.database.installation = id
	return nil
}

// Lock implements [store.Store].
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

// Close implements [store.Store].
func (s *Session) Close() error {
	s.Committer.Close()
	s.database.mu.Lock()
	defer s.database.mu.Unlock()
	delete(s.database.sessions, s)
	return nil
}
