package cli

import (
	"cmp"

	"github.com/spf13/cobra"

	edgev1 "portolan.dev/api/edge/v1"
	"portolan.dev/portolan/internal/printer"
	"portolan.dev/services/object"
)

func newEdge(flags *connection) *cobra.Command {
	command := &cobra.Command{
		Use:     "edge",
		Short:   "Ask an edge, the proxy of load balancers, for its state",
		Example: "  portolan edge status\n  portolan edge status web -n shop --edge 10.0.0.7:7407",
	}
	command.AddCommand(newEdgeStatus(flags))
	return command
}

func newEdgeStatus(flags *connection) *cobra.Command {
	namespace, address, output := "", "", ""
	command := &cobra.Command{
		Use:   "status [SERVICE]",
		Short: "Show the ports of an edge, the backends that it uses, and its problems",
		Long: `status asks an edge for its ports: whether each is open, its connections, and each backend with the reason why it is not used. Without a
service it shows the ports of all services.`,
		Example: `  portolan edge status
  portolan edge status web -n shop
  portolan edge status --edge 10.0.0.7:7407 -o json`,
		Args: arguments(cobra.MaximumNArgs(1), "at most one SERVICE"),
		RunE: func(command *cobra.Command, args []string) error {
			request := &edgev1.GetStatusRequest{Namespace: namespace}
			if len(args) > 0 {
				request.Namespace, request.Name = cmp.Or(namespace, object.DefaultNamespace), args[0]
			}
			conn, err := flags.dialPeer(edgePeer, address)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			status, err := edgev1.NewEdgeServiceClient(conn).GetStatus(command.Context(), request)
			if err != nil {
				return err
			}
			return printMessage(command, status, output, printer.EdgeStatus)
		},
	}
	command.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the service (default: all, and "+object.DefaultNamespace+" for a service)")
	edgePeer.register(command, &address)
	registerOutput(command, &output, "text", "json", "yaml")
	return command
}
