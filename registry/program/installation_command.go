package program

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/config"
)

type installationConfig struct {
	Store string `flag:"store" usage:"the store, sqlite:FOLDER or postgres://…; with SQLite, while no registry uses it; a password is refused on the command line"`
	// StoreFile replaces Store.
	StoreFile string `flag:"store-file" usage:"file with the store's URL, instead of store"`
	Set       string `flag:"set" usage:"identity that the store gets: the one of an installation whose place it takes, or new; empty: it keeps its own"`
}

// newIdentity is the value of the flag set for an identity that no installation has.
const newIdentity = "new"

// identityForm is the form of identities. It is wider than that of the ones that stores make.
var identityForm = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// runInstallation prints the identity of the installation that a store belongs to. With the flag set it
// changes the identity before.
func runInstallation(ctx context.Context, args []string, stdout io.Writer) error {
	var c installationConfig
	if err := config.Load("registry-installation", &c, args, os.LookupEnv, stdout); err != nil {
		return err
	}
	if err := readStoreFile(&c.Store, c.StoreFile); err != nil {
		return err
	}
	switch {
	case c.Store == "":
		return fmt.Errorf("%w: store: name the store, or its file by -store-file", config.ErrInvalid)
	case c.Set != "" && !identityForm.MatchString(c.Set):
		return fmt.Errorf("%w: set: %q is no identity of an installation", config.ErrInvalid, c.Set)
	case c.Set == newIdentity:
		c.Set = rand.Text()
	}
	s, err := openQuietly(ctx, c.Store)
	if err != nil {
		return err
	}
	id, err := identify(ctx, s, c.Set)
	if err := errors.Join(err, s.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, id)
	return err
}

// identify gives a store an identity, unless it is empty, and returns the identity of the store.
func identify(ctx context.Context, s store.Store, id string) (string, error) {
	if id != "" {
		if err := s.SetInstallation(ctx, id); err != nil {
			return "", err
		}
	}
	return s.Installation(ctx)
}
