package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"portolan.dev/registry/store"
	"portolan.dev/registry/store/storetest"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

func newOp(name string) store.Op {
	return store.Op{Action: store.Create, Key: object.Key{Kind: "Service", Namespace: "default", Name: name}, UID: "uid-" + name, Data: []byte(name)}
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// verify compares a store with the outcomes that its writers got.
func verify(t *testing.T, s store.Store, ledger *storetest.Ledger) {
	t.Helper()
	state, err := storetest.CheckInvariants(t.Context(), s)
	if err := errors.Join(err, ledger.Verify(state, true)); err != nil {
		t.Error(err)
	}
}

// TestWritersSurviveTheLossOfTheirConnections terminates the backends of two replicas repeatedly in
// mid-commit. Every write must be stored once, and its writer must get the outcome.
func TestWritersSurviveTheLossOfTheirConnections(t *testing.T) {
	t.Parallel()
	dsn := kittest.Postgres(t)
	admin := connect(t, dsn)
	stores := []*Store{openStore(t, dsn, store.CommitterOptions{Timeout: time.Minute}), openStore(t, dsn, store.CommitterOptions{Timeout: time.Minute})}
	const kills, between = 10, 100
	ledger := &storetest.Ledger{}
	var acked, failed atomic.Int64
	var over atomic.Bool
	progress := make(chan struct{}, 1)
	var wg sync.WaitGroup
	for i, s := range stores {
		defer closeStore(t, s)
		wg.Go(func() {
			storetest.Load(t.Context(), s, fmt.Sprint("replica", i), 16, ledger, func(e storetest.Entry) bool {
				switch {
				case e.Err == nil:
					acked.Add(1)
				case errors.Is(e.Err, store.ErrUnknown), errors.Is(e.Err, store.ErrUnavailable):
					failed.Add(1)
				default:
					t.Errorf("%s of %s: %v", e.Action, e.Key, e.Err)
					return true
				}
				select {
				case progress <- struct{}{}:
				default:
				}
				return over.Load()
			})
		})
	}
	defer wg.Wait()
	defer over.Store(true)
	for range kills {
		for until := acked.Load() + between; acked.Load() < until; {
			kittest.Receive(t, "writes", progress)
		}
		terminate(t, admin, "portolan-registry-writer")
	}
	over.Store(true)
	wg.Wait()
	t.Logf("%d acknowledged, %d failed or unknown", acked.Load(), failed.Load())
	verify(t, stores[0], ledger)
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeNow(conn) })
	return conn
}

// terminate ends all backends of an application in the database.
func terminate(t *testing.T, admin *pgx.Conn, application string) {
	t.Helper()
	const query = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1`
	if _, err := admin.Exec(t.Context(), query, application); err != nil {
		t.Fatal(err)
	}
}

// TestTheServerGoesAndComesBack stops the server under load. Writes and reads must fail with the
// documented errors and succeed again when the server is back.
func TestTheServerGoesAndComesBack(t *testing.T) {
	t.Parallel()
	cluster := kittest.NewCluster(t)
	s := openStore(t, cluster.Database(t), store.CommitterOptions{})
	defer closeStore(t, s)
	ledger := &storetest.Ledger{}
	var acked, failed atomic.Int64
	var over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		storetest.Load(t.Context(), s, "w", 16, ledger, func(e storetest.Entry) bool {
			switch {
			case e.Err == nil:
				acked.Add(1)
			case errors.Is(e.Err, store.ErrUnknown), errors.Is(e.Err, store.ErrUnavailable):
				failed.Add(1)
				app.Pause(t.Context(), 10*time.Millisecond) // as a client does after an error with a retry delay
			default:
				t.Errorf("%s of %s: %v", e.Action, e.Key, e.Err)
				return true
			}
			return over.Load()
		})
	})
	defer wg.Wait()
	defer over.Store(true)
	more := func(what string, count *atomic.Int64, n int64) {
		from := count.Load()
		kittest.Eventually(t, what, func() error {
			if got := count.Load() - from; got < n {
				return fmt.Errorf("%d of %d", got, n)
			}
			return nil
		})
	}
	more("writes", &acked, 200)
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	more("failed writes", &failed, 20)
	if _, err := s.Head(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a read without a server: %v", err)
	}
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	more("writes after the restart", &acked, 200)
	over.Store(true)
	wg.Wait()
	verify(t, s, ledger)
}

// TestABatchWhoseEndWasNotSeenIsFound disconnects a writer at three points: before, during and
// after the commit.
func TestABatchWhoseEndWasNotSeenIsFound(t *testing.T) {
	t.Parallel()
	s := openStore(t, kittest.Postgres(t), store.CommitterOptions{})
	defer closeStore(t, s)
	ctx, w := t.Context(), s.writer
	w.lookupTimeout = time.Minute
	if err := w.connect(ctx); err != nil {
		t.Fatal(err)
	}
	ops := []store.Op{newOp("a"), newOp("b")}
	rows, _ := fromOps(ops)
	mark := rand.Int64()

	if _, err := w.resolve(ctx, io.ErrUnexpectedEOF, mark, batchResult{size: 2}); !errors.Is(err, errRetry) {
		t.Errorf("a batch that never began: %v", err)
	}

	tx, err := w.conn.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.write(ctx, tx, rows, mark); err != nil {
		t.Fatal(err)
	}
	abandoned := w.conn
	w.conn = nil // like a lost network: the backend still exists, in the middle of its commit
	if _, err := w.resolve(ctx, io.ErrUnexpectedEOF, mark, batchResult{size: 2}); !errors.Is(err, errRetry) {
		t.Errorf("a batch in the middle of its commit: %v", err)
	}
	if err := tx.Commit(ctx); err == nil {
		t.Error("the abandoned backend could still commit")
	}
	closeNow(abandoned)

	written, err := w.write(ctx, w.conn, rows, mark)
	if err != nil {
		t.Fatal(err)
	}
	base := written.base
	done, err := w.resolve(ctx, io.ErrUnexpectedEOF, mark, batchResult{size: 2})
	if err != nil || done.base != base {
		t.Errorf("a batch that was committed: %+v, %v; want base %d", done, err, base)
	}
	if got := done.results(2); got[0].Value.Revision != base+1 || got[1].Value.Revision != base+2 {
		t.Errorf("its revisions: %+v", got)
	}

	if _, err := s.Prune(ctx, base+2); err != nil {
		t.Fatal(err)
	}
	w.seen = 0
	if _, err := w.resolve(ctx, io.ErrUnexpectedEOF, mark, batchResult{size: 2}); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("a batch whose records are pruned: %v", err)
	}
	if got := must(t, s, newOp("c")); got != base+3 {
		t.Errorf("the next revision is %d", got)
	}
}

func must(t *testing.T, s *Store, op store.Op) uint64 {
	t.Helper()
	result, err := s.Submit(t.Context(), op)
	if err != nil {
		t.Fatal(err)
	}
	return result.Revision
}

// TestABatchDoesNotWaitForever locks the head, as an operator with an open transaction might.
func TestABatchDoesNotWaitForever(t *testing.T) {
	t.Parallel()
	dsn := kittest.Postgres(t)
	s := openStore(t, dsn, store.CommitterOptions{Timeout: time.Second})
	defer closeStore(t, s)
	s.writer.lookupTimeout = time.Minute
	holder := connect(t, dsn)
	tx, err := holder.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT 1 FROM registry_head FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Submit(t.Context(), newOp("a")); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a commit that cannot get through: %v, want it unavailable, and surely not done", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "writing to go on", func() error {
		_, err := s.Submit(t.Context(), newOp("b"))
		if errors.Is(err, store.ErrExists) {
			return nil // on a busy machine an attempt may succeed without its result arriving within a second
		}
		return err
	})
	state, err := storetest.CheckInvariants(t.Context(), s)
	if err != nil || len(state.Rows) != 1 {
		t.Errorf("%d objects, %v", len(state.Rows), err)
	}
}

// TestWritesThatDoNotHoldAreNoErrorsOfTheDatabase checks that a refused write adds nothing to the
// server's log, because a lost race is not a fault.
func TestWritesThatDoNotHoldAreNoErrorsOfTheDatabase(t *testing.T) {
	t.Parallel()
	cluster := kittest.NewCluster(t)
	s := openStore(t, cluster.Database(t), store.CommitterOptions{})
	lease := newOp("lease")
	lease.Epoch = 7
	for _, op := range []store.Op{newOp("a"), lease} {
		if _, err := s.Submit(t.Context(), op); err != nil {
			t.Fatal(err)
		}
	}
	outdated, gone, fenced := newOp("a"), newOp("b"), newOp("c")
	outdated.Action, outdated.Revision = store.Update, 99
	gone.Action, gone.Data = store.Delete, nil
	fenced.Fence = &store.Fence{Lease: lease.Key, Epoch: 6}
	for name, test := range map[string]struct {
		op   store.Op
		want error
	}{
		"create what is there":     {newOp("a"), store.ErrExists},
		"update another revision":  {outdated, &store.ConflictError{Have: 1, HaveUID: "uid-a"}},
		"delete what is not there": {gone, store.ErrNotFound},
		"write behind a fence":     {fenced, &store.Fenced{Fence: *fenced.Fence, Have: 7}},
	} {
		if _, err := s.Submit(t.Context(), test.op); err == nil || err.Error() != test.want.Error() {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	if head, err := s.Head(t.Context()); err != nil || head.Revision != 2 {
		t.Errorf("the head is %+v, %v; want revision 2", head, err)
	}
	closeStore(t, s)
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(cluster.Log()) {
		if strings.Contains(line, "ERROR:") {
			t.Errorf("in the server's log: %s", line)
		}
	}
}

// TestAWriteOutlivesTheFailoverOfItsServer checks that a write is repeated in another session if
// its server has become a standby, where it cannot write.
func TestAWriteOutlivesTheFailoverOfItsServer(t *testing.T) {
	t.Parallel()
	s := openStore(t, kittest.Postgres(t), store.CommitterOptions{})
	defer closeStore(t, s)
	if _, err := s.Submit(t.Context(), newOp("before")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.writer.conn.Exec(t.Context(), `SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Submit(t.Context(), newOp("after")); err != nil {
		t.Errorf("a write on a session that is read-only by now: %v", err)
	}
}

// TestErrorsOfTheMomentAreTriedAgain checks that transient errors are retried and errors of the
// statement are not.
func TestErrorsOfTheMomentAreTriedAgain(t *testing.T) {
	for code, again := range map[string]bool{"40001": true, "40P01": true, "25006": true, "23514": false, "42P01": false} {
		w := &writer{}
		if err := w.dropAfter(&pgconn.PgError{Severity: "ERROR", Code: code}); errors.Is(err, errRetry) != again {
			t.Errorf("%s is tried again: %v, want %v", code, !again, again)
		}
	}
}

func TestALostLockEndsItsContext(t *testing.T) {
	t.Parallel()
	dsn := kittest.Postgres(t)
	s := openStore(t, dsn, store.CommitterOptions{})
	defer closeStore(t, s)
	admin := connect(t, dsn)
	err := s.Lock(t.Context(), "a lock", func(ctx context.Context) error {
		terminate(t, admin, "portolan-registry")
		kittest.Receive(t, "the end of the lock", endOf(ctx))
		return context.Cause(ctx)
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v, want the cause", err)
	}
}

// endOf returns a channel that yields a value when the context ends.
func endOf(ctx context.Context) <-chan struct{} {
	ended := make(chan struct{}, 1)
	context.AfterFunc(ctx, func() { ended <- struct{}{} })
	return ended
}

// TestAChangeThatNobodyAnnouncedIsSeen moves the head directly in the database, without a
// notification.
func TestAChangeThatNobodyAnnouncedIsSeen(t *testing.T) {
	t.Parallel()
	dsn := kittest.Postgres(t)
	s := openStore(t, dsn, store.CommitterOptions{})
	defer closeStore(t, s)
	admin := connect(t, dsn)
	for _, epoch := range []string{"a", "b", "c"} { // the first wake-up may be caused by opening the store
		wake := s.Wake()
		if _, err := admin.Exec(t.Context(), `UPDATE registry_head SET epoch = $1`, epoch); err != nil {
			t.Fatal(err)
		}
		select {
		case <-wake:
		case <-time.After(time.Minute):
			t.Fatal("not woken")
		}
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), Config{DSN: "host=/nonexistent user=nobody dbname=nothing"})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("no server: %v", err)
	}
	if _, err := Open(t.Context(), Config{DSN: "postgres://%zz"}); err == nil || errors.Is(err, store.ErrUnavailable) {
		t.Errorf("no DSN: %v", err)
	}
}

// TestOnlyIndependentWritesAreOptimistic checks that operations which depend on one another are not
// committed by the single statement.
func TestOnlyIndependentWritesAreOptimistic(t *testing.T) {
	t.Parallel()
	lease := newOp("lease")
	fenced := func(name string, epoch uint64) store.Op {
		op := newOp(name)
		op.Fence = &store.Fence{Lease: lease.Key, Epoch: epoch}
		return op
	}
	for what, test := range map[string]struct {
		ops  []store.Op
		want bool
	}{
		"independent":              {[]store.Op{newOp("a"), newOp("b")}, true},
		"two to one object":        {[]store.Op{newOp("a"), newOp("b"), newOp("a")}, false},
		"one fence":                {[]store.Op{fenced("a", 1), fenced("b", 1)}, true},
		"two epochs":               {[]store.Op{fenced("a", 1), fenced("b", 2)}, false},
		"a write to the lease too": {[]store.Op{lease, fenced("b", 1)}, false},
	} {
		if _, got := fromOps(test.ops); got != test.want {
			t.Errorf("%s: %v", what, got)
		}
	}
}
