package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/object"
)

// commit executes a batch in one transaction.
func (s *Store) commit(ctx context.Context, ops []store.Op) []batch.Outcome[store.Result] {
	tx, err := s.db.Writer.BeginTx(ctx, nil)
	if err != nil {
		return batch.Fail[store.Result](len(ops), unavailable(err))
	}
	decision, head, err := s.writer.write(ctx, tx, ops, s.usage)
	if err != nil || len(decision.Records) == 0 {
		if err := errors.Join(err, tx.Rollback()); err != nil {
			return batch.Fail[store.Result](len(ops), unavailable(err))
		}
		return decision.Outcomes
	}
	if err := tx.Commit(); err != nil && !s.committed(ctx, decision) {
		return batch.Fail[store.Result](len(ops), errors.Join(store.ErrUnknown, err))
	}
	store.ShareObjects(decision.Records, ops, decision.Outcomes)
	s.Committed(head, decision.Records)
	s.Notify()
	return decision.Outcomes
}

// committed reports whether a commit that returned an error was stored nevertheless. This process
// is the only writer, so the head tells.
func (s *Store) committed(ctx context.Context, decision store.Decision) bool {
	head, err := s.Head(ctx)
	return err == nil && head.Revision == decision.Records[len(decision.Records)-1].Revision
}

// writer holds the statements of a commit, prepared on the one connection that writes.
type writer struct {
	head, row, insert, update, remove, log, updateHead *sql.Stmt
}

func newWriter(ctx context.Context, db *sql.DB) (*writer, error) {
	w := &writer{}
	for _, s := range []struct {
		stmt  **sql.Stmt
		query string
	}{
		{&w.head, `SELECT epoch, revision, oldest FROM head`},
		{&w.row, `SELECT uid, revision, epoch, data FROM objects WHERE kind = ? AND namespace = ? AND name = ?`},
		{&w.insert, `INSERT INTO objects (kind, namespace, name, uid, revision, epoch, data) VALUES (?, ?, ?, ?, ?, ?, ?)`},
		{&w.update, `UPDATE objects SET uid = ?, revision = ?, epoch = ?, data = ? WHERE kind = ? AND namespace = ? AND name = ?`},
		{&w.remove, `DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?`},
		{&w.log, `INSERT INTO changes (revision, type, kind, namespace, name, uid, data, time, traceparent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&w.updateHead, `UPDATE head SET revision = ?`},
	} {
		stmt, err := db.PrepareContext(ctx, s.query)
		if err != nil {
			return nil, errors.Join(err, w.close())
		}
		*s.stmt = stmt
	}
	return w, nil
}

func (w *writer) close() error {
	var errs []error
	for _, stmt := range []*sql.Stmt{w.head, w.row, w.insert, w.update, w.remove, w.log, w.updateHead} {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(errs...)
}

// write reads the rows that the operations touch, decides, and writes. It returns the head after
// the batch.
func (w *writer) write(ctx context.Context, tx *sql.Tx, ops []store.Op, usage store.UsageFunc) (store.Decision, store.Head, error) {
	var head store.Head
	if err := tx.StmtContext(ctx, w.head).QueryRowContext(ctx).Scan(&head.Epoch, &head.Revision, &head.Oldest); err != nil {
		return store.Decision{}, head, err
	}
	rows, err := w.rows(ctx, tx, store.RowKeys(ops))
	if err != nil {
		return store.Decision{}, head, err
	}
	used := store.UsageFor(usage, head, ops, func(after uint64) ([]store.Record, error) {
		records, err := readChanges(ctx, tx, after, store.MaxUsageRecords)
		return records, unavailable(err)
	})
	d := store.Decide(time.Now().UTC().Truncate(time.Microsecond), head, rows, ops, used)
	if len(d.Records) == 0 {
		return d, head, nil
	}
	head.Revision = d.Records[len(d.Records)-1].Revision
	if err := w.writeRows(ctx, tx, d.Writes); err != nil {
		return d, head, err
	}
	if err := w.writeLog(ctx, tx, d.Records); err != nil {
		return d, head, err
	}
	_, err = tx.StmtContext(ctx, w.updateHead).ExecContext(ctx, head.Revision)
	return d, head, err
}

func (w *writer) rows(ctx context.Context, tx *sql.Tx, keys []object.Key) (map[object.Key]store.Row, error) {
	stmt := tx.StmtContext(ctx, w.row)
	rows := make(map[object.Key]store.Row, len(keys))
	for _, key := range keys {
		row := store.Row{Key: key}
		err := stmt.QueryRowContext(ctx, key.Kind, key.Namespace, key.Name).Scan(&row.UID, &row.Revision, &row.Epoch, &row.Data)
		switch {
		case err == nil:
			rows[key] = row
		case !errors.Is(err, sql.ErrNoRows):
			return nil, err
		}
	}
	return rows, nil
}

func (w *writer) writeRows(ctx context.Context, tx *sql.Tx, writes []store.Write) error {
	insert, update, remove := tx.StmtContext(ctx, w.insert), tx.StmtContext(ctx, w.update), tx.StmtContext(ctx, w.remove)
	for _, write := range writes {
		key, row := write.Key, write.After
		var err error
		switch {
		case row == nil:
			_, err = remove.ExecContext(ctx, key.Kind, key.Namespace, key.Name)
		case write.Before == 0:
			_, err = insert.ExecContext(ctx, key.Kind, key.Namespace, key.Name, row.UID, row.Revision, row.Epoch, row.Data)
		default:
			_, err = update.ExecContext(ctx, row.UID, row.Revision, row.Epoch, row.Data, key.Kind, key.Namespace, key.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) writeLog(ctx context.Context, tx *sql.Tx, records []store.Record) error {
	stmt := tx.StmtContext(ctx, w.log)
	for _, r := range records {
		_, err := stmt.ExecContext(ctx, r.Revision, int32(r.Type), r.Key.Kind, r.Key.Namespace, r.Key.Name, r.UID, r.Data, r.Time.UnixMicro(), r.Traceparent)
		if err != nil {
			return err
		}
	}
	return nil
}
