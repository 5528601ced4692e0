package postgres

import (
	"context"
	"errors"
	"iter"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/store"
)

const headQuery = `SELECT epoch, revision, oldest FROM registry_head`

func scanHead(row pgx.Row) (store.Head, error) {
	var head store.Head
	err := row.Scan(&head.Epoch, &head.Revision, &head.Oldest)
	return head, unavailable(err)
}

// Head implements Head of [store.Store].
func (s *Store) Head(ctx context.Context) (store.Head, error) {
	return scanHead(s.pool.QueryRow(ctx, headQuery))
}

// Snapshot implements Snapshot of [store.Store].
func (s *Store) Snapshot(ctx context.Context, read func(store.Head, iter.Seq2[store.Row, error]) error) error {
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return unavailable(err)
	}
	defer rollback(tx)
	head, err := scanHead(tx.QueryRow(ctx, headQuery))
	if err != nil {
		return err
	}
	return read(head, func(yield func(store.Row, error) bool) {
		stopped, err := eachRow(ctx, tx, yield)
		if err != nil && !stopped {
			yield(store.Row{}, unavailable(err))
		}
	})
}

// eachRow yields all rows and reports whether yield stopped it.
func eachRow(ctx context.Context, tx pgx.Tx, yield func(store.Row, error) bool) (stopped bool, err error) {
	rows, err := tx.Query(ctx, `SELECT kind, namespace, name, uid, revision, epoch, data FROM registry_objects ORDER BY kind, namespace, name`)
	if err != nil {
		return false, err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := scanRow(rows)
		if err != nil {
			return false, err
		}
		if !yield(row, nil) {
			return true, nil
		}
	}
	return false, rows.Err()
}

func scanRow(row pgx.Row) (store.Row, error) {
	var r store.Row
	err := row.Scan(&r.Key.Kind, &r.Key.Namespace, &r.Key.Name, &r.UID, &r.Revision, &r.Epoch, &r.Data)
	return r, err
}

// changesQuery returns at least one row. Every row has the head; if there are no changes, the
// columns of the change are NULL. It is one statement so that the head and the changes are of the
// same instant.
const changesQuery = `
SELECT h.epoch, h.revision, h.oldest, c.revision, c.type, c.kind, c.namespace, c.name, c.uid, c.data, c.time, c.traceparent
FROM registry_head h LEFT JOIN LATERAL (
	SELECT revision, type, kind, namespace, name, uid, data, time, traceparent
	FROM registry_changes WHERE revision > $1 AND $1 >= h.oldest ORDER BY revision LIMIT $2
) c ON true ORDER BY c.revision`

// Changes implements Changes of [store.Store].
func (s *Store) Changes(ctx context.Context, after uint64, limit int) ([]store.Record, store.Head, error) {
	return changesAfter(ctx, s.pool, after, limit)
}

// changesAfter reads the changes after a revision on a connection of the pool or in a transaction.
func changesAfter(ctx context.Context, on interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}, after uint64, limit int) ([]store.Record, store.Head, error) {
	rows, err := on.Query(ctx, changesQuery, min(after, math.MaxInt64), limit)
	if err != nil {
		return nil, store.Head{}, unavailable(err)
	}
	defer rows.Close()
	var head store.Head
	var records []store.Record
	for rows.Next() {
		record, found, err := scanChange(rows, &head)
		if err != nil {
			return nil, head, unavailable(err)
		}
		if found {
			records = append(records, record)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, head, unavailable(err)
	}
	if after < head.Oldest {
		return nil, head, &store.Pruned{Oldest: head.Oldest}
	}
	return records, head, nil
}

// LogSize implements LogSize of [store.Store].
func (s *Store) LogSize(ctx context.Context, keep int64) (size int64, through uint64, err error) {
	const query = `SELECT COALESCE(MAX(size), 0)::int8, COALESCE(MAX(revision) FILTER (WHERE size > $1), 0)
		FROM (
			SELECT revision, SUM(octet_length(data)) OVER (ORDER BY revision DESC) AS size
			FROM registry_changes WHERE revision > (SELECT oldest FROM registry_head)
		) AS log`
	err = s.pool.QueryRow(ctx, query, keep).Scan(&size, &through)
	return size, through, unavailable(err)
}

func scanChange(row pgx.Row, head *store.Head) (record store.Record, found bool, err error) {
	var revision zeronull.Int8
	var kind zeronull.Int2
	var key [3]zeronull.Text
	var uid, traceparent zeronull.Text
	var at zeronull.Timestamptz
	err = row.Scan(&head.Epoch, &head.Revision, &head.Oldest, &revision, &kind, &key[0], &key[1], &key[2], &uid, &record.Data, &at, &traceparent)
	record.Revision, record.Type = uint64(revision), registryv1.ChangeType(kind)
	record.Key.Kind, record.Key.Namespace, record.Key.Name = string(key[0]), string(key[1]), string(key[2])
	record.UID, record.Time, record.Traceparent = string(uid), time.Time(at).UTC(), string(traceparent)
	return record, revision != 0, err
}

// rollback ends a transaction. After a commit it does nothing.
func rollback(tx pgx.Tx) {
	if err := tx.Rollback(context.Background()); err != nil && !errors.Is(err, pgx.ErrTxClosed) {
		_ = tx.Conn().Close(context.Background()) // not to be reused; the pool makes another
	}
}
