package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"portolan.dev/portolan/internal/explain"
	"portolan.dev/services/client"
	"portolan.dev/services/object"
)

// explainOptions are the flags of explain.
type explainOptions struct {
	namespace, output         string
	allocator, endpoints, dns string
}

func newExplain(flags *connection) *cobra.Command {
	options := &explainOptions{}
	command := &cobra.Command{
		Use:   "explain service NAME",
		Short: "Follow a service from selector to kernel, and say where the chain breaks",
		Long: `explain asks each daemon for its part: which pods are behind the service and why the others are not, the endpoint slices, the virtual IP,
the name, and what every node has programmed. The exit code is 0 when no link is broken.
It makes no connection, so it does not notice a program that does not listen at its target port.`,
		Example: `  portolan explain service web
  portolan explain svc web -n shop -o json`,
		Args: arguments(cobra.RangeArgs(1, 2), "service NAME"),
		RunE: flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
			what, err := parseTarget(args)
			if err != nil {
				return err
			}
			if what.kind.Name != "Service" || what.name == "" {
				return usageError{errors.New("say which service: explain service NAME")}
			}
			return runExplain(command.Context(), command, flags, registry, what.name, options)
		}),
	}
	set := command.Flags()
	set.StringVarP(&options.namespace, "namespace", "n", object.DefaultNamespace, "namespace")
	registerOutput(command, &options.output, "text", "json")
	allocatorPeer.register(command, &options.allocator)
	endpointctlPeer.register(command, &options.endpoints)
	dnssvcPeer.register(command, &options.dns)
	return command
}

func runExplain(ctx context.Context, command *cobra.Command, flags *connection, registry *client.Client, name string, options *explainOptions) error {
	conns := make([]*grpc.ClientConn, 0, 3)
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	for _, daemon := range []struct {
		peer    peer
		address string
	}{{allocatorPeer, options.allocator}, {endpointctlPeer, options.endpoints}, {dnssvcPeer, options.dns}} {
		conn, err := flags.dialPeer(daemon.peer, daemon.address)
		if err != nil {
			return err
		}
		conns = append(conns, conn)
	}
	report, err := explain.Service(ctx, explain.Daemons{
		Registry: registry.Conn(), Allocator: conns[0], Endpoints: conns[1], DNS: conns[2], Dial: flags.dialAgent,
	}, options.namespace, name)
	if err != nil {
		return err
	}
	if options.output == "json" {
		err = writeJSON(command.OutOrStdout(), report)
	} else {
		err = report.Write(command.OutOrStdout())
	}
	if err == nil && !report.Works {
		return exitError{code: 1}
	}
	return err
}
