package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/kittest"
)

// TestAnAbsenceIsOneLine checks that an error has one line, although the driver writes one line for
// each address that it tried.
func TestAnAbsenceIsOneLine(t *testing.T) {
	first, second := errors.New("10.0.0.1:5432: refused"), errors.New("10.0.0.2:5432: no route")
	err := unavailable(errors.Join(errors.New("failed to connect:"), first, second, first))
	if got, want := err.Error(), "store unavailable: failed to connect: 10.0.0.1:5432: refused; 10.0.0.2:5432: no route"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, second) {
		t.Error("what is wrong is lost")
	}
}

// TestARoleThatMayMakeNothingTemporaryIsTold checks that the error has the remedy. Such a role
// could read, but commit nothing.
func TestARoleThatMayMakeNothingTemporaryIsTold(t *testing.T) {
	t.Parallel()
	cluster := kittest.NewCluster(t)
	dsn := cluster.Password(t, "clerk", "secret")
	if _, err := connect(t, cluster.DSN("clerk")).Exec(t.Context(), `REVOKE TEMPORARY ON DATABASE clerk FROM PUBLIC, clerk`); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), Config{DSN: dsn})
	if err == nil {
		closeStore(t, s)
	}
	if !errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), "GRANT TEMPORARY ON DATABASE clerk TO clerk") {
		t.Errorf("got %v", err)
	}
}

// TestADatabaseAwayIsOneLine checks that the error of an unreachable database has one line.
func TestADatabaseAwayIsOneLine(t *testing.T) {
	_, err := Open(t.Context(), Config{DSN: "postgres://nobody@127.0.0.1:1,127.0.0.1:2/nothing"})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("got %v", err)
	}
	if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "127.0.0.1:1") || !strings.Contains(text, "127.0.0.1:2") {
		t.Errorf("got %q", text)
	}
}

// TestARefusalSaysItsRemedy checks that a refusal is returned at once with the change that the
// operator has to make, because waiting does not cure it.
func TestARefusalSaysItsRemedy(t *testing.T) {
	s := &Store{conn: &pgx.ConnConfig{Config: pgconn.Config{User: "clerk", Database: "shop"}}}
	for code, remedy := range map[string]string{
		"28P01": "ALTER ROLE clerk PASSWORD",
		"28000": "CREATE ROLE clerk LOGIN",
		"3D000": "CREATE DATABASE shop OWNER clerk",
		"42501": "ALTER DATABASE shop OWNER TO clerk",
	} {
		err := s.withRemedy(fmt.Errorf("connect: %w", &pgconn.PgError{Code: code, Message: "what Postgres says"}))
		if !errors.Is(err, store.ErrUnusable) || !strings.Contains(err.Error(), remedy) || !strings.Contains(err.Error(), "what Postgres says") {
			t.Errorf("%s: %v, want %q", code, err, remedy)
		}
	}
	for _, passing := range []error{errors.New("connection refused"), &pgconn.PgError{Code: "57P03", Message: "the database system is starting up"}} {
		if err := s.withRemedy(passing); !errors.Is(err, passing) || errors.Is(err, store.ErrUnusable) {
			t.Errorf("%v became %v", passing, err)
		}
	}
}
