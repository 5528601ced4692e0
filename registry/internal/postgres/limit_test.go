package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/kittest"
)

// impatient returns a connected writer. Its sessions have limits of two seconds.
func impatient(t *testing.T, s *Store) *writer {
	t.Helper()
	config := s.conn.Copy()
	config.RuntimeParams["statement_timeout"] = "2000"
	config.RuntimeParams["idle_in_transaction_session_timeout"] = "2000"
	w := newWriter(config, nil)
	if err := w.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.drop)
	return w
}

// lockHead locks the head on a connection of its own, as another replica does in mid-commit.
func lockHead(t *testing.T, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM registry_head FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	return tx
}

// waitUntilGone waits until a session has ended.
func waitUntilGone(t *testing.T, admin *pgx.Conn, pid uint32) {
	t.Helper()
	kittest.Eventually(t, "the end of the session", func() error {
		var n int
		err := admin.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE pid = $1`, pid).Scan(&n)
		if err == nil && n > 0 {
			err = errors.New("it is still there")
		}
		return err
	})
}

// TestTheLastWriteOfADeadProcessEnds lets a process disappear, from the server's point of view,
// while its commit waits for another one. The commit must end by its own limit, not when the other
// one ends.
func TestTheLastWriteOfADeadProcessEnds(t *testing.T) {
	t.Parallel()
	dsn := kittest.Postgres(t)
	s := openStore(t, dsn, store.CommitterOptions{})
	defer closeStore(t, s)
	admin, other := connect(t, dsn), connect(t, dsn)
	w := impatient(t, s)
	blocker := lockHead(t, other)

	rows, _ := fromOps([]store.Op{newOp("late")})
	pid := w.conn.PgConn().PID()
	done := make(chan error, 1)
	go func() {
		_, err := w.write(t.Context(), w.conn, rows, rand.Int64())
		done <- err
	}()
	kittest.Eventually(t, "the write to wait", func() error {
		var waiting bool
		err := admin.QueryRow(t.Context(), `SELECT count(*) > 0 FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'`, pid).Scan(&waiting)
		if err == nil && !waiting && len(done) == 0 {
			err = errors.New("it does not wait yet")
		}
		return err
	})
	if err := w.conn.PgConn().Conn().Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the write happened although the head was locked")
	}
	waitUntilGone(t, admin, pid)
	if err := blocker.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if head, err := s.Head(t.Context()); err != nil || head.Revision != 0 {
		t.Errorf("the head is %+v, %v; want nothing written", head, err)
	}
}

// TestAWriterThatFallsSilentEnds begins a transaction and sends nothing more, like a process on a
// machine that has failed without the server noticing.
func TestAWriterThatFallsSilentEnds(t *testing.T) {
	t.Parallel()
	dsn := kittest.Postgres(t)
	s := openStore(t, dsn, store.CommitterOptions{})
	defer closeStore(t, s)
	w := impatient(t, s)
	pid := w.conn.PgConn().PID()
	lockHead(t, w.conn)
	waitUntilGone(t, connect(t, dsn), pid)
	if _, err := s.Submit(t.Context(), newOp("next")); err != nil {
		t.Errorf("the head is still locked: %v", err)
	}
}

// TestSessionsThatCommitHaveALimit checks the default limits, and limits that are set in the DSN.
func TestSessionsThatCommitHaveALimit(t *testing.T) {
	t.Parallel()
	dsn := kittest.Postgres(t)
	for _, test := range []struct{ params, want string }{{"", "15s"}, {" statement_timeout=7000 idle_in_transaction_session_timeout=7000", "7s"}} {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		given, err := pgx.ParseConfig("host=x" + test.params)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range given.RuntimeParams {
			config.RuntimeParams[name] = value
		}
		conn, err := pgx.ConnectConfig(t.Context(), newWriter(config, nil).config)
		if err != nil {
			t.Fatal(err)
		}
		defer closeNow(conn)
		for _, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
			var got string
			if err := conn.QueryRow(t.Context(), fmt.Sprint("SHOW ", name)).Scan(&got); err != nil || got != test.want {
				t.Errorf("%s is %s, %v; want %s", name, got, err, test.want)
			}
		}
	}
}
