package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/internal/row"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Queries of the news after version $1. They are sent together.
const (
	headQuery = `SELECT version, mark FROM allocator_head`
	// seenQuery returns whether the database has the position $1, $2, and whether pools were changed
	// since.
	seenQuery = `SELECT COALESCE(bool_or(version = $1 AND mark = $2), false), COALESCE(bool_or(pools) FILTER (WHERE version > $1), false)
		FROM allocator_batches WHERE version >= $1`
	changedQuery = `SELECT b.value, a.value IS NOT NULL, COALESCE(a.pool, ''), COALESCE(a.uid, ''), COALESCE(a.kind, ''), COALESCE(a.namespace, ''),
			COALESCE(a.name, ''), COALESCE(a.released, 0), COALESCE(a.claims, '[]')
		FROM (SELECT DISTINCT unnest(changed) AS value FROM allocator_batches WHERE version > $1) b
		LEFT JOIN allocator_allocations a ON a.value = b.value`
	changedReservesQuery = `SELECT b.holder, r.holder IS NULL, COALESCE(r.last_grant, 0), COALESCE(r.renewed, 0)
		FROM (SELECT DISTINCT unnest(reserves) AS holder FROM allocator_batches WHERE version > $1) b
		LEFT JOIN allocator_reserves r ON r.holder = b.holder`
	poolsQuery        = `SELECT name, use, range, state, static_band, per_protocol, avoid_buggy_ips FROM allocator_pools`
	changedPoolsQuery = poolsQuery + ` WHERE EXISTS (SELECT FROM allocator_batches WHERE version > $1 AND pools) ORDER BY name`
)

// newsReader collects the answers to the queries of the news after a position.
type newsReader struct {
	seen store.Position
	news store.News
	has  bool // the database has the position among the batches
}

// queue adds the queries to a batch of queries. lock is appended to the query of the head.
func (r *newsReader) queue(queries *pgx.Batch, lock string) {
	version := int64(r.seen.Version)
	queries.Queue(headQuery + lock).QueryRow(func(found pgx.Row) error {
		return found.Scan(&r.news.Position.Version, &r.news.Position.Mark)
	})
	queries.Queue(seenQuery, version, r.seen.Mark).QueryRow(func(found pgx.Row) error {
		return found.Scan(&r.has, &r.news.PoolsChanged)
	})
	queries.Queue(changedQuery, version).Query(each(r.readAllocation))
	queries.Queue(changedReservesQuery, version).Query(each(r.readReserve))
	queries.Queue(changedPoolsQuery, version).Query(each(func(found pgx.Row) error {
		p, err := scanPool(found)
		r.news.Pools = append(r.news.Pools, p)
		return err
	}))
}

// each returns a function that calls read for each row.
func each(read func(pgx.Row) error) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			if err := read(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	}
}

func (r *newsReader) readAllocation(found pgx.Row) error {
	var exists bool
	h, err := scanAllocation(found, &exists)
	switch {
	case err != nil:
		return err
	case exists:
		r.news.Allocations = append(r.news.Allocations, h)
	default:
		r.news.Free = append(r.news.Free, h.Value)
	}
	return nil
}

func (r *newsReader) readReserve(found pgx.Row) error {
	var w store.ReserveWrite
	var renewed int64
	err := found.Scan(&w.Holder, &w.Removed, &w.Grant, &renewed)
	w.Renewed = row.FromMillis(renewed)
	r.news.Reserves = append(r.news.Reserves, w)
	return err
}

// result returns the news. The batch that led to the position may have been deleted long ago, if it
// is the newest one.
func (r *newsReader) result() (store.News, error) {
	if !r.has && r.news.Position != r.seen {
		return store.News{}, store.ErrWentBack
	}
	return r.news, nil
}

// News implements store.Store. A lost connection is replaced.
func (s *Store) News(ctx context.Context, seen store.Position) (store.News, error) {
	for attempt := 1; ; attempt++ {
		r := newsReader{seen: seen}
		err := s.readConsistently(ctx, func(tx pgx.Tx) error {
			queries := &pgx.Batch{}
			r.queue(queries, "")
			return tx.SendBatch(ctx, queries).Close()
		})
		if err == nil {
			return r.result()
		}
		if !s.isReplaceable(ctx, err, attempt) {
			return store.News{}, unavailable(err)
		}
	}
}

// readConsistently runs read in a transaction that sees a single state of the database.
func (s *Store) readConsistently(ctx context.Context, read func(pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, read)
}

func scanPool(found pgx.Row) (store.Pool, error) {
	var p store.Pool
	var use, state int32
	err := found.Scan(&p.Name, &use, &p.Range, &state, &p.Band, &p.PerProtocol, &p.AvoidBuggyIPs)
	p.Use, p.State = allocatorv1.Use(use), allocatorv1.PoolState(state)
	return p, err
}

// scanAllocation reads a row of changedQuery, which reports whether there is an allocation.
func scanAllocation(found pgx.Row, exists *bool) (store.Allocation, error) {
	var (
		h           store.Allocation
		key, claims []byte
		released    int64
	)
	err := found.Scan(&key, exists, &h.Pool, &h.Owner.UID, &h.Owner.Kind, &h.Owner.Namespace, &h.Owner.Name, &released, &claims)
	if err != nil {
		return h, err
	}
	if h.Value, err = pool.ValueOfKey(key); err != nil {
		return h, err
	}
	h.Released = row.FromMillis(released)
	h.Claims, err = row.DecodeClaims(claims)
	return h, err
}
