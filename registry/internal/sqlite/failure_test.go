package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"testing"

	"portolan.dev/registry/store"
	"portolan.dev/registry/store/storetest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// op returns a write of one service.
func op(action store.Action, name string) store.Op {
	op := store.Op{Action: action, Key: object.Key{Kind: "Service", Namespace: "default", Name: name}}
	if action != store.Delete {
		op.UID, op.Data = "uid of "+name, []byte("data of "+name)
	}
	return op
}

func submit(t *testing.T, s *Store, ops ...store.Op) {
	t.Helper()
	for _, op := range ops {
		if _, err := s.Submit(t.Context(), op); err != nil {
			t.Fatalf("%s of %s: %v", op.Action, op.Key, err)
		}
	}
}

// TestAStatementThatFailsUndoesItsBatch makes the database refuse one statement of a commit, as a
// full disk or a damaged page would. Nothing of the batch may be stored, and every write must get
// an error.
func TestAStatementThatFailsUndoesItsBatch(t *testing.T) {
	for _, statement := range []string{"INSERT ON objects", "UPDATE ON objects", "DELETE ON objects", "INSERT ON changes", "UPDATE ON head"} {
		t.Run(statement, func(t *testing.T) {
			s := openStore(t, t.TempDir())
			defer s.Close()
			submit(t, s, op(store.Create, "a"), op(store.Create, "b"))
			before, err := storetest.CheckInvariants(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.db.Writer.ExecContext(t.Context(), "CREATE TRIGGER broken BEFORE "+statement+" BEGIN SELECT RAISE(ABORT, 'broken'); END"); err != nil {
				t.Fatal(err)
			}
			wake := s.Wake()
			batch := []store.Op{op(store.Update, "a"), op(store.Delete, "b"), op(store.Create, "c")}
			for i, outcome := range s.commit(t.Context(), batch) {
				if !errors.Is(outcome.Err, store.ErrUnavailable) {
					t.Errorf("the %s: %v, want that the store is not available", batch[i].Action, outcome.Err)
				}
			}
			select {
			case <-wake:
				t.Error("a commit that did not happen woke somebody")
			default:
			}
			if found, _ := s.Tail("", before.Head.Revision, 9); len(found) > 0 {
				t.Errorf("the tail has %v", found)
			}
			after, err := storetest.CheckInvariants(t.Context(), s)
			if err != nil || after.Head != before.Head || len(after.Rows) != 2 {
				t.Errorf("it left %+v with %d objects, %v", after.Head, len(after.Rows), err)
			}
			if _, err := s.db.Writer.ExecContext(t.Context(), "DROP TRIGGER broken"); err != nil {
				t.Fatal(err)
			}
			submit(t, s, batch...)
		})
	}
}

// TestWhatCannotBeReadIsNoEnd damages one row in the middle. The reader of a snapshot or of the log
// must get an error, and must not take the rows before it for all rows.
func TestWhatCannotBeReadIsNoEnd(t *testing.T) {
	s := openStore(t, t.TempDir())
	defer s.Close()
	submit(t, s, op(store.Create, "a"), op(store.Create, "b"), op(store.Create, "c"))
	if _, err := s.db.Writer.ExecContext(t.Context(), `UPDATE objects SET revision = -1 WHERE name = 'b'; UPDATE changes SET type = 1 << 40 WHERE name = 'b'`); err != nil {
		t.Fatal(err)
	}
	err := s.Snapshot(t.Context(), func(_ store.Head, rows iter.Seq2[store.Row, error]) error {
		for _, err := range rows {
			if err != nil {
				return err
			}
		}
		return nil
	})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the snapshot ended with %v", err)
	}
	if records, _, err := s.Changes(t.Context(), 0, 9); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the log has %d records, %v", len(records), err)
	}
}

// TestAHeadThatCannotBeReadIsNoHead checks that every operation that depends on the head fails if
// the head cannot be read.
func TestAHeadThatCannotBeReadIsNoHead(t *testing.T) {
	s := openStore(t, t.TempDir())
	defer s.Close()
	submit(t, s, op(store.Create, "a"))
	if _, err := s.db.Writer.ExecContext(t.Context(), `UPDATE head SET revision = -1`); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	none := func(func(store.Row, error) bool) {}
	for what, call := range map[string]func() error{
		"Head":    func() error { _, err := s.Head(ctx); return err },
		"Changes": func() error { _, _, err := s.Changes(ctx, 0, 9); return err },
		"Snapshot": func() error {
			return s.Snapshot(ctx, func(store.Head, iter.Seq2[store.Row, error]) error { return nil })
		},
		"Submit":   func() error { _, err := s.Submit(ctx, op(store.Create, "b")); return err },
		"Prune":    func() error { _, err := s.Prune(ctx, 1); return err },
		"NewEpoch": func() error { _, err := s.NewEpoch(ctx); return err },
		"Restore":  func() error { return s.Restore(ctx, 1, 1, none) },
	} {
		if err := call(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: %v, want that the store is not available", what, err)
		}
	}
}

// TestACommitThatFailsIsNotTakenForDone makes the database refuse the commit itself after all
// statements have succeeded. The next commit must not run inside the failed transaction.
func TestACommitThatFailsIsNotTakenForDone(t *testing.T) {
	s := openStore(t, t.TempDir())
	defer s.Close()
	submit(t, s, op(store.Create, "a"))
	exec := func(query string) {
		t.Helper()
		if _, err := s.db.Writer.ExecContext(t.Context(), query); err != nil {
			t.Fatal(err)
		}
	}
	exec(`PRAGMA foreign_keys = ON`)
	exec(`CREATE TABLE parent (id INTEGER PRIMARY KEY)`)
	exec(`CREATE TABLE child (parent INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED)`)
	exec(`CREATE TRIGGER broken AFTER INSERT ON objects BEGIN INSERT INTO child VALUES (1); END`)
	if outcome := s.commit(t.Context(), []store.Op{op(store.Create, "b")})[0]; !errors.Is(outcome.Err, store.ErrUnknown) {
		t.Errorf("the write: %v, want that nobody can tell", outcome.Err)
	}
	if found, _ := s.Tail("", 1, 9); len(found) > 0 {
		t.Errorf("the tail has %v", found)
	}
	state, err := storetest.CheckInvariants(t.Context(), s)
	if err != nil || state.Head.Revision != 1 || len(state.Rows) != 1 {
		t.Errorf("it left %+v with %d objects, %v", state.Head, len(state.Rows), err)
	}
	exec(`DROP TRIGGER broken`)
	submit(t, s, op(store.Create, "b"))
}

// TestAReaderMayEndWithItsContext checks that a complete read is valid although its context ended
// before the transaction did.
func TestAReaderMayEndWithItsContext(t *testing.T) {
	s := openStore(t, t.TempDir())
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	err := s.inReader(ctx, func(tx *sql.Tx) error {
		cancel()
		kittest.Eventually(t, "the end of the transaction", func() error {
			if _, err := tx.ExecContext(t.Context(), `SELECT 1`); !errors.Is(err, sql.ErrTxDone) {
				return fmt.Errorf("not yet: %w", err)
			}
			return nil
		})
		return nil
	})
	if err != nil {
		t.Errorf("the reader succeeded, and its transaction ended with %v", err)
	}
}
