package cli

import (
	"github.com/spf13/cobra"

	"portolan.dev/portolan/internal/manual"
)

// newMan returns the command for packagers. It is hidden, because users have man.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man FOLDER",
		Short:   "Write manual pages of this program and of the daemons",
		Example: "  portolan man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    arguments(cobra.ExactArgs(1), "FOLDER"),
		RunE: func(command *cobra.Command, args []string) error {
			return manual.Write(args[0], command.Root())
		},
	}
}
