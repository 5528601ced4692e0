package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/sqldb"
)

// unavailable wraps an error of the database in [store.ErrUnavailable].
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, oneLine{err})
}

// oneLine is an error with a text of a single line. The driver's text has one line for each address
// that it tried.
type oneLine struct{ error }

// Error joins the lines and omits duplicates.
func (o oneLine) Error() string {
	var parts []string
	seen := map[string]bool{}
	for line := range strings.Lines(o.error.Error()) {
		if line = strings.TrimSpace(line); line != "" && !seen[line] {
			seen[line] = true
			parts = append(parts, line)
		}
	}
	return strings.ReplaceAll(strings.Join(parts, "; "), ":; ", ": ")
}

// Unwrap returns the original error.
func (o oneLine) Unwrap() error { return o.error }

// withRemedy distinguishes refusals, which waiting does not cure, from an unavailable database. It
// wraps refusals in [store.ErrUnusable] with a remedy.
func (s *Store) withRemedy(err error) error {
	if errors.Is(err, sqldb.ErrSchema) {
		return fmt.Errorf("%w: %w: run the program that the database was upgraded to, or restore a backup into an empty database", store.ErrUnusable, err)
	}
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return err
	}
	remedy := ""
	switch refused.Code {
	case "28P01": // invalid_password
		remedy = fmt.Sprintf("correct the password in store, or set it by ALTER ROLE %s PASSWORD '…'", s.conn.User)
	case "28000": // invalid_authorization_specification
		remedy = fmt.Sprintf("make the role by CREATE ROLE %s LOGIN, or let it in from here in pg_hba.conf", s.conn.User)
	case "3D000": // invalid_catalog_name
		remedy = fmt.Sprintf("make the database by CREATE DATABASE %s OWNER %s, or correct its name in store", s.conn.Database, s.conn.User)
	case "42501": // insufficient_privilege
		remedy = fmt.Sprintf("make the role its owner by ALTER DATABASE %s OWNER TO %s", s.conn.Database, s.conn.User)
	default:
		return err
	}
	return fmt.Errorf("%w: Postgres says: %s: %s", store.ErrUnusable, refused.Message, remedy)
}
