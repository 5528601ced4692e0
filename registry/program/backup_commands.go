package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"

	"google.golang.org/grpc"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/registry/internal/backup"
	"portolan.dev/registry/store"
	"portolan.dev/services/client"
	"portolan.dev/services/daemon"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

type backupConfig struct {
	Server string `flag:"server" default:"127.0.0.1:7400" usage:"host:port of a running registry"`
	Store  string `flag:"store" usage:"instead of a registry: its store, sqlite:FOLDER or postgres://…, while no registry uses it; a password is refused on the command line"`
	// StoreFile replaces Store in loadBackupConfig.
	StoreFile string `flag:"store-file" usage:"file with the store's URL, instead of store"`
	File      string `flag:"file" default:"-" usage:"file of the backup; - is standard output or input"`
	daemon.TLS
}

// dial connects to the registry, with the certificate of an operator if one is configured.
func (s *backupConfig) dial() (*grpc.ClientConn, error) {
	source, err := s.Identity(identity.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return rpc.TCP().Dial(s.Server, source.DialOption(identity.Registry))
}

// commands returns the function of each command by its name.
func commands() map[string]daemon.Command {
	return map[string]daemon.Command{
		"export":       func(ctx context.Context, args []string) error { return runExport(ctx, args, os.Stdout) },
		"import":       func(ctx context.Context, args []string) error { return runImport(ctx, args, os.Stdin) },
		"installation": func(ctx context.Context, args []string) error { return runInstallation(ctx, args, os.Stdout) },
	}
}

func loadBackupConfig(command string, args []string) (backupConfig, error) {
	var s backupConfig
	if err := config.Load("registry-"+command, &s, args, os.LookupEnv, os.Stdout); err != nil {
		return s, err
	}
	err := readStoreFile(&s.Store, s.StoreFile)
	return s, err
}

// readStoreFile sets the location of a store to the content of a file, if one is given.
func readStoreFile(dsn *string, file string) error {
	where := registry.Config{Store: *dsn, StoreFile: file}
	if err := where.ReadStoreFile(); err != nil {
		return fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	*dsn = where.Store
	return nil
}

func runExport(ctx context.Context, args []string, stdout io.Writer) error {
	s, err := loadBackupConfig("export", args)
	if err != nil {
		return err
	}
	return daemon.WriteExport(s.File, stdout, func(out io.Writer) error { return writeBackup(ctx, s, out) })
}

// writeBackup writes the backup to out.
func writeBackup(ctx context.Context, s backupConfig, out io.Writer) error {
	if s.Store != "" {
		return exportStore(ctx, s.Store, out)
	}
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := client.New(conn).Export(ctx, out); err != nil {
		return fmt.Errorf("export from %s: %w", s.Server, err)
	}
	return nil
}

func openQuietly(ctx context.Context, dsn string) (store.Store, error) {
	return OpenStore(ctx, registry.Config{Store: dsn}, slog.New(slog.DiscardHandler))
}

func exportStore(ctx context.Context, dsn string, out io.Writer) error {
	s, err := openQuietly(ctx, dsn)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriter(out)
	write := func(record *registryv1.BackupRecord) error { return client.WriteRecord(buffered, record) }
	installation, err := s.Installation(ctx)
	if err == nil {
		err = backup.FromStore(ctx, s, func(revision uint64, objects iter.Seq2[object.Object, error]) error {
			return backup.Write(backup.Origin{Revision: revision, Version: obs.Version(), Installation: installation}, objects, write)
		})
	}
	return errors.Join(err, s.Close(), buffered.Flush())
}

func runImport(ctx context.Context, args []string, stdin io.Reader) error {
	s, err := loadBackupConfig("import", args)
	if err != nil {
		return err
	}
	return daemon.ReadExport(s.File, stdin, func(in io.Reader) error { return readBackup(ctx, s, in) })
}

// readBackup imports the backup that in holds.
func readBackup(ctx context.Context, s backupConfig, in io.Reader) error {
	if s.Store != "" {
		return importStore(ctx, s.Store, in)
	}
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	imported, err := client.New(conn).Import(ctx, in)
	if err != nil {
		return fmt.Errorf("import into %s: %w", s.Server, err)
	}
	fmt.Fprintln(os.Stderr, imported)
	return nil
}

func importStore(ctx context.Context, dsn string, in io.Reader) error {
	buffered := bufio.NewReader(in)
	b, err := backup.Read(func() (*registryv1.BackupRecord, error) { return client.ReadRecord(buffered) })
	if err != nil {
		return err
	}
	s, err := openQuietly(ctx, dsn)
	if err != nil {
		return err
	}
	imported, err := fillStore(ctx, s, b)
	if err := errors.Join(err, s.Close()); err != nil {
		where, _ := config.Redact(dsn)
		return fmt.Errorf("import into %s: %w", where, err)
	}
	fmt.Fprintln(os.Stderr, imported)
	return nil
}

// fillStore restores a backup into a store.
func fillStore(ctx context.Context, s store.Store, b *backup.Backup) (client.Imported, error) {
	if err := backup.Restore(ctx, s, b); err != nil {
		return client.Imported{}, err
	}
	head, err := s.Head(ctx)
	if err != nil {
		return client.Imported{}, err
	}
	installation, err := s.Installation(ctx)
	return client.Imported{Objects: uint64(len(b.Rows)), Revision: head.Revision, Installation: installation, Original: b.Installation}, err
}
