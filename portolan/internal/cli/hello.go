package cli

import (
	"cmp"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"portolan.dev/portolan/internal/helloserver"
)

// newHello returns the command of the examples' backend. It is hidden, because it is no tool for
// working with Portolan.
func newHello() *cobra.Command {
	options := helloserver.Options{}
	command := &cobra.Command{
		Use:     "hello",
		Short:   "Serve HTTP with the name of the backend in every answer: the backend of the examples",
		Example: `  portolan run -l app=hello --port http=8080 --ready-http 8080/healthz -- portolan hello`,
		Hidden:  true,
		Args:    arguments(cobra.NoArgs, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			return helloserver.Serve(command.Context(), options)
		},
	}
	command.Flags().StringSliceVar(&options.Addresses, "address", podAddresses(), "addresses to listen on (POD_IPS, POD_IP)")
	command.Flags().Uint16Var(&options.Port, "port", 8080, "port to listen on")
	command.Flags().StringVar(&options.Name, "name", cmp.Or(os.Getenv("POD_NAME"), "hello"), "name in the answers")
	return command
}

// podAddresses returns the addresses that "portolan run" gave to this program.
func podAddresses() []string {
	addresses := cmp.Or(os.Getenv("POD_IPS"), os.Getenv("POD_IP"))
	if addresses == "" {
		return nil
	}
	return strings.Split(addresses, ",")
}
