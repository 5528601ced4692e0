package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"portolan.dev/allocator"
	"portolan.dev/allocator/internal/dump"
	"portolan.dev/allocator/store"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/obs"
)

type exportConfig struct {
	Store     string `flag:"store" default:"sqlite:.portolan/allocator" usage:"store of the allocator: sqlite:FOLDER, while no allocator uses it, or postgres://…; a password is refused on the command line"`
	StoreFile string `flag:"store-file" usage:"file with the store's URL, instead of store"`
	File      string `flag:"file" default:"-" usage:"file of the export; - is standard output or input"`
}

type importConfig struct {
	exportConfig

	Replace bool `flag:"replace" usage:"replace what the store has; without it, a store that is not empty is refused"`
}

// dumpCommands returns the function of each command by its name.
func dumpCommands() map[string]daemon.Command {
	return map[string]daemon.Command{
		"export": func(ctx context.Context, args []string) error { return runExport(ctx, args, os.Stdout, os.Stderr) },
		"import": func(ctx context.Context, args []string) error { return runImport(ctx, args, os.Stdin, os.Stderr) },
	}
}

// open opens the configured store.
func (c *exportConfig) open(ctx context.Context) (store.Store, error) {
	where := allocator.Config{Store: c.Store, StoreFile: c.StoreFile}
	if err := where.ReadStoreFile(); err != nil {
		return nil, fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	return openStore(ctx, where, slog.New(slog.DiscardHandler))
}

func runExport(ctx context.Context, args []string, stdout, report io.Writer) error {
	var c exportConfig
	if err := config.Load("allocator-export", &c, args, os.LookupEnv, os.Stdout); err != nil {
		return err
	}
	return daemon.WriteExport(c.File, stdout, func(out io.Writer) error { return writeExport(ctx, c, out, report) })
}

func writeExport(ctx context.Context, c exportConfig, out, report io.Writer) error {
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(out)
	var n dump.Counts
	err = s.Snapshot(ctx, func(content store.Snapshot) (err error) {
		n, err = dump.Write(buffered, content, obs.Version(), time.Now())
		return err
	})
	if err := errors.Join(err, buffered.Flush(), s.Close()); err != nil {
		return err
	}
	fmt.Fprintf(report, "%d pools and %d allocations exported\n", n.Pools, n.Allocations)
	return nil
}

func runImport(ctx context.Context, args []string, stdin io.Reader, report io.Writer) error {
	var c importConfig
	if err := config.Load("allocator-import", &c, args, os.LookupEnv, os.Stdout); err != nil {
		return err
	}
	var content *dump.Content
	err := daemon.ReadExport(c.File, stdin, func(in io.Reader) (err error) {
		if content, err = dump.Read(in); err != nil {
			return fmt.Errorf("read the export: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s, err := c.open(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(restore(ctx, s, content, c.Replace), s.Close()); err != nil {
		return err
	}
	n := content.Counts()
	fmt.Fprintf(report, "%d pools and %d allocations imported\n", n.Pools, n.Allocations)
	return nil
}

var errNotEmpty = errors.New("the store is not empty; -replace replaces what it has")

// restore fills a store. It fails if something was stored after it found the store to be empty.
func restore(ctx context.Context, s store.Store, content *dump.Content, replace bool) error {
	var at store.Position
	empty := true
	err := s.Snapshot(ctx, func(has store.Snapshot) error {
		at, empty = has.Position, len(has.Pools)+len(has.Reserves) == 0
		for _, err := range has.Allocations {
			empty = false
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !empty && !replace {
		return errNotEmpty
	}
	return s.Restore(ctx, at, content.Snapshot())
}
