package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/obs"
)

func newVersion(flags *connection) *cobra.Command {
	clientOnly := false
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of this program and of the registry",
		Args:  arguments(cobra.NoArgs, "no arguments"),
		RunE: flags.withRegistry(func(command *cobra.Command, _ []string, registry *client.Client) error {
			out := command.OutOrStdout()
			_, _ = fmt.Fprintln(out, "portolan", obs.Version())
			if clientOnly {
				return nil
			}
			settings, err := settingsOf(command.Context(), registry)
			if err != nil {
				return fmt.Errorf("registry at %s: %w", flags.server, err)
			}
			_, _ = fmt.Fprintf(out, "registry %s (%s store)\n", settings.GetVersion(), settings.GetStore())
			return nil
		}),
	}
	command.Flags().BoolVar(&clientOnly, "client", false, "this program's only")
	return command
}

func settingsOf(ctx context.Context, registry *client.Client) (*registryv1.GetSettingsResponse, error) {
	return registryv1.NewDiscoveryServiceClient(registry.Conn()).GetSettings(ctx, &registryv1.GetSettingsRequest{})
}
