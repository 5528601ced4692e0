package kittest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Environment variables of the tests.
const (
	envPostgres    = "PORTOLAN_TEST_POSTGRES"
	envRequireReal = "PORTOLAN_REQUIRE_REAL"
)

// shared is the server that the tests of this binary share.
var shared sharedCluster

// databases numbers the databases, so that their names are unique.
var databases atomic.Int64

// Postgres returns the connection string of an empty database, which is dropped when the test ends.
// PORTOLAN_TEST_POSTGRES names the server. Without it all tests of the binary share a temporary server,
// which runs without fsync, so it is not suitable for measurements.
//
// Without a Postgres installation the test is skipped, or fails if PORTOLAN_REQUIRE_REAL=1.
func Postgres(t testing.TB) (dsn string) {
	t.Helper()
	admin := os.Getenv(envPostgres)
	if admin == "" {
		c := shared.use(t)
		admin = c.DSN("postgres")
	}
	return newDatabase(t, admin)
}

// newDatabase creates a database on the server that admin connects to.
func newDatabase(t testing.TB, admin string) string {
	t.Helper()
	name := fmt.Sprintf("portolan_test_%d_%d", os.Getpid(), databases.Add(1))
	if err := execute(admin, "CREATE DATABASE "+name); err != nil {
		t.Fatalf("postgres: %v", err)
	}
	t.Cleanup(func() {
		// The server waits five seconds for the connections that it has closed. On a busy machine
		// that may not be enough; then the command fails and must be repeated.
		Eventually(t, "the end of database "+name, func() error {
			return execute(admin, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
		})
	})
	return withDatabase(admin, name)
}

func execute(dsn, sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}

// withDatabase replaces the database in a connection string, which may be a URL or a list of
// key=value pairs.
func withDatabase(dsn, name string) string {
	if !strings.Contains(dsn, "://") {
		return dsn + " dbname=" + name // the last value counts
	}
	u := mustURL(dsn)
	u.Path = "/" + name
	return u.String()
}

// sharedCluster starts a cluster for the first test that needs one. The last test that uses the
// cluster stops it or, if Main keeps it, the end of the binary.
type sharedCluster struct {
	mu      sync.Mutex
	cluster *Cluster
	users   int
	kept    bool
}

func (s *sharedCluster) keep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = true
}

func (s *sharedCluster) use(t testing.TB) *Cluster {
	t.Helper()
	bin := PostgresBinaries(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster == nil {
		c, err := startCluster(bin)
		if err != nil {
			t.Fatalf("postgres: %v", err)
		}
		s.cluster = c
	}
	s.users++
	t.Cleanup(func() {
		if err := s.leave(); err != nil {
			t.Errorf("postgres: %v", err)
		}
	})
	return s.cluster
}

func (s *sharedCluster) leave() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users--
	if s.kept || s.users > 0 {
		return nil
	}
	return s.removeLocked()
}

func (s *sharedCluster) release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.removeLocked()
}

func (s *sharedCluster) removeLocked() error {
	if s.cluster == nil {
		return nil
	}
	c := s.cluster
	s.cluster = nil
	return c.remove()
}

// SecretFile returns a file that has the given text, such as the URL of a database, and that only
// this user may read.
func SecretFile(t testing.TB, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
