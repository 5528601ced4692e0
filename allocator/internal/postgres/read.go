package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"portolan.dev/allocator/internal/row"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// allocationsQuery returns rows for scanAllocation.
const allocationsQuery = `SELECT value, true, pool, uid, kind, namespace, name, released, claims FROM allocator_allocations`

// unlimited removes, for one transaction, the settings that are for statements about few rows.
const unlimited = `SET LOCAL statement_timeout = 0; SET LOCAL enable_seqscan = on`

// errRead is an error that is not of the database.
type errRead struct{ error }

// Snapshot implements store.Store.
func (s *Store) Snapshot(ctx context.Context, read func(store.Snapshot) error) error {
	err := s.readConsistently(ctx, func(tx pgx.Tx) error {
		content, err := s.content(ctx, tx)
		if err != nil {
			return err
		}
		if err := read(content); err != nil {
			return &errRead{err}
		}
		return nil
	})
	if own, ok := errors.AsType[*errRead](err); ok {
		return own.error
	}
	return unavailable(err)
}

func (s *Store) content(ctx context.Context, tx pgx.Tx) (store.Snapshot, error) {
	var content store.Snapshot
	if _, err := tx.Exec(ctx, unlimited, pgx.QueryExecModeSimpleProtocol); err != nil {
		return content, err
	}
	queries := &pgx.Batch{}
	queries.Queue(headQuery).QueryRow(func(found pgx.Row) error {
		return found.Scan(&content.Position.Version, &content.Position.Mark)
	})
	queries.Queue(poolsQuery + ` ORDER BY name`).Query(each(func(found pgx.Row) error {
		p, err := scanPool(found)
		content.Pools = append(content.Pools, p)
		return err
	}))
	queries.Queue(`SELECT holder, last_grant, renewed FROM allocator_reserves ORDER BY holder`).Query(each(func(found pgx.Row) error {
		var r store.Reserve
		var renewed int64
		err := found.Scan(&r.Holder, &r.Grant, &renewed)
		r.Renewed = row.FromMillis(renewed)
		content.Reserves = append(content.Reserves, r)
		return err
	}))
	if err := tx.SendBatch(ctx, queries).Close(); err != nil {
		return content, err
	}
	content.Allocations = func(yield func(store.Allocation, error) bool) { eachAllocation(ctx, tx, yield) }
	return content, nil
}

// eachAllocation yields all allocations.
func eachAllocation(ctx context.Context, tx pgx.Tx, yield func(store.Allocation, error) bool) {
	rows, err := tx.Query(ctx, allocationsQuery)
	if err != nil {
		yield(store.Allocation{}, unavailable(err))
		return
	}
	defer rows.Close()
	for rows.Next() {
		var exists bool
		h, err := scanAllocation(rows, &exists)
		if !yield(h, unavailable(err)) || err != nil {
			return
		}
	}
	if err := rows.Err(); err != nil {
		yield(store.Allocation{}, unavailable(err))
	}
}

// List implements store.Store.
func (s *Store) List(ctx context.Context, q store.Query) (found []store.Allocation, err error) {
	after := []byte{}
	if q.AfterValue != (pool.Value{}) {
		after = q.AfterValue.Key()
	}
	const where = ` WHERE (pool, value) > ($1, $2) AND ($3 = '' OR pool = $3) ORDER BY pool, value LIMIT $4`
	rows, err := s.pool.Query(ctx, allocationsQuery+where, q.AfterPool, after, q.Pool, q.Limit)
	if err != nil {
		return nil, unavailable(err)
	}
	defer rows.Close()
	for rows.Next() {
		var exists bool
		h, err := scanAllocation(rows, &exists)
		if err != nil {
			return nil, unavailable(err)
		}
		found = append(found, h)
	}
	return found, unavailable(rows.Err())
}
