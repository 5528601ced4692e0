package postgres

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/kittest"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	})
	return conn
}

// terminate ends all sessions of the store, as a network failure or kill -9 of the server's process
// would.
func terminate(t *testing.T, admin *pgx.Conn) {
	t.Helper()
	const query = `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'portolan-allocator'`
	if _, err := admin.Exec(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

func present(t *testing.T, s *Store) (at store.Position, values int) {
	t.Helper()
	err := s.Snapshot(t.Context(), func(content store.Snapshot) error {
		at = content.Position
		for _, err := range content.Allocations {
			if err != nil {
				return err
			}
			values++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return at, values
}

// batchOf returns a batch that allocates a port, with its pool.
func batchOf(port uint16) store.Batch {
	return store.Batch{
		Pools:  []store.PoolWrite{{Pool: store.Pool{Name: "ports", Use: allocatorv1.Use_USE_NODE_PORT, Range: "30000-30099"}}},
		Writes: []store.Write{{Allocation: store.Allocation{Value: pool.PortValue(port), Pool: "ports", Owner: store.Owner{UID: "u"}}}},
	}
}

// TestALostSessionStoresNothing ends the session of a batch between its decision and its commit.
// The store has nothing of the batch, the caller gets an error, and other processes get the lock at once.
func TestALostSessionStoresNothing(t *testing.T) {
	dsn := kittest.Postgres(t)
	admin, s, other := connect(t, dsn), openStore(t, dsn), openStore(t, dsn)
	at, _ := present(t, s)
	_, err := s.Transact(t.Context(), at, func(store.News) (store.Batch, error) {
		terminate(t, admin)
		return batchOf(30001), nil
	})
	if !errors.Is(err, store.ErrNotStored) {
		t.Errorf("the batch of a lost session: %v", err)
	}
	if after, values := present(t, other); after != at || values != 0 {
		t.Errorf("%d values are stored, at %v instead of %v", values, after, at)
	}
	if _, err := other.Transact(t.Context(), at, func(store.News) (store.Batch, error) { return batchOf(30002), nil }); err != nil {
		t.Errorf("the batch of another process: %v", err)
	}
}

// TestALostSessionBeforeTheDecisionIsReplaced ends idle sessions. The next batch does not notice.
func TestALostSessionBeforeTheDecisionIsReplaced(t *testing.T) {
	dsn := kittest.Postgres(t)
	admin, s := connect(t, dsn), openStore(t, dsn)
	at, _ := present(t, s)
	terminate(t, admin)
	if _, err := s.Transact(t.Context(), at, func(store.News) (store.Batch, error) { return batchOf(30001), nil }); err != nil {
		t.Error(err)
	}
}

// TestTheOutcomeOfALostCommitIsFound looks up the outcomes of batches after their answers were lost: a
// batch that was never received, one in the middle of its transaction, and one that is stored.
func TestTheOutcomeOfALostCommitIsFound(t *testing.T) {
	s := openStore(t, withSetting(kittest.Postgres(t), "idle_in_transaction_session_timeout", "300"))
	s.lookupTimeout = time.Minute
	at, _ := present(t, s)
	never := store.Position{Version: at.Version + 1, Mark: newMark()}
	if _, err := s.resolve(t.Context(), io.ErrUnexpectedEOF, never); !errors.Is(err, store.ErrNotStored) {
		t.Errorf("a batch that was never received: %v", err)
	}

	conn, n, err := s.begin(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	middle := store.Position{Version: n.Position.Version + 1, Mark: newMark()}
	args, err := writeArgs(middle, store.Batch{Writes: batchOf(30001).Writes})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), writeQuery, args...); err != nil {
		t.Fatal(err)
	}
	// Like a lost network: the server's process still exists, and holds the lock until its timeout.
	if _, err := s.resolve(t.Context(), io.ErrUnexpectedEOF, middle); !errors.Is(err, store.ErrNotStored) {
		t.Errorf("a batch in the middle of its transaction: %v", err)
	}
	if _, err := conn.Exec(t.Context(), "COMMIT"); err == nil {
		t.Error("the abandoned session could still commit")
	}

	stored, err := s.Transact(t.Context(), at, func(store.News) (store.Batch, error) { return batchOf(30002), nil })
	if err != nil {
		t.Fatal(err)
	}
	if found, err := s.resolve(t.Context(), io.ErrUnexpectedEOF, stored); err != nil || found != stored {
		t.Errorf("a stored batch at %v: %v, %v", stored, found, err)
	}
	if _, values := present(t, s); values != 1 {
		t.Errorf("%d values are stored, want 1", values)
	}
}

// TestOldBatchesAreForgotten deletes the records of old batches. A process that has seen the newest batch
// goes on; a process that has seen only an older batch reads everything.
func TestOldBatchesAreForgotten(t *testing.T) {
	dsn := kittest.Postgres(t)
	s, admin := openStore(t, dsn), connect(t, dsn)
	old, _ := present(t, s)
	newest, err := s.Transact(t.Context(), old, func(store.News) (store.Batch, error) { return batchOf(30001), nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), `UPDATE allocator.allocator_batches SET stored = now() - interval '2 hours'`); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteExpired(t.Context(), time.UnixMilli(1)); err != nil {
		t.Fatal(err)
	}
	var left int
	if err := admin.QueryRow(t.Context(), `SELECT count(*) FROM allocator.allocator_batches`).Scan(&left); err != nil || left != 1 {
		t.Errorf("%d batches are left, %v; want 1", left, err)
	}
	if _, err := s.News(t.Context(), newest); err != nil {
		t.Errorf("the newest position: %v", err)
	}
	if _, err := s.News(t.Context(), old); !errors.Is(err, store.ErrWentBack) {
		t.Errorf("an old position: %v", err)
	}
}
