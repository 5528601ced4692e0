package postgres

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"portolan.dev/allocator/internal/row"
	"portolan.dev/allocator/store"
)

const (
	// expireChunk is the number of rows that one transaction deletes, so that none holds the lock for
	// long.
	expireChunk = 10_000
	// oldBatches deletes the records of batches that are older than ten minutes. Every process has seen
	// these batches, or has been away for so long that it may as well read everything. The record of the
	// newest batch always stays. The query reads the oldest records until it finds one that stays.
	oldBatches = `DELETE FROM allocator_batches WHERE version < COALESCE(
		(SELECT version FROM allocator_batches WHERE stored >= now() - interval '10 minutes' ORDER BY version LIMIT 1),
		(SELECT version FROM allocator_head))`
)

// DeleteExpired implements store.Store. It deletes the records of old batches too.
func (s *Store) DeleteExpired(ctx context.Context, t time.Time) error {
	if _, err := s.pool.Exec(ctx, oldBatches); err != nil {
		return unavailable(err)
	}
	for {
		var expired bool
		const query = `SELECT EXISTS (SELECT FROM allocator_allocations WHERE released <> 0 AND released < $1)`
		if err := s.pool.QueryRow(ctx, query, row.Millis(t)).Scan(&expired); err != nil || !expired {
			return unavailable(err)
		}
		if err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return deleteExpired(ctx, tx, t) }); err != nil {
			return unavailable(err)
		}
	}
}

// deleteExpired takes the lock, because a batch that is being written counts the rows that it finds.
func deleteExpired(ctx context.Context, tx pgx.Tx, t time.Time) error {
	if _, err := tx.Exec(ctx, headQuery+` FOR UPDATE`); err != nil {
		return err
	}
	const drop = `DELETE FROM allocator_allocations WHERE value = ANY (ARRAY(
		SELECT value FROM allocator_allocations WHERE released <> 0 AND released < $1 LIMIT $2))`
	_, err := tx.Exec(ctx, drop, row.Millis(t), expireChunk)
	return err
}

// Restore implements store.Store. It deletes the records of all batches, so that no process finds
// its position.
func (s *Store) Restore(ctx context.Context, seen store.Position, content store.Snapshot) error {
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error { return restore(ctx, tx, seen, content) })
	if own, ok := errors.AsType[*errRead](err); ok {
		return own.error
	}
	return unavailable(err)
}

func restore(ctx context.Context, tx pgx.Tx, seen store.Position, content store.Snapshot) error {
	if _, err := tx.Exec(ctx, unlimited, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	var at store.Position
	if err := tx.QueryRow(ctx, headQuery+` FOR UPDATE`).Scan(&at.Version, &at.Mark); err != nil {
		return err
	}
	if at != seen {
		return &errRead{store.ErrOutdated}
	}
	const empty = `DELETE FROM allocator_allocations; DELETE FROM allocator_reserves; DELETE FROM allocator_pools; DELETE FROM allocator_batches`
	if _, err := tx.Exec(ctx, empty, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	if err := copyPools(ctx, tx, content.Pools); err != nil {
		return err
	}
	if err := copyAllocations(ctx, tx, content.Allocations); err != nil {
		return err
	}
	const head = `WITH head AS (UPDATE allocator_head SET version = version + 1, mark = $1 RETURNING version, mark)
		INSERT INTO allocator_batches (version, mark, changed, reserves, pools) SELECT version, mark, '{}', '{}', false FROM head`
	_, err := tx.Exec(ctx, head, newMark())
	return err
}

func copyPools(ctx context.Context, tx pgx.Tx, pools []store.Pool) error {
	columns := []string{"name", "use", "range", "state", "static_band", "per_protocol", "avoid_buggy_ips"}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"allocator_pools"}, columns, pgx.CopyFromSlice(len(pools), func(i int) ([]any, error) {
		p := pools[i]
		return []any{p.Name, int16(p.Use), p.Range, int16(p.State), int64(p.Band), p.PerProtocol, p.AvoidBuggyIPs}, nil
	}))
	return err
}

func copyAllocations(ctx context.Context, tx pgx.Tx, all iter.Seq2[store.Allocation, error]) error {
	next, stop := iter.Pull2(all)
	defer stop()
	var broken error // an error of the content, not of the database
	columns := []string{"value", "pool", "uid", "kind", "namespace", "name", "released", "claims"}
	_, err := tx.CopyFrom(ctx, pgx.Identifier{"allocator_allocations"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		h, err, more := next()
		if !more {
			return nil, nil
		}
		var claims string
		if err == nil {
			claims, err = row.EncodeClaims(h.Claims)
		}
		if broken = err; err != nil {
			return nil, err
		}
		return []any{h.Value.Key(), h.Pool, h.Owner.UID, h.Owner.Kind, h.Owner.Namespace, h.Owner.Name, row.Millis(h.Released), claims}, nil
	}))
	if broken != nil {
		return &errRead{broken}
	}
	return err
}
