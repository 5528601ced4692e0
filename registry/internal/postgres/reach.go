package postgres

import (
	"errors"
	"fmt"

	"portolan.dev/registry/store"
	kit "portolan.dev/services/kit/postgres"
	"portolan.dev/services/kit/sqldb"
)

// unavailable wraps an error of the database in [store.ErrUnavailable].
func unavailable(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, kit.OneLine(err))
}

// withRemedy distinguishes refusals, which waiting does not cure, from an unavailable database. It
// wraps refusals in [store.ErrUnusable] with a remedy.
func (s *Store) withRemedy(err error) error {
	if errors.Is(err, sqldb.ErrSchema) {
		return fmt.Errorf("%w: %w: run the program that the database was upgraded to, or restore a backup into an empty database", store.ErrUnusable, err)
	}
	if refusal := kit.Refusal(err, s.conn); refusal != "" {
		return fmt.Errorf("%w: %s", store.ErrUnusable, refusal)
	}
	return err
}
