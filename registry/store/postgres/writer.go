package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/app"
)

// writer has the one connection through which this process commits. It is used by one batch at a time.
type writer struct {
	config   *pgx.ConnConfig
	patience time.Duration // how long a batch that was cut off is looked for
	key      int64         // of the advisory lock that says: this process has a backend that may commit
	sender   string        // the same, in notifications
	conn     *pgx.Conn
	began    bool   // seen was read
	seen     uint64 // newest revision known when the last batch began: its changes, if any, are later in the log
}

// limit is how long a statement of the writer may take, or its transaction wait for the next one. What a process sent before it was killed either
// happens within that or never. It must be more than a batch may take, so that a live process hears of its own deadline first; and with that and the
// longest that a request may wait (30 s) less than the grace after which the allocator frees an address that was held for a service and is not
// in use (60 s): a commit that comes later would store a service whose address somebody else has.
const limit = 15 * time.Second

func newWriter(config *pgx.ConnConfig) *writer {
	config = config.Copy()
	for name, value := range map[string]string{
		"application_name": "portolan-registry-writer",
		// The statement is planned once and joins a batch of unknown size to tables of unknown size: always by the key.
		"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off", "jit": "off",
	} {
		config.RuntimeParams[name] = value
	}
	for _, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
		if config.RuntimeParams[name] == "" { // else the operator knows better
			config.RuntimeParams[name] = strconv.FormatInt(limit.Milliseconds(), 10)
		}
	}
	key := rand.Int64()
	return &writer{config: config, patience: 3 * time.Second, key: key, sender: strconv.FormatInt(key, 36)}
}

// connect makes the connection, unless there is one, and waits until no former one can commit anything any more.
func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		if !w.conn.IsClosed() {
			return nil
		}
		w.drop()
	}
	conn, err := pgx.ConnectConfig(ctx, w.config)
	if err != nil {
		return err
	}
	w.conn = conn
	if err := w.succeed(ctx); err != nil {
		w.drop()
		return fmt.Errorf("prepare connection: %w", err)
	}
	return nil
}

// succeed ends the former backend of this process, if there is one, takes its lock, and makes the function that commits.
func (w *writer) succeed(ctx context.Context) error {
	const former = `SELECT pg_terminate_backend(pid) FROM pg_locks
		WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid <> pg_backend_pid()
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
			AND (classid::int8 << 32 | objid::int8) = $1`
	if _, err := w.conn.Exec(ctx, former, w.key); err != nil {
		return err
	}
	if _, err := w.conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, w.key); err != nil {
		return err
	}
	if _, err := w.conn.Exec(ctx, commitFunction); err != nil {
		return err
	}
	if w.began { // not to be read anew: a batch that is looked for may be older than this connection
		return nil
	}
	err := w.conn.QueryRow(ctx, `SELECT revision FROM registry_head`).Scan(&w.seen)
	w.began = err == nil
	return err
}

// drop closes the connection without ceremony.
func (w *writer) drop() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx) // it is given up because it is of no use any more
	w.conn = nil
}

// resolve finds out what became of a batch whose commit returned an error. done is what it has to say if it happened.
func (w *writer) resolve(ctx context.Context, cause error, mark int64, done committed) (committed, error) {
	if refused, ok := errors.AsType[*pgconn.PgError](cause); ok && refused.Severity == "ERROR" || pgconn.SafeToRetry(cause) {
		return committed{}, w.lost(cause) // the database said that it did not happen, or was never asked
	}
	w.drop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.patience) // whatever is left of the batch's own time, which may have been the cause
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		found, err := w.find(ctx, mark, &done)
		switch {
		case err == nil && found:
			return done, nil
		case err == nil:
			return committed{}, fmt.Errorf("%w: %w", errAgain, cause)
		case errors.Is(err, errPruned) || !app.Pause(ctx, wait):
			return committed{}, fmt.Errorf("%w: %w; and then %w", store.ErrUnknown, cause, err)
		}
	}
}

// errPruned says that the log no longer tells what became of a batch.
var errPruned = errors.New("the log after the last known revision is already pruned")

// find looks for a batch by its mark, on a new connection: the former one can then not commit it any more.
func (w *writer) find(ctx context.Context, mark int64, done *committed) (bool, error) {
	if err := w.connect(ctx); err != nil {
		return false, err
	}
	var count, oldest uint64
	const query = `SELECT (SELECT oldest FROM registry_head), count(*), COALESCE(min(revision), 1) - 1
		FROM registry_changes WHERE revision > $1 AND batch = $2`
	err := w.conn.QueryRow(ctx, query, w.seen, mark).Scan(&oldest, &count, &done.base)
	switch {
	case err != nil:
		w.drop()
		return false, err
	case count == 0 && oldest > w.seen:
		return false, errPruned
	case count == 0:
		return false, nil
	}
	w.seen = done.base + count
	return true, nil
}
