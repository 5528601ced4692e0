package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/store"
)

// inReader runs fn in a transaction that sees one state of the database.
func (s *Store) inReader(ctx context.Context, fn func(tx *sql.Tx) error) error {
	tx, err := s.db.Reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return unavailable(err)
	}
	return errors.Join(fn(tx), ignoreDone(tx.Rollback()))
}

// ignoreDone drops the error of a rollback if the transaction ended with its context, because fn
// has returned that error.
func ignoreDone(err error) error {
	if errors.Is(err, sql.ErrTxDone) {
		return nil
	}
	return err
}

func readHead(ctx context.Context, tx *sql.Tx) (store.Head, error) {
	var head store.Head
	err := tx.QueryRowContext(ctx, `SELECT epoch, revision, oldest FROM head`).Scan(&head.Epoch, &head.Revision, &head.Oldest)
	return head, unavailable(err)
}

// Head implements Head of [store.Store].
func (s *Store) Head(ctx context.Context) (head store.Head, err error) {
	err = s.inReader(ctx, func(tx *sql.Tx) (err error) {
		head, err = readHead(ctx, tx)
		return err
	})
	return head, err
}

// Snapshot implements Snapshot of [store.Store].
func (s *Store) Snapshot(ctx context.Context, read func(store.Head, iter.Seq2[store.Row, error]) error) error {
	return s.inReader(ctx, func(tx *sql.Tx) error {
		head, err := readHead(ctx, tx)
		if err != nil {
			return err
		}
		return read(head, func(yield func(store.Row, error) bool) {
			stopped, err := eachRow(ctx, tx, yield)
			if err != nil && !stopped {
				yield(store.Row{}, unavailable(err))
			}
		})
	})
}

// eachRow yields all rows and reports whether yield stopped it.
func eachRow(ctx context.Context, tx *sql.Tx, yield func(store.Row, error) bool) (stopped bool, err error) {
	rows, err := tx.QueryContext(ctx, `SELECT kind, namespace, name, uid, revision, epoch, data FROM objects ORDER BY kind, namespace, name`)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var row store.Row
		if err := rows.Scan(&row.Key.Kind, &row.Key.Namespace, &row.Key.Name, &row.UID, &row.Revision, &row.Epoch, &row.Data); err != nil {
			return false, err
		}
		if !yield(row, nil) {
			return true, nil
		}
	}
	return false, rows.Err()
}

// Changes implements Changes of [store.Store].
func (s *Store) Changes(ctx context.Context, after uint64, limit int) (records []store.Record, head store.Head, err error) {
	err = s.inReader(ctx, func(tx *sql.Tx) (err error) {
		if head, err = readHead(ctx, tx); err != nil {
			return err
		}
		if after < head.Oldest {
			return &store.Pruned{Oldest: head.Oldest}
		}
		records, err = readChanges(ctx, tx, after, limit)
		return unavailable(err)
	})
	return records, head, err
}

// LogSize implements LogSize of [store.Store].
func (s *Store) LogSize(ctx context.Context, keep int64) (size int64, through uint64, err error) {
	const query = `SELECT COALESCE(MAX(size), 0), COALESCE(MAX(revision) FILTER (WHERE size > ?), 0)
		FROM (SELECT revision, SUM(LENGTH(data)) OVER (ORDER BY revision DESC) AS size FROM changes)`
	err = s.inReader(ctx, func(tx *sql.Tx) error {
		return unavailable(tx.QueryRowContext(ctx, query, keep).Scan(&size, &through))
	})
	return size, through, err
}

func readChanges(ctx context.Context, tx *sql.Tx, after uint64, limit int) (records []store.Record, err error) {
	const query = `SELECT revision, type, kind, namespace, name, uid, data, time, traceparent FROM changes WHERE revision > ? ORDER BY revision LIMIT ?`
	rows, err := tx.QueryContext(ctx, query, after, limit)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r store.Record
		var kind int32
		var micros int64
		if err := rows.Scan(&r.Revision, &kind, &r.Key.Kind, &r.Key.Namespace, &r.Key.Name, &r.UID, &r.Data, &micros, &r.Traceparent); err != nil {
			return nil, err
		}
		r.Type, r.Time = registryv1.ChangeType(kind), time.UnixMicro(micros).UTC()
		records = append(records, r)
	}
	return records, rows.Err()
}
