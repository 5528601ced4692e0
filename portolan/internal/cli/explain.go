package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"portolan.dev/portolan/internal/explain"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/identity"
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
the name, and what every node has programmed. The exit code is 0 when the chain is whole.`,
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
	set.StringVarP(&options.output, "output", "o", "text", "text or json")
	set.StringVar(&options.allocator, "allocator", os.Getenv("PORTOLAN_ALLOCATOR"), "address of the allocator (PORTOLAN_ALLOCATOR; default: port 7401 of the registry's host)")
	set.StringVar(&options.endpoints, "endpointctl", os.Getenv("PORTOLAN_ENDPOINTCTL"), "address of the endpoint controller (PORTOLAN_ENDPOINTCTL; default: port 7402 of the registry's host)")
	set.StringVar(&options.dns, "dnssvc", os.Getenv("PORTOLAN_DNSSVC"), "address of the name server's API (PORTOLAN_DNSSVC; default: port 7403 of the registry's host)")
	return command
}

func runExplain(ctx context.Context, command *cobra.Command, flags *connection, registry *client.Client, name string, options *explainOptions) error {
	if !strings.Contains(" text json ", " "+options.output+" ") {
		return usageError{fmt.Errorf("output %q is not known; outputs are text, json", options.output)}
	}
	conns := make([]*grpc.ClientConn, 0, 3)
	defer func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}()
	for _, daemon := range []struct {
		role    identity.Role
		address string
		port    int
	}{
		{identity.Allocator, options.allocator, allocatorPort}, {identity.EndpointCtl, options.endpoints, endpointctlPort}, {identity.DNSSvc, options.dns, dnssvcPort},
	} {
		conn, err := flags.dial(flags.daemonAddress(daemon.address, daemon.port), daemon.role)
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
		encoder := json.NewEncoder(command.OutOrStdout())
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else {
		err = report.Write(command.OutOrStdout())
	}
	if err == nil && !report.Works {
		return exitError{code: 1}
	}
	return err
}
