package cli

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"portolan.dev/portolan/internal/printer"
	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// listAll returns all selected objects of a kind as their own type.
func listAll[T object.Object](ctx context.Context, registry *client.Client, kindName string, query client.Query) ([]T, error) {
	kind, _ := kinds.Named(kindName)
	found, _, err := registry.List(ctx, kind, query)
	if err != nil {
		return nil, err
	}
	all := make([]T, 0, len(found))
	for _, o := range found {
		if typed, ok := o.(T); ok {
			all = append(all, typed)
		}
	}
	return all, nil
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
