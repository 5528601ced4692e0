package cli

import "github.com/spf13/cobra"

// newPause returns a command that holds a network namespace for the containers of a node while they
// are restarted. It is hidden, because it is no tool for working with Portolan.
func newPause() *cobra.Command {
	return &cobra.Command{
		Use:     "pause",
		Short:   "Do nothing until told to stop",
		Example: "  portolan pause",
		Hidden:  true,
		Args:    arguments(cobra.NoArgs, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			<-command.Context().Done()
			return nil
		},
	}
}
