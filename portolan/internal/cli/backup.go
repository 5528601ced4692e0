package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"portolan.dev/services/client"
	"portolan.dev/services/daemon"
	"portolan.dev/services/terminal"
)

func newExport(flags *connection) *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "export -f FILE",
		Short: "Write a backup of all objects",
		Long: `export writes a backup of all objects of a running registry, as they are at one revision. The registry keeps serving. The file is complete, or it
is not written. It holds the keys of certificates, and only its owner may read it.

"registry export" does the same from the store, for a registry that does not start.`,
		Example: `  portolan export -f portolan.bin
  portolan export --certs /root/certs -f - | ssh backup 'cat > portolan.bin'`,
		Args: arguments(cobra.NoArgs, "no arguments"),
	}
	command.RunE = flags.withRegistry(func(command *cobra.Command, _ []string, registry *client.Client) error {
		if file == "-" && isTerminal(command.OutOrStdout()) {
			return usageError{errors.New("-f: a backup is not text; name a file")}
		}
		return daemon.WriteExport(file, terminal.Raw(command.OutOrStdout()), func(out io.Writer) error {
			return flags.addTLSHint(registry.Export(command.Context(), out))
		})
	})
	command.Flags().StringVarP(&file, "file", "f", "", "file of the backup; - is standard output")
	_ = command.MarkFlagRequired("file") // fails for an unknown flag only
	return command
}

func newImport(flags *connection) *cobra.Command {
	var file string
	command := &cobra.Command{
		Use:   "import -f FILE",
		Short: "Fill an empty registry from a backup",
		Long: `import fills a running registry with the objects of a backup. It is refused unless the registry has only objects that its daemons have made by
themselves: Nodes without a spec, Leases of controllers, and Events. The backup is read and checked completely before anything changes.

The registry keeps the identity of its installation, so a copy for practice does not take the change stream of the original. See docs/operations.md
for a registry that takes the place of the original.`,
		Example: `  portolan import -f portolan.bin`,
		Args:    arguments(cobra.NoArgs, "no arguments"),
	}
	command.RunE = flags.withRegistry(func(command *cobra.Command, _ []string, registry *client.Client) error {
		return daemon.ReadExport(file, command.InOrStdin(), func(in io.Reader) error {
			imported, err := registry.Import(command.Context(), in)
			if err != nil {
				return flags.addTLSHint(err)
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), imported)
			return err
		})
	})
	command.Flags().StringVarP(&file, "file", "f", "", "file of the backup; - is standard input")
	_ = command.MarkFlagRequired("file") // fails for an unknown flag only
	return command
}
