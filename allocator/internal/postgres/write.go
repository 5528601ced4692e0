package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"portolan.dev/allocator/internal/row"
	"portolan.dev/allocator/store"
)

const (
	// writtenConstraint is the constraint that is violated if not all rows were as expected.
	writtenConstraint = "allocator_written"
	// Codes of errors.
	uniqueViolation       = "23505"
	insufficientPrivilege = "42501"
)

// writeQuery writes the allocations and reserves of a batch, its record, and the new version. An
// allocation is updated if its value has a row that is at rest or has the expected owner, and
// inserted if it has none.
const writeQuery = `
WITH input AS (
	SELECT * FROM unnest($1::bytea[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int8[], $8::text[], $9::text[])
		AS i (value, pool, uid, kind, namespace, name, released, claims, expected)
), updated AS (
	UPDATE allocator_allocations a
	SET pool = i.pool, uid = i.uid, kind = i.kind, namespace = i.namespace, name = i.name, released = i.released, claims = i.claims
	FROM input i WHERE a.value = i.value AND (a.released <> 0 OR a.uid = i.expected)
	RETURNING 1
), inserted AS (
	INSERT INTO allocator_allocations (value, pool, uid, kind, namespace, name, released, claims)
	SELECT i.value, i.pool, i.uid, i.kind, i.namespace, i.name, i.released, i.claims
	FROM input i WHERE NOT EXISTS (SELECT FROM allocator_allocations a WHERE a.value = i.value)
	RETURNING 1
), kept AS (
	INSERT INTO allocator_reserves (holder, last_grant, renewed)
	SELECT * FROM unnest($10::text[], $11::int8[], $12::int8[])
	ON CONFLICT (holder) DO UPDATE SET last_grant = excluded.last_grant, renewed = excluded.renewed
), closed AS (
	DELETE FROM allocator_reserves WHERE holder = ANY ($13::text[])
), logged AS (
	INSERT INTO allocator_batches AS b (version, mark, changed, reserves, pools) VALUES ($14, $15, $1, $10 || $13, false)
	ON CONFLICT (version) DO UPDATE SET changed = b.changed || excluded.changed, reserves = excluded.reserves
)
UPDATE allocator_head SET version = $14, mark = $15,
	unwritten = cardinality($1) - (SELECT count(*) FROM updated) - (SELECT count(*) FROM inserted)`

// poolsWriteQuery writes the pools of a batch and its record. A pool is removed, with its values at
// rest, unless it has values in use.
const poolsWriteQuery = `
WITH put AS (
	INSERT INTO allocator_pools (name, use, range, state, static_band, per_protocol, avoid_buggy_ips)
	SELECT * FROM unnest($1::text[], $2::int2[], $3::text[], $4::int2[], $5::int8[], $6::bool[], $7::bool[])
	ON CONFLICT (name) DO UPDATE SET use = excluded.use, range = excluded.range, state = excluded.state,
		static_band = excluded.static_band, per_protocol = excluded.per_protocol, avoid_buggy_ips = excluded.avoid_buggy_ips
), removed AS (
	DELETE FROM allocator_pools p
	WHERE p.name = ANY ($8::text[]) AND NOT EXISTS (SELECT FROM allocator_allocations a WHERE a.pool = p.name AND a.released = 0)
	RETURNING 1
), freed AS (
	DELETE FROM allocator_allocations WHERE pool = ANY ($8::text[]) AND released <> 0 RETURNING value
), logged AS (
	INSERT INTO allocator_batches (version, mark, changed, reserves, pools)
	VALUES ($9, $10, ARRAY(SELECT value FROM freed), ARRAY[]::text[], true)
)
UPDATE allocator_head SET unwritten = cardinality($8::text[]) - (SELECT count(*) FROM removed)`

// errPools is wrapped by errors of the statement that writes pools.
var errPools = errors.New("write pools")

// commit writes a batch in the transaction of a connection and commits it.
func commit(ctx context.Context, conn *pgxpool.Conn, to store.Position, b store.Batch) error {
	args, err := writeArgs(to, b)
	if err != nil {
		return err
	}
	queries := &pgx.Batch{}
	if len(b.Pools) > 0 {
		queries.Queue(poolsWriteQuery, poolArgs(to, b.Pools)...)
	}
	queries.Queue(writeQuery, args...)
	queries.Queue(`COMMIT`)
	results := conn.SendBatch(ctx, queries)
	if len(b.Pools) > 0 {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // the statements after it did not run
			return fmt.Errorf("%w: %w", errPools, err)
		}
	}
	return results.Close()
}

func writeArgs(to store.Position, b store.Batch) ([]any, error) {
	n := len(b.Writes)
	keys, released := make([][]byte, n), make([]int64, n)
	var text [7][]string
	for i := range text {
		text[i] = make([]string, n)
	}
	for i := range b.Writes {
		w := &b.Writes[i]
		claims, err := row.EncodeClaims(w.Claims)
		if err != nil {
			return nil, err
		}
		keys[i], released[i] = w.Value.Key(), row.Millis(w.Released)
		for column, value := range [7]string{w.Pool, w.Owner.UID, w.Owner.Kind, w.Owner.Namespace, w.Owner.Name, claims, w.ExpectedOwner} {
			text[column][i] = value
		}
	}
	kept, closed := []string{}, []string{}
	grants, renewed := []int64{}, []int64{}
	for _, w := range b.Reserves {
		if w.Removed {
			closed = append(closed, w.Holder)
			continue
		}
		kept, grants, renewed = append(kept, w.Holder), append(grants, int64(w.Grant)), append(renewed, row.Millis(w.Renewed))
	}
	return []any{
		keys, text[0], text[1], text[2], text[3], text[4], released, text[5], text[6],
		kept, grants, renewed, closed, int64(to.Version), to.Mark,
	}, nil
}

func poolArgs(to store.Position, writes []store.PoolWrite) []any {
	names, ranges, removed := []string{}, []string{}, []string{}
	uses, states := []int16{}, []int16{}
	bands, perProtocol, avoid := []int64{}, []bool{}, []bool{}
	for _, w := range writes {
		if w.Removed {
			removed = append(removed, w.Name)
			continue
		}
		names, ranges, bands = append(names, w.Name), append(ranges, w.Range), append(bands, int64(w.Band))
		uses, states, perProtocol = append(uses, int16(w.Use)), append(states, int16(w.State)), append(perProtocol, w.PerProtocol)
		avoid = append(avoid, w.AvoidBuggyIPs)
	}
	return []any{names, uses, ranges, states, bands, perProtocol, avoid, removed, int64(to.Version), to.Mark}
}
