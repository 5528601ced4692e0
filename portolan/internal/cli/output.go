package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"portolan.dev/portolan/internal/printer"
)

// output is the value of the flag -o: one of the outputs of a command.
type output struct {
	chosen  *string
	outputs []string
}

// registerOutput registers the flag -o with the outputs of a command. The first one is the default.
func registerOutput(command *cobra.Command, chosen *string, outputs ...string) {
	*chosen = outputs[0]
	last := len(outputs) - 1
	command.Flags().VarP(&output{chosen, outputs}, "output", "o", strings.Join(outputs[:last], ", ")+" or "+outputs[last])
	_ = command.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(outputs, cobra.ShellCompDirectiveNoFileComp)) // fails for an unknown flag only
}

// String implements pflag.Value.
func (o *output) String() string { return *o.chosen }

// Type implements pflag.Value.
func (o *output) Type() string { return "string" }

// Set implements pflag.Value.
func (o *output) Set(text string) error {
	if !slices.Contains(o.outputs, text) {
		return fmt.Errorf("outputs are %s", strings.Join(o.outputs, ", "))
	}
	*o.chosen = text
	return nil
}

// printMessage prints a response of an API as text by the given function, or as JSON or YAML.
func printMessage[M proto.Message](command *cobra.Command, m M, format string, text func(io.Writer, M) error) error {
	if format == "text" {
		return text(command.OutOrStdout(), m)
	}
	return printer.Message(command.OutOrStdout(), m, format)
}

// writeJSON writes a value as indented JSON.
func writeJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
