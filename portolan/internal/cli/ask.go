package cli

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"portolan.dev/portolan/internal/loadclient"
)

// newAsk returns the command of the examples' client. It is hidden, as newHello is.
func newAsk() *cobra.Command {
	options := loadclient.Options{}
	command := &cobra.Command{
		Use:     "ask URL",
		Short:   "Ask a URL again and again and count the answers: the client of the examples",
		Example: `  portolan ask http://hello.default:8080/ --rate 50`,
		Hidden:  true,
		Args:    arguments(cobra.ExactArgs(1), "URL"),
		RunE: func(command *cobra.Command, args []string) error {
			options.URL = args[0]
			lines := json.NewEncoder(command.OutOrStdout())
			return loadclient.Run(command.Context(), options, func(r loadclient.Report) { _ = lines.Encode(r) })
		},
	}
	command.Flags().IntVar(&options.Rate, "rate", 20, "requests per second, each on a connection of its own")
	command.Flags().IntVar(&options.Tries, "tries", 1, "attempts at one request before it counts as failed")
	command.Flags().DurationVar(&options.Timeout, "attempt-timeout", 2*time.Second, "how long one attempt may take")
	command.Flags().DurationVar(&options.Report, "report", time.Second, "time between two reports, one line of JSON each")
	return command
}
