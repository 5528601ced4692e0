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

// writer holds the connection through which this process commits. One batch at a time uses it.
type writer struct {
	config        *pgx.ConnConfig
	lookupTimeout time.Duration   // how long the outcome of a lost batch is looked up
	usage         store.UsageFunc // decides on limited writes
	key           int64           // key of the advisory lock that marks the backend of this process that may commit
	sender        string          // the same key, in notifications
	conn          *pgx.Conn
	seenKnown     bool   // seen was read
	seen          uint64 // newest revision known when the last batch began; the changes of that batch have later ones
}

// statementTimeout is how long a statement of the writer may take, and how long its transaction may be idle.
// The last statement of a killed process is therefore committed within that time or never. The
// limit must be longer than the timeout of a batch, so that a live process reaches its own deadline
// first. The limit and the longest wait of a request (30 s) together must be shorter than the grace
// (60 s) after which the allocator frees an address that was allocated for a service but is not in
// use. Otherwise a late commit could store a service with an address that already belongs to
// another service.
const statementTimeout = 15 * time.Second

func newWriter(config *pgx.ConnConfig, usage store.UsageFunc) *writer {
	config = config.Copy()
	for name, value := range map[string]string{
		"application_name": "portolan-registry-writer",
		// The statement is planned once. It joins a batch of unknown size with tables of unknown
		// size, so it must always use the index on the key.
		"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_bitmapscan": "off", "jit": "off",
	} {
		config.RuntimeParams[name] = value
	}
	for _, name := range []string{"statement_timeout", "idle_in_transaction_session_timeout"} {
		if config.RuntimeParams[name] == "" { // otherwise the DSN sets it
			config.RuntimeParams[name] = strconv.FormatInt(statementTimeout.Milliseconds(), 10)
		}
	}
	key := rand.Int64() // #nosec G404 -- it tells writers apart, and only Postgres sees it
	return &writer{config: config, lookupTimeout: 3 * time.Second, usage: usage, key: key, sender: strconv.FormatInt(key, 36)}
}

// connect opens the connection unless there is one, and waits until no former backend of this
// process can commit.
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
	registerColumns(conn.TypeMap())
	if err := w.becomeWriter(ctx); err != nil {
		w.drop()
		return fmt.Errorf("prepare connection: %w", err)
	}
	return nil
}

// becomeWriter terminates the former backend of this process, if there is one, takes its lock, and
// creates the function that commits.
func (w *writer) becomeWriter(ctx context.Context) error {
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
	if w.seenKnown { // not read anew: the lost batch may be older than this connection
		return nil
	}
	err := w.conn.QueryRow(ctx, `SELECT revision FROM registry_head`).Scan(&w.seen)
	w.seenKnown = err == nil
	return err
}

// drop closes the connection and ignores errors.
func (w *writer) drop() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = w.conn.Close(ctx) // the connection is no longer usable
	w.conn = nil
}

// resolve looks up the outcome of a batch after its commit returned an error. done is the result if the
// batch was committed.
func (w *writer) resolve(ctx context.Context, cause error, mark int64, done batchResult) (batchResult, error) {
	if refused, ok := errors.AsType[*pgconn.PgError](cause); ok && refused.Severity == "ERROR" || pgconn.SafeToRetry(cause) {
		return batchResult{}, w.dropAfter(cause) // the database refused the batch, or never received it
	}
	w.drop()
	// The time for the lookup does not depend on the deadline of the batch, which may be the cause
	// of the error.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.lookupTimeout)
	defer cancel()
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		found, err := w.find(ctx, mark, &done)
		switch {
		case err == nil && found:
			return done, nil
		case err == nil:
			return batchResult{}, fmt.Errorf("%w: %w", errRetry, cause)
		case errors.Is(err, errPruned) || !app.Pause(ctx, wait):
			return batchResult{}, fmt.Errorf("%w: %w; and then %w", store.ErrUnknown, cause, err)
		}
	}
}

// errPruned is returned if the part of the log that shows the outcome of a batch has been pruned.
var errPruned = errors.New("the log after the last known revision is already pruned")

// find looks for a batch by its mark. It uses a new connection, because then the former connection
// can no longer commit the batch.
func (w *writer) find(ctx context.Context, mark int64, done *batchResult) (bool, error) {
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
