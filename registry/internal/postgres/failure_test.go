package postgres

import (
	"errors"
	"iter"
	"testing"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestWhatCannotBeReadIsNoEnd damages one row in the middle. The reader of a snapshot or of the log
// must get an error, and must not take the rows before it for all rows.
func TestWhatCannotBeReadIsNoEnd(t *testing.T) {
	t.Parallel()
	dsn := kittest.Postgres(t)
	s := openStore(t, dsn, store.CommitterOptions{})
	defer closeStore(t, s)
	for _, name := range []string{"a", "b", "c"} {
		key := object.Key{Kind: "Service", Namespace: "default", Name: name}
		if _, err := s.Submit(t.Context(), store.Op{Action: store.Create, Key: key, UID: name, Data: []byte("data")}); err != nil {
			t.Fatal(err)
		}
	}
	admin := connect(t, dsn)
	for _, spoil := range []string{`UPDATE registry_objects SET revision = -1 WHERE name = 'b'`, `UPDATE registry_changes SET time = 'infinity' WHERE name = 'b'`} {
		if _, err := admin.Exec(t.Context(), spoil); err != nil {
			t.Fatal(err)
		}
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

// TestPruneGoesOnUntilAllIsPruned prunes more records than one transaction deletes.
func TestPruneGoesOnUntilAllIsPruned(t *testing.T) {
	t.Parallel()
	dsn := kittest.Postgres(t)
	s := openStore(t, dsn, store.CommitterOptions{})
	defer closeStore(t, s)
	const all = pruneChunk + 10
	admin := connect(t, dsn)
	const fill = `INSERT INTO registry_changes SELECT n, 1, 'Node', '', 'n', 'uid', '', now(), '', 0 FROM generate_series(1, $1::bigint) n`
	if _, err := admin.Exec(t.Context(), fill, all); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Exec(t.Context(), `UPDATE registry_head SET revision = $1`, all); err != nil {
		t.Fatal(err)
	}
	if pruned, err := s.Prune(t.Context(), all-5); err != nil || pruned != all-5 {
		t.Errorf("%d records were pruned, %v; want %d", pruned, err, all-5)
	}
	if records, _, err := s.Changes(t.Context(), all-5, 9); err != nil || len(records) != 5 {
		t.Errorf("%d records are left, %v; want 5", len(records), err)
	}
}
