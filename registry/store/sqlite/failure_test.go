package sqlite

import (
	"errors"
	"iter"
	"testing"

	"portolan.dev/registry/store"
	"portolan.dev/registry/store/storetest"
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

// TestAStatementThatFailsUndoesItsBatch makes the database refuse one statement of a commit, as a full disk or a broken page would:
// nothing of the batch is there, and nobody is told otherwise.
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

// TestWhatCannotBeReadIsNoEnd spoils one row in the middle: the reader of a snapshot or of the log is told, and does not take what
// came before the row for everything.
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
