package cli

import (
	"github.com/spf13/cobra"

	registrarv1 "portolan.dev/api/registrar/v1"
	"portolan.dev/portolan/internal/printer"
)

func newRegistrar(flags *connection) *cobra.Command {
	command := &cobra.Command{
		Use:     "registrar",
		Short:   "Ask the registrar of a node, which registers containers and units, for its state",
		Example: "  portolan registrar status\n  portolan registrar status --registrar 10.0.0.7:7408",
	}
	command.AddCommand(newRegistrarStatus(flags))
	return command
}

func newRegistrarStatus(flags *connection) *cobra.Command {
	address, output := "", ""
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the containers and units that a registrar sees, their pods, and their problems",
		Long: `status asks a registrar for its sources (docker, systemd): whether each answers, every container or unit that it sees with its service and
pod, and the problems: a label that cannot be read, a service without the port, a container without an address. It also shows the folder whose
manifests the registrar applies.`,
		Example: `  portolan registrar status
  portolan registrar status --registrar 10.0.0.7:7408 -o json`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			conn, err := flags.dialPeer(registrarPeer, address)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			status, err := registrarv1.NewRegistrarServiceClient(conn).GetStatus(command.Context(), &registrarv1.GetStatusRequest{})
			if err != nil {
				return err
			}
			return printMessage(command, status, output, printer.RegistrarStatus)
		},
	}
	registrarPeer.register(command, &address)
	registerOutput(command, &output, "text", "json", "yaml")
	return command
}
