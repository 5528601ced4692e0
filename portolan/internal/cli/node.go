package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/internal/printer"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/nearest"
	"portolan.dev/services/object"
	"portolan.dev/services/terminal"
)

func newNode(flags *connection) *cobra.Command {
	command := &cobra.Command{
		Use:   "node",
		Short: "Ask node agents for their state, and tell them to drain or to repair",
		Example: `  portolan node status
  portolan node plan n1 web
  portolan node drain n1`,
	}
	command.AddCommand(newNodeStatus(flags), newNodePlan(flags), newNodeResync(flags), newNodeDrain(flags, true), newNodeDrain(flags, false))
	return command
}

// agentFlags are the flags of commands that speak to one agent.
type agentFlags struct {
	*connection
	output, agent string
}

func (f *agentFlags) register(command *cobra.Command) {
	registerOutput(command, &f.output, "text", "json", "yaml")
	command.Flags().StringVar(&f.agent, "agent", "", "address of the agent's API (default: as the node reports it)")
}

// command completes a command that asks one agent. Its first argument is NODE.
func (f *agentFlags) command(command *cobra.Command, args cobra.PositionalArgs, usage string,
	ask func(ctx context.Context, agent nodeagentv1.NodeAgentServiceClient, args []string) (proto.Message, error), text func(*cobra.Command, proto.Message) error,
) *cobra.Command {
	f.register(command)
	command.Args = arguments(args, usage)
	command.ValidArgsFunction = completeNodes(f.connection)
	command.RunE = f.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
		answer, err := f.ask(command.Context(), registry, args, ask)
		if err != nil {
			return err
		}
		if f.output != "text" {
			return printer.Message(command.OutOrStdout(), answer, f.output)
		}
		return text(command, answer)
	})
	return command
}

func (f *agentFlags) ask(ctx context.Context, registry *client.Client, args []string,
	ask func(context.Context, nodeagentv1.NodeAgentServiceClient, []string) (proto.Message, error),
) (proto.Message, error) {
	where, err := locate(ctx, registry, args[0])
	if err != nil {
		return nil, err
	}
	if f.agent != "" {
		where.address = f.agent
	}
	return f.askAgent(args[0], where, func(agent nodeagentv1.NodeAgentServiceClient) (proto.Message, error) {
		return ask(ctx, agent, args[1:])
	})
}

// askAgent asks the agent of a node at a known address.
func (c *connection) askAgent(node string, where agentAddress, ask func(nodeagentv1.NodeAgentServiceClient) (proto.Message, error)) (proto.Message, error) {
	if where.address == "" {
		return nil, fmt.Errorf("node %s has no agent address: give --agent HOST:PORT", node)
	}
	conn, err := c.dialAgent(node, where.address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	answer, err := ask(nodeagentv1.NewNodeAgentServiceClient(conn))
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		return nil, fmt.Errorf("the agent of node %s at %s does not answer (%s): %s; is it running, and can it be reached from here? Its -addr and -advertise-addr say where it listens",
			node, where.address, where.lastHeartbeat, apierr.Describe(err))
	}
	return answer, err
}

// agentAddress is the address of an agent.
type agentAddress struct {
	address       string // empty: unknown
	lastHeartbeat string // when its last heartbeat arrived
}

// locate returns the address of a node's agent by its last heartbeat, or else by its Node.
func locate(ctx context.Context, registry *client.Client, node string) (agentAddress, error) {
	listed, err := registryv1.NewAgentServiceClient(registry.Conn()).ListAgents(ctx, &registryv1.ListAgentsRequest{})
	if err != nil {
		return agentAddress{}, err
	}
	var names []string
	for _, agent := range listed.GetAgents() {
		beat := agent.GetHeartbeat()
		if beat.GetNode() == node {
			return agentAddress{beat.GetAddress(), fmt.Sprintf("last heard of %.0f s ago", agent.GetAgeSeconds())}, nil
		}
		names = append(names, beat.GetNode())
	}
	nodes, err := client.ListOf[*corev1.Node](ctx, registry, client.Query{})
	if err != nil {
		return agentAddress{}, err
	}
	for _, n := range nodes {
		if n.GetMetadata().GetName() == node {
			return agentAddress{n.GetStatus().GetAgentAddress(), "not heard of since the registry started"}, nil
		}
		names = append(names, n.GetMetadata().GetName())
	}
	message := fmt.Sprintf("node %q is not known", node)
	if near := nearest.Name(node, names); near != "" {
		message += fmt.Sprintf("; did you mean %s?", near)
	}
	return agentAddress{}, errors.New(message + " See: portolan node status")
}

// completeNodes completes the names of nodes, then of services.
func completeNodes(flags *connection) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return objectNames(command, flags, &namespaceFlags{}, "nodes"), cobra.ShellCompDirectiveNoFileComp
	}
}

func newNodeStatus(flags *connection) *cobra.Command {
	f := &agentFlags{connection: flags}
	one := f.command(&cobra.Command{
		Use:   "status [NODE]",
		Short: "Show how a node agent is, or all of them by their heartbeats",
		Long: `status NODE asks the agent of a node for the revision that it has applied, its failures and their remedies. Without a node it lists the last
heartbeats of all agents, which the registry has.`,
		Example: `  portolan node status
  portolan node status n1
  portolan node status n1 -o yaml`,
	}, cobra.MaximumNArgs(1), "at most one NODE",
		func(ctx context.Context, agent nodeagentv1.NodeAgentServiceClient, _ []string) (proto.Message, error) {
			return agent.GetStatus(ctx, &nodeagentv1.GetStatusRequest{})
		},
		func(command *cobra.Command, answer proto.Message) error {
			status, _ := answer.(*nodeagentv1.GetStatusResponse)
			return printer.AgentStatus(command.OutOrStdout(), status)
		})
	ofOne := one.RunE
	ofAll := flags.withRegistry(func(command *cobra.Command, _ []string, registry *client.Client) error {
		return statusOfAll(command, registry, f.output)
	})
	one.RunE = func(command *cobra.Command, args []string) error {
		if len(args) > 0 {
			return ofOne(command, args)
		}
		return ofAll(command, args)
	}
	return one
}

func statusOfAll(command *cobra.Command, registry *client.Client, output string) error {
	listed, err := registryv1.NewAgentServiceClient(registry.Conn()).ListAgents(command.Context(), &registryv1.ListAgentsRequest{})
	switch {
	case err != nil:
		return err
	case output != "text":
		return printer.Message(command.OutOrStdout(), listed, output)
	case len(listed.GetAgents()) == 0:
		_, _ = fmt.Fprintln(command.ErrOrStderr(), "No node agent has been heard of.")
		return nil
	}
	return printer.Agents(command.OutOrStdout(), listed)
}

func newNodePlan(flags *connection) *cobra.Command {
	f, namespace := &agentFlags{connection: flags}, ""
	command := f.command(&cobra.Command{
		Use:   "plan NODE [SERVICE]",
		Short: "Show the next steps of a node, or how it forwards a service, and why",
		Long: `plan NODE reads the state of the node's kernel anew, compares it with the plan, and lists the steps that are missing, each with the reason why it
is not done. It changes nothing. plan NODE SERVICE shows the virtual servers of a service, each backend with the reason why it is used or not, and
the steps that are pending for it.`,
		Example: `  portolan node plan n1
  portolan node plan n1 web -n shop
  portolan node plan n1 web -o json`,
	}, cobra.RangeArgs(1, 2), "NODE [SERVICE]",
		func(ctx context.Context, agent nodeagentv1.NodeAgentServiceClient, args []string) (proto.Message, error) {
			request := &nodeagentv1.GetPlanRequest{PendingOnly: true}
			if len(args) > 0 {
				request = &nodeagentv1.GetPlanRequest{Namespace: namespace, Name: args[0]}
			}
			return agent.GetPlan(ctx, request)
		},
		func(command *cobra.Command, answer proto.Message) error {
			plan, _ := answer.(*nodeagentv1.GetPlanResponse)
			return printer.Plan(command.OutOrStdout(), plan)
		})
	command.Flags().StringVarP(&namespace, "namespace", "n", object.DefaultNamespace, "namespace of the service")
	return command
}

func newNodeResync(flags *connection) *cobra.Command {
	f := &agentFlags{connection: flags}
	return f.command(&cobra.Command{
		Use:   "resync NODE",
		Short: "Compare a node's objects with the registry and its kernel with the plan now, and repair the differences",
		Example: `  portolan node plan n1       # what a resync would do
  portolan node resync n1`,
	}, cobra.ExactArgs(1), "NODE",
		func(ctx context.Context, agent nodeagentv1.NodeAgentServiceClient, _ []string) (proto.Message, error) {
			return agent.Resync(ctx, &nodeagentv1.ResyncRequest{})
		},
		func(command *cobra.Command, answer proto.Message) error {
			out := command.OutOrStdout()
			resync, _ := answer.(*nodeagentv1.ResyncResponse)
			if resync.GetNotCompared() != "" {
				_, _ = fmt.Fprintln(out, "the agent could not compare its objects with the registry: "+terminal.Line(resync.GetNotCompared()))
			}
			if n := resync.GetObjectsCorrected(); n > 0 {
				_, _ = fmt.Fprintf(out, "%d objects were not as the registry has them, and are now; portolan node status says more\n", n)
			}
			if resync.GetRepaired() == 0 {
				if resync.GetObjectsCorrected() > 0 {
					return nil
				}
				_, err := fmt.Fprintln(out, "nothing to repair")
				return err
			}
			_, err := fmt.Fprintf(out, "%d differences repaired:\n", resync.GetRepaired())
			for _, difference := range slices.Sorted(slices.Values(resync.GetDifferences())) {
				_, _ = fmt.Fprintln(out, "  "+terminal.Line(difference))
			}
			return err
		})
}

func newNodeDrain(flags *connection, drain bool) *cobra.Command {
	f := &agentFlags{connection: flags}
	command := &cobra.Command{
		Use:   "drain NODE",
		Short: "Make load balancers leave a node, before it is worked on",
		Long: `drain makes the node's health checks fail, for services and at /healthz, so that load balancers send no new clients. The node goes on forwarding,
and connections stay. undrain, or a restart of the agent, ends the draining.`,
		Example: "  portolan node drain n1",
	}
	if !drain {
		command = &cobra.Command{
			Use:     "undrain NODE",
			Short:   "Let load balancers use a node again",
			Example: "  portolan node undrain n1",
		}
	}
	return f.command(command, cobra.ExactArgs(1), "NODE",
		func(ctx context.Context, agent nodeagentv1.NodeAgentServiceClient, _ []string) (proto.Message, error) {
			return agent.SetDraining(ctx, &nodeagentv1.SetDrainingRequest{Draining: drain})
		},
		func(command *cobra.Command, answer proto.Message) error {
			text := "the node does not drain: its health checks answer as its backends are"
			if set, _ := answer.(*nodeagentv1.SetDrainingResponse); set.GetDraining() {
				text = "the node drains: its health checks fail, what it forwards goes on"
			}
			_, err := fmt.Fprintln(command.OutOrStdout(), text)
			return err
		})
}
