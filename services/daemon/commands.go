package daemon

import (
	"context"
	"io"
	"os"

	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/atomicfile"
)

// storeGCPercent lets garbage grow to twice the size of the data in memory; Go's default is once.
// Every write leaves some garbage, and each collection scans all data.
const storeGCPercent = 200

// Command is a command of a daemon's program, such as export. args are the arguments after its name.
type Command func(ctx context.Context, args []string) error

// MainWithCommands is [Main] for a daemon that has a store in memory and commands beside the daemon. If
// the first argument is the name of a command, MainWithCommands runs the command instead of the daemon.
func MainWithCommands[C any, D app.Daemon, P configuration[C]](
	name string, commands map[string]Command, build func(ctx context.Context, cfg C, host app.Host) (D, error),
) int {
	if len(os.Args) > 1 {
		if command, ok := commands[os.Args[1]]; ok {
			return app.Main(name, func(ctx context.Context, args []string) error { return command(ctx, args[1:]) })
		}
	}
	app.SetGCPercent(storeGCPercent)
	return Main[C, D, P](name, build)
}

// WriteExport calls write with stdout if file is "-". Otherwise write fills a new file, which takes the
// place of file when it is complete and on the disk.
func WriteExport(file string, stdout io.Writer, write func(io.Writer) error) error {
	if file == "-" {
		return write(stdout)
	}
	f, err := atomicfile.Create(file, 0o600)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit()
}

// ReadExport calls read with stdin if file is "-", otherwise with the content of the file.
func ReadExport(file string, stdin io.Reader, read func(io.Reader) error) error {
	if file == "-" {
		return read(stdin)
	}
	opened, err := os.Open(file)
	if err != nil {
		return err
	}
	defer opened.Close()
	return read(opened)
}
