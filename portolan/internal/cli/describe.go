package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/internal/printer"
	"portolan.dev/portolan/internal/rollout"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
	"portolan.dev/services/terminal"
)

func newDescribe(flags *connection) *cobra.Command {
	namespace, allocator := &namespaceFlags{}, &allocatorFlags{connection: flags}
	command := &cobra.Command{
		Use:   "describe KIND NAME",
		Short: "Show an object in words, with its events",
		Example: `  portolan describe service web
  portolan describe node n1
  portolan describe pool service-ipv4`,
		Args:              arguments(cobra.RangeArgs(1, 2), "KIND NAME"),
		ValidArgsFunction: completeWithPools(completeTarget(flags, namespace), allocator),
	}
	ofRegistry := flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
		what, err := parseTarget(args)
		if err != nil {
			return err
		}
		if what.name == "" {
			return usageError{errors.New("say which one: KIND NAME")}
		}
		return describe(command.Context(), command, allocator, registry, what, namespace.namespaceOf(what.kind))
	})
	command.RunE = func(command *cobra.Command, args []string) error {
		switch name, ok, err := poolTarget(args); {
		case err != nil:
			return err
		case ok && name == "":
			return usageError{errors.New("say which one: pool NAME")}
		case ok:
			return describePool(command, allocator, name)
		}
		return ofRegistry(command, args)
	}
	namespace.register(command, false)
	allocator.register(command)
	return command
}

func describe(ctx context.Context, command *cobra.Command, allocator *allocatorFlags, registry *client.Client, what objectRef, namespace string) error {
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
	return printer.Describe(command.OutOrStdout(), o, printer.Related{
		Slices: slices, Nodes: nodesOf(ctx, allocator.connection, registry, o, slices), Events: events,
		Pools: allocator.balancerPools(ctx, []object.Object{o}), Now: time.Now(),
	})
}

// maxNodes bounds the number of listed nodes with obstacles.
const maxNodes = 10

// nodesOf returns the nodes on which a service is programmed, and the obstacles on the others. It
// returns nil for other objects and for services without anything to program. Its failures are
// reported in the same place, because the description of the object itself is more important.
func nodesOf(ctx context.Context, flags *connection, registry *client.Client, o object.Object, slices []*corev1.EndpointSlice) []string {
	service, ok := o.(*corev1.Service)
	if !ok || service.GetSpec().GetType() == corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME || object.IsHeadless(service) {
		return nil
	}
	if label := spec.ForeignProxy(service.GetMetadata().GetLabels()); label != "" {
		return []string{"none: the label " + label + " leaves the service to another proxy"}
	}
	question := rollout.Query{
		Namespace: o.GetMetadata().GetNamespace(), Name: o.GetMetadata().GetName(), Revision: rollout.Revision(service, slices), Dial: flags.dialAgent,
	}
	progress, err := rollout.GetProgress(ctx, registry, question)
	if err != nil {
		return []string{"unknown: " + apierr.Describe(err)}
	}
	progress.Explain(ctx, question, maxNodes)
	return append([]string{progress.String()}, missingLines(progress)...)
}

// missingLines returns the obstacles on the nodes where a service is not programmed.
func missingLines(progress rollout.Progress) []string {
	var lines []string
	for i, node := range progress.Missing() {
		if i == maxNodes {
			return append(lines, fmt.Sprintf("and %d more", len(progress.Missing())-maxNodes))
		}
		lines = append(lines, terminal.Line(fmt.Sprintf("%s: %s: %s", node.Name, node.State, node.Reason)))
	}
	return lines
}

// slicesOf returns the endpoint slices of a service, and none for other objects.
func slicesOf(ctx context.Context, registry *client.Client, o object.Object) ([]*corev1.EndpointSlice, error) {
	if _, ok := o.(*corev1.Service); !ok {
		return nil, nil
	}
	return client.ListOf[*corev1.EndpointSlice](ctx, registry, client.Query{
		Namespace: o.GetMetadata().GetNamespace(),
		Labels:    object.LabelServiceName + "=" + o.GetMetadata().GetName(),
	})
}
