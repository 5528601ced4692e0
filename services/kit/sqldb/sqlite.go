package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	_ "github.com/ncruces/go-sqlite3/driver" // registers "sqlite3"

	"portolan.dev/services/kit/filelock"
)

// ErrInUse is returned if another process has the embedded database open.
var ErrInUse = errors.New("database is in use by another process")

// Embedded is a SQLite database that belongs to this process. It has one connection for writing and
// several for concurrent reading. When a commit returns, it is on disk and survives kill -9 and
// power loss.
type Embedded struct {
	// Writer has one connection. Its transactions take the write lock when they begin.
	Writer *sql.DB
	// Reader has read-only connections. Each of its transactions sees a single state of the
	// database.
	Reader *sql.DB

	lock *os.File
}

// OpenEmbedded opens the database in a file, and creates the file and its folder if necessary. The
// error is [ErrInUse] if this or another process has it open.
func OpenEmbedded(ctx context.Context, path string) (*Embedded, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("folder of the database: %w", err)
	}
	// SQLite's own locks would allow a second process to write between transactions.
	lock, err := filelock.Lock(path + ".lock")
	if errors.Is(err, filelock.ErrHeld) {
		err = ErrInUse
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	e := &Embedded{lock: lock}
	e.Writer, err = openPool(ctx, path, 1, "_txlock=immediate", "_pragma=journal_mode(wal)", "_pragma=synchronous(full)")
	if err == nil {
		e.Reader, err = openPool(ctx, path, max(4, runtime.GOMAXPROCS(0)), "_pragma=query_only(on)")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), e.Close())
	}
	return e, nil
}

// Close closes all connections and releases the lock, so that the database can be opened again.
func (e *Embedded) Close() error {
	var errs []error
	for _, db := range []*sql.DB{e.Reader, e.Writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, e.lock.Close())...)
}

func openPool(ctx context.Context, path string, connections int, params ...string) (*sql.DB, error) {
	params = append([]string{"_pragma=busy_timeout(10000)"}, params...)
	source := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + strings.Join(params, "&")
	db, err := sql.Open("sqlite3", source)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}
