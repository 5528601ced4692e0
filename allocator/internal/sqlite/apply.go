package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// writeSQL writes an allocation if its value is free, at rest, or belongs to the named owner.
// Otherwise it changes no row.
const writeSQL = `INSERT INTO holdings (value, pool, uid, kind, namespace, name, released, claims) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
	ON CONFLICT (value) DO UPDATE SET pool = excluded.pool, uid = excluded.uid, kind = excluded.kind, namespace = excluded.namespace,
		name = excluded.name, released = excluded.released, claims = excluded.claims
	WHERE holdings.released <> 0 OR holdings.uid = ?9`

// Apply implements store.Store.
func (s *Store) Apply(ctx context.Context, puts []store.Write) error {
	if len(puts) == 0 {
		return nil
	}
	return s.inTransaction(ctx, func(tx *sql.Tx) error {
		stmt := tx.StmtContext(ctx, s.writeStmt)
		for i := range puts {
			if err := apply(ctx, stmt, &puts[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func apply(ctx context.Context, stmt *sql.Stmt, p *store.Write) error {
	claims, err := writeClaims(p.Claims)
	if err != nil {
		return err
	}
	o := &p.Owner
	res, err := stmt.ExecContext(ctx, p.Value.Key(), p.Pool, o.UID, o.Kind, o.Namespace, o.Name, millis(p.Released), claims, p.ExpectedOwner)
	if err != nil {
		return fmt.Errorf("write %s: %w", p.Value, err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("write %s: %w", p.Value, err)
	}
	if n == 0 {
		return &store.ConflictError{Value: p.Value}
	}
	return nil
}

// DeleteExpired implements store.Store.
func (s *Store) DeleteExpired(ctx context.Context, t time.Time) error {
	if _, err := s.db.Writer.ExecContext(ctx, `DELETE FROM holdings WHERE released <> 0 AND released < ?`, millis(t)); err != nil {
		return fmt.Errorf("forget what rested: %w", err)
	}
	return nil
}

// claim is a claim in its stored form: [slot, 1 if confirmed, milliseconds since 1970].
type claim [3]any

func writeClaims(claims []store.Claim) (string, error) {
	stored := make([]claim, len(claims))
	for i, c := range claims {
		confirmed := 0
		if c.Confirmed {
			confirmed = 1
		}
		stored[i] = claim{c.Slot, confirmed, millis(c.Since)}
	}
	text, err := json.Marshal(stored)
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	return string(text), nil
}

func readClaims(value pool.Value, text []byte) ([]store.Claim, error) {
	var stored []claim
	if err := json.Unmarshal(text, &stored); err != nil {
		return nil, fmt.Errorf("claims on %s: %w", value, err)
	}
	var claims []store.Claim
	for _, c := range stored {
		slot, isText := c[0].(string)
		confirmed, isNumber := c[1].(float64)
		since, isTime := c[2].(float64)
		if !isText || !isNumber || !isTime {
			return nil, fmt.Errorf("claims on %s: %w", value, errClaim)
		}
		claims = append(claims, store.Claim{Slot: slot, Confirmed: confirmed != 0, Since: fromMillis(int64(since))})
	}
	return claims, nil
}

var errClaim = errors.New("want [slot, confirmed, since]")

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
