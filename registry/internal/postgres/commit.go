package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/object"
)

// maxAttempts is how often a batch is tried if the database refused or lost it without having
// committed it.
const maxAttempts = 3

// batchResult is the result of a committed batch. It does not depend on the connection.
type batchResult struct {
	base uint64 // revision before the batch
	// outcomes has the outcomes of a decided batch, with revisions. If it is nil, all operations
	// succeeded, in order.
	outcomes []batch.Outcome[store.Result]
	size     int
	head     store.Head     // the head after the batch
	records  []store.Record // the records of the batch; empty if not all are in memory
}

// commit executes a batch.
func (s *Store) commit(ctx context.Context, ops []store.Op) []batch.Outcome[store.Result] {
	done, err := s.writer.commitOnce(ctx, ops)
	for range maxAttempts - 1 {
		if !errors.Is(err, errRetry) || ctx.Err() != nil {
			break
		}
		done, err = s.writer.commitOnce(ctx, ops)
	}
	if err == nil {
		outcomes := done.results(len(ops))
		if len(done.records) > 0 {
			store.ShareObjects(done.records, ops, outcomes)
			s.Committed(done.head, done.records)
		}
		s.Notify()
		return outcomes
	}
	if !errors.Is(err, store.ErrUnknown) && !errors.Is(err, store.ErrUnavailable) {
		err = unavailable(err)
	}
	return batch.Fail[store.Result](len(ops), err)
}

func (c batchResult) results(n int) []batch.Outcome[store.Result] {
	if c.outcomes != nil {
		return c.outcomes
	}
	outcomes := make([]batch.Outcome[store.Result], n)
	for i := range outcomes {
		outcomes[i].Value.Revision = c.base + uint64(i) + 1
	}
	return outcomes
}

// commitOnce executes a batch once. It connects first if there is no connection.
func (w *writer) commitOnce(ctx context.Context, ops []store.Op) (batchResult, error) {
	if err := w.connect(ctx); err != nil {
		// admin_shutdown ends this session, but not necessarily the server.
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "57P01" {
			err = fmt.Errorf("%w: %w", errRetry, err)
		}
		return batchResult{}, unavailable(err)
	}
	if rows, ok := fromOps(ops); ok && (w.usage == nil || !store.IsLimited(ops)) {
		mark := rand.Int64() // #nosec G404 -- it tells batches apart, and only Postgres sees it
		done, err := w.write(ctx, w.conn, rows, mark)
		if err == nil {
			w.seen = done.head.Revision
			return done, nil
		}
		if !errors.Is(err, errExpectation) {
			return w.resolve(ctx, err, mark, batchResult{size: len(ops)})
		}
	}
	return w.decide(ctx, ops)
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// errExpectation is returned by write if a row is not as the batch expects. Nothing is written
// then.
var errExpectation = errors.New("a row is not as expected")

// write runs the statement that commits a batch.
func (w *writer) write(ctx context.Context, on querier, rows *batchRows, mark int64) (batchResult, error) {
	now := time.Now().Truncate(time.Microsecond)
	var epoch zeronull.Text
	var revision, oldest zeronull.Int8
	if err := on.QueryRow(ctx, commitQuery, rows.args(now, mark, w.sender)...).Scan(&epoch, &revision, &oldest); err != nil {
		return batchResult{}, err
	}
	if revision == 0 {
		return batchResult{}, errExpectation
	}
	done := batchResult{size: len(rows.effects), head: store.Head{Epoch: string(epoch), Revision: uint64(revision), Oldest: uint64(oldest)}}
	done.base = done.head.Revision - uint64(done.size)
	done.records = rows.records(done.base, now)
	return done, nil
}

// decide executes a batch under the lock of the head.
func (w *writer) decide(ctx context.Context, ops []store.Op) (batchResult, error) {
	tx, err := w.conn.Begin(ctx)
	if err != nil {
		return batchResult{}, w.dropAfter(err)
	}
	d, err := w.readAndDecide(ctx, tx, ops)
	if err != nil || len(d.Records) == 0 {
		if err := errors.Join(err, tx.Rollback(ctx)); err != nil {
			return batchResult{}, w.dropAfter(err)
		}
		return batchResult{outcomes: d.Outcomes}, nil
	}
	mark := rand.Int64() // #nosec G404 -- it tells batches apart, and only Postgres sees it
	done, err := w.write(ctx, tx, fromDecision(d), mark)
	if err != nil {
		return batchResult{}, w.dropAfter(errors.Join(err, tx.Rollback(ctx)))
	}
	done.outcomes = d.Outcomes
	if err := tx.Commit(ctx); err != nil {
		return w.resolve(ctx, err, mark, done)
	}
	w.seen = done.base + uint64(done.size)
	return done, nil
}

func (w *writer) readAndDecide(ctx context.Context, tx pgx.Tx, ops []store.Op) (store.Decision, error) {
	keys := store.RowKeys(ops)
	kinds, namespaces, names := make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		kinds[i], namespaces[i], names[i] = key.Kind, key.Namespace, key.Name
	}
	const rowsQuery = `SELECT o.kind, o.namespace, o.name, o.uid, o.revision, o.epoch, o.data
		FROM unnest($1::text[], $2::text[], $3::text[]) AS k (kind, namespace, name), registry_objects o
		WHERE o.kind = k.kind AND o.namespace = k.namespace AND o.name = k.name`
	var head store.Head
	rows := make(map[object.Key]store.Row, len(keys))
	// The two statements take one round trip. The second begins when the first has the lock, so it
	// sees everything that was committed before.
	reads := &pgx.Batch{}
	reads.Queue(headQuery + ` FOR UPDATE`).QueryRow(func(row pgx.Row) error { return row.Scan(&head.Epoch, &head.Revision, &head.Oldest) })
	reads.Queue(rowsQuery, kinds, namespaces, names).Query(func(found pgx.Rows) error {
		for found.Next() {
			row, err := scanRow(found)
			if err != nil {
				return err
			}
			rows[row.Key] = row
		}
		return found.Err()
	})
	if err := tx.SendBatch(ctx, reads).Close(); err != nil {
		return store.Decision{}, err
	}
	used := store.UsageFor(w.usage, head, ops, func(after uint64) ([]store.Record, error) {
		records, _, err := changesAfter(ctx, tx, after, store.MaxUsageRecords)
		return records, err
	})
	return store.Decide(time.Now().Truncate(time.Microsecond), head, rows, ops, used), nil
}

// errRetry is wrapped by errors of a batch that was not committed and can be tried again at once.
var errRetry = errors.New("try again")

// dropAfter drops the connection after an error that left nothing committed.
func (w *writer) dropAfter(err error) error {
	w.drop()
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Severity == "ERROR" && !transient[refused.Code] {
		return err
	}
	return fmt.Errorf("%w: %w", errRetry, err)
}

// transient holds the codes of errors that do not depend on the statement, so that it may succeed
// if it is repeated.
var transient = map[string]bool{
	"40001": true, // serialization_failure
	"40P01": true, // deadlock_detected
	"25006": true, // read_only_sql_transaction: this is a standby by now
}
