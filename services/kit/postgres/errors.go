package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// OneLine returns the error with a text of a single line. The driver's text has one line for each
// address that it tried. It returns nil for nil.
func OneLine(err error) error {
	if err == nil {
		return nil
	}
	return oneLine{err}
}

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

// Refusal returns the message of Postgres and its remedy if the database denies access, because waiting
// is then useless. It returns "" for any other error.
func Refusal(err error, conn *pgx.ConnConfig) string {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		return ""
	}
	remedy := ""
	switch refused.Code {
	case "28P01": // invalid_password
		remedy = fmt.Sprintf("correct the password in store, or set it by ALTER ROLE %s PASSWORD '…'", conn.User)
	case "28000": // invalid_authorization_specification
		remedy = fmt.Sprintf("make the role by CREATE ROLE %s LOGIN, or let it in from here in pg_hba.conf", conn.User)
	case "3D000": // invalid_catalog_name
		remedy = fmt.Sprintf("make the database by CREATE DATABASE %s OWNER %s, or correct its name in store", conn.Database, conn.User)
	case "42501": // insufficient_privilege
		remedy = fmt.Sprintf("make the role its owner by ALTER DATABASE %s OWNER TO %s", conn.Database, conn.User)
	default:
		return ""
	}
	return fmt.Sprintf("Postgres says: %s: %s", refused.Message, remedy)
}
