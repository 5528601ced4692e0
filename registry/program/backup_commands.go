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
	"google.golang.org/protobuf/encoding/protodelim"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry"
	"portolan.dev/registry/internal/backup"
	"portolan.dev/registry/store"
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

// backupCommands returns the function of each backup command by its name.
func backupCommands() map[string]daemon.Command {
	return map[string]daemon.Command{
		"export": func(ctx context.Context, args []string) error { return runExport(ctx, args, os.Stdout) },
		"import": func(ctx context.Context, args []string) error { return runImport(ctx, args, os.Stdin) },
	}
}

func loadBackupConfig(command string, args []string) (backupConfig, error) {
	var s backupConfig
	if err := config.Load("registry-"+command, &s, args, os.LookupEnv, os.Stdout); err != nil {
		return s, err
	}
	where := registry.Config{Store: s.Store, StoreFile: s.StoreFile}
	if err := where.ReadStoreFile(); err != nil {
		return s, fmt.Errorf("%w: %w", config.ErrInvalid, err)
	}
	s.Store = where.Store
	return s, nil
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
	buffered := bufio.NewWriter(out)
	write := func(record *registryv1.BackupRecord) error {
		_, err := protodelim.MarshalTo(buffered, record)
		return err
	}
	var err error
	if s.Store != "" {
		err = exportStore(ctx, s.Store, write)
	} else {
		err = s.exportServer(ctx, write)
	}
	return errors.Join(err, buffered.Flush())
}

func (s *backupConfig) exportServer(ctx context.Context, write func(*registryv1.BackupRecord) error) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := registryv1.NewBackupServiceClient(conn).Export(ctx, &registryv1.ExportRequest{})
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("export from %s: %w", s.Server, err)
		}
		if err := write(answer.GetRecord()); err != nil {
			return err
		}
	}
}

func openQuietly(ctx context.Context, dsn string) (store.Store, error) {
	return OpenStore(ctx, registry.Config{Store: dsn}, slog.New(slog.DiscardHandler))
}

func exportStore(ctx context.Context, dsn string, write func(*registryv1.BackupRecord) error) error {
	s, err := openQuietly(ctx, dsn)
	if err != nil {
		return err
	}
	err = backup.FromStore(ctx, s, func(revision uint64, objects iter.Seq2[object.Object, error]) error {
		return backup.Write(revision, obs.Version(), objects, write)
	})
	return errors.Join(err, s.Close())
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
	buffered := bufio.NewReader(in)
	read := func() (*registryv1.BackupRecord, error) {
		record := &registryv1.BackupRecord{}
		err := protodelim.UnmarshalOptions{MaxSize: maxRecord}.UnmarshalFrom(buffered, record)
		return record, err
	}
	if s.Store != "" {
		return importStore(ctx, s.Store, read)
	}
	return s.importServer(ctx, read)
}

// maxRecord is larger than any record that an export writes.
const maxRecord = 16 << 20

func (s *backupConfig) importServer(ctx context.Context, read func() (*registryv1.BackupRecord, error)) error {
	conn, err := s.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := registryv1.NewBackupServiceClient(conn).Import(ctx)
	if err != nil {
		return err
	}
	for {
		record, err := read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read backup: %w", err)
		}
		if err := stream.Send(&registryv1.ImportRequest{Record: record}); err != nil {
			break // the response has the reason
		}
	}
	answer, err := stream.CloseAndRecv()
	if err != nil {
		return fmt.Errorf("import into %s: %w", s.Server, err)
	}
	fmt.Fprintf(os.Stderr, "%d objects imported, the registry is at revision %d\n", answer.GetObjects(), answer.GetRevision())
	return nil
}

func importStore(ctx context.Context, dsn string, read func() (*registryv1.BackupRecord, error)) error {
	b, err := backup.Read(read)
	if err != nil {
		return err
	}
	s, err := openQuietly(ctx, dsn)
	if err != nil {
		return err
	}
	if err := errors.Join(backup.Restore(ctx, s, b), s.Close()); err != nil {
		where, _ := config.Redact(dsn)
		return fmt.Errorf("import into %s: %w", where, err)
	}
	fmt.Fprintf(os.Stderr, "%d objects imported\n", len(b.Rows))
	return nil
}
