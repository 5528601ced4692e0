package cli

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"portolan.dev/portolan/internal/client"
	"portolan.dev/portolan/internal/printer"
	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/object"
)

func newDescribe(flags *connection) *cobra.Command {
	namespace := &namespaceFlags{}
	command := &cobra.Command{
		Use:   "describe KIND NAME",
		Short: "Show an object in words, with what happened to it",
		Example: `  portolan describe service web
  portolan describe node n1`,
		Args:              arguments(cobra.RangeArgs(1, 2), "KIND NAME"),
		ValidArgsFunction: completeTarget(flags, namespace),
		RunE: flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
			what, err := parseTarget(args)
			if err != nil {
				return err
			}
			if what.name == "" {
				return usageError{errors.New("say which one: KIND NAME")}
			}
			return describe(command.Context(), command, registry, what, namespace.namespaceOf(what.kind))
		}),
	}
	namespace.register(command, false)
	return command
}

func describe(ctx context.Context, command *cobra.Command, registry *client.Client, what target, namespace string) error {
	o, err := registry.Get(ctx, what.kind, namespace, what.name)
	if err != nil {
		return err
	}
	events, err := registry.Events(ctx, object.KeyOf(o))
	if err != nil {
		return err
	}
	slices, err := slicesOf(ctx, registry, o)
	if err != nil {
		return err
	}
	return printer.Describe(command.OutOrStdout(), o, printer.Related{Slices: slices, Events: events, Now: time.Now()})
}

// slicesOf returns the endpoint slices of a service; other objects have none.
func slicesOf(ctx context.Context, registry *client.Client, o object.Object) ([]*corev1.EndpointSlice, error) {
	if _, ok := o.(*corev1.Service); !ok {
		return nil, nil
	}
	kind, _ := object.KindNamed("EndpointSlice")
	found, _, err := registry.List(ctx, kind, client.Query{
		Namespace: o.GetMetadata().GetNamespace(),
		Labels:    "kubernetes.io/service-name=" + o.GetMetadata().GetName(),
	})
	if err != nil {
		return nil, err
	}
	slices := make([]*corev1.EndpointSlice, 0, len(found))
	for _, item := range found {
		if slice, ok := item.(*corev1.EndpointSlice); ok {
			slices = append(slices, slice)
		}
	}
	return slices, nil
}
