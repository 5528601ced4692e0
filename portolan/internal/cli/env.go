package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/client"
	"portolan.dev/services/object"
)

func newEnv(flags *connection) *cobra.Command {
	request := &registryv1.RenderEnvRequest{}
	links := true
	command := &cobra.Command{
		Use:   "env",
		Short: "Print the discovery variables of a namespace",
		Long: `env prints the variables that "portolan run" adds to a program's environment: NAME_SERVICE_HOST, NAME_SERVICE_PORT and the older link variables
of every service of the namespace that has a virtual IP.`,
		Example: `  portolan env
  export $(portolan env -n shop)`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: flags.withRegistry(func(command *cobra.Command, _ []string, registry *client.Client) error {
			request.EnableServiceLinks = &links
			response, err := registryv1.NewDiscoveryServiceClient(registry.Conn()).RenderEnv(command.Context(), request)
			if err != nil {
				return err
			}
			for _, warning := range response.GetWarnings() {
				_, _ = fmt.Fprintln(command.ErrOrStderr(), "warning:", warning)
			}
			for _, line := range response.GetLines() {
				_, _ = fmt.Fprintln(command.OutOrStdout(), line)
			}
			return nil
		}),
	}
	command.Flags().StringVarP(&request.Namespace, "namespace", "n", object.DefaultNamespace, "namespace")
	command.Flags().StringVarP(&request.LabelSelector, "selector", "l", "", "only services with these labels")
	command.Flags().BoolVar(&links, "service-links", true, "services of the namespace; false leaves default/kubernetes only")
	return command
}
