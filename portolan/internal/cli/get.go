package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/client"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
)

// getOptions are the flags of get.
type getOptions struct {
	namespaceFlags
	labels string
	fields string
	output string
	watch  bool
}

func newGet(flags *connection) *cobra.Command {
	options, allocator := &getOptions{}, &allocatorFlags{connection: flags}
	command := &cobra.Command{
		Use:   "get KIND [NAME]",
		Short: "Show objects",
		Example: `  portolan get services
  portolan get svc web -o yaml
  portolan get pods -A -l app=web -o wide
  portolan get endpointslices -w                 # and every change from now on
  portolan get pools                             # of the allocator: virtual IPs, node ports and others, and how full they are
  portolan get lbrules web                       # what a firewall in front of a load balancer must let through`,
		Args:              arguments(cobra.RangeArgs(1, 2), "KIND [NAME]"),
		ValidArgsFunction: completeWithPools(completeTarget(flags, &options.namespaceFlags), allocator),
	}
	ofRegistry := flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
		return get(command.Context(), command, args, registry, allocator, options)
	})
	command.RunE = func(command *cobra.Command, args []string) error {
		switch name, ok, err := poolTarget(args); {
		case err != nil:
			return err
		case ok:
			return getPools(command, allocator, name, options)
		}
		return ofRegistry(command, args)
	}
	options.register(command, true)
	allocator.register(command)
	command.Flags().StringVarP(&options.labels, "selector", "l", "", "only objects with these labels, such as app=web,tier!=test")
	command.Flags().StringVar(&options.fields, "field-selector", "", "only objects with these fields, such as spec.type=NodePort")
	registerOutput(command, &options.output, "table", "wide", "yaml", "json", "name")
	command.Flags().BoolVarP(&options.watch, "watch", "w", false, "go on with every change")
	command.AddCommand(newLBRules(flags))
	return command
}

func get(ctx context.Context, command *cobra.Command, args []string, registry *client.Client, allocator *allocatorFlags, options *getOptions) error {
	what, err := parseTarget(args)
	if err != nil {
		return err
	}
	query := client.Query{Namespace: options.namespaceOf(what.kind), Labels: options.labels, Fields: options.fields}
	found, revision, err := find(ctx, registry, what, &query, options)
	if err != nil {
		return err
	}
	screen := newObjectPrinter(command, what, options)
	if options.output == "wide" && what.kind.Name == "Service" {
		screen.pools = allocator.balancerPools(ctx, found)
	}
	if err := screen.show(found); err != nil || !options.watch {
		return err
	}
	return follow(ctx, registry, query, revision, screen)
}

// find returns the selected objects, and the revision from which a watch continues.
func find(ctx context.Context, registry *client.Client, what objectRef, query *client.Query, options *getOptions) ([]object.Object, uint64, error) {
	if what.name == "" {
		return registry.List(ctx, what.kind, *query)
	}
	if options.all {
		return nil, 0, usageError{errors.New("a name belongs to one namespace; leave out -A or the name")}
	}
	if !options.watch {
		o, err := registry.Get(ctx, what.kind, options.namespaceOf(what.kind), what.name)
		if err != nil {
			return nil, 0, err
		}
		return []object.Object{o}, 0, nil
	}
	query.Fields = strings.Trim(query.Fields+",metadata.name="+what.name, ",")
	return registry.List(ctx, what.kind, *query)
}

// follow prints every change after a revision until the command is interrupted. A broken stream is
// resumed at its last revision.
func follow(ctx context.Context, registry *client.Client, query client.Query, revision uint64, printer *objectPrinter) error {
	for {
		var broken error
		for change, err := range registry.Watch(ctx, printer.target.kind, query, revision) {
			if err != nil {
				broken = err
				break
			}
			revision = change.Revision
			if change.Object == nil {
				continue
			}
			if err := printer.change(change); err != nil {
				return err
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case status.Code(broken) != codes.Unavailable:
			return broken
		}
		if !app.Pause(ctx, time.Second) {
			return nil
		}
	}
}
