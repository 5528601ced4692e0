package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/portolan/internal/lbrules"
	"portolan.dev/portolan/internal/printer"
	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
	"portolan.dev/services/terminal"
)

// lbrulesOptions are the flags of get lbrules.
type lbrulesOptions struct {
	namespaceFlags
	labels   string
	output   string
	networks []string
}

// newLBRules returns a command below get, because it has flags and help of its own.
func newLBRules(flags *connection) *cobra.Command {
	options := &lbrulesOptions{}
	command := &cobra.Command{
		Use:     "lbrules [SERVICE...]",
		Aliases: []string{"lbrule"},
		Short:   "Show the firewall rules that services of type LoadBalancer need at their edges",
		Long: `lbrules computes the rules of a firewall in front of the nodes from the present state of the services:

  health  checks of the load balancer: TCP to the node ports, or to the health check node port with externalTrafficPolicy Local
  client  the traffic of clients, from spec.loadBalancerSourceRanges: to the node ports, and to addresses that nodes or edges serve
  mtu     messages that a packet is too big: ICMP type 3 code 4, ICMPv6 type 2 code 0

Health checks are allowed from the networks of --lb-networks, by default from the nodes' own addresses, or from the networks of clients if no
addresses of nodes are known. The rules to "nodes" can be left out if clients reach the nodes only by addresses that nodes or edges serve, such as
the addresses of the built-in providers, and no other load balancer is in front of them.`,
		Example: `  portolan get lbrules
  portolan get lbrules web api -n shop
  portolan get lbrules -A -o json
  portolan get lbrules web --lb-networks 192.0.2.0/28,2001:db8:1::/64`,
		Args: arguments(cobra.ArbitraryArgs, "[SERVICE...]"),
		ValidArgsFunction: func(command *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			names := objectNames(command, flags, &options.namespaceFlags, "services")
			return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(command *cobra.Command, args []string) error {
			balancers, err := options.check(args)
			if err != nil {
				return usageError{err}
			}
			return flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
				return getLBRules(command, args, registry, options, balancers)
			})(command, args)
		},
	}
	options.register(command, true)
	command.Flags().StringVarP(&options.labels, "selector", "l", "", "only services with these labels")
	registerOutput(command, &options.output, "table", "yaml", "json")
	command.Flags().StringSliceVar(&options.networks, "lb-networks", nil, "networks from which load balancers check the nodes, comma separated; default: the addresses of the nodes")
	return command
}

// check checks flags, and returns the networks of the load balancers; nil: not given.
func (o *lbrulesOptions) check(names []string) (balancers []netip.Prefix, err error) {
	switch {
	case len(names) > 0 && o.all:
		return nil, errors.New("a name belongs to one namespace; leave out -A or the names")
	case len(names) > 0 && o.labels != "":
		return nil, errors.New("give names or -l SELECTOR, not both")
	}
	for _, text := range o.networks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--lb-networks: %q is no network, such as 192.0.2.0/28", text)
		}
		balancers = append(balancers, network.Masked())
	}
	return lbrules.Join(balancers), nil
}

func getLBRules(command *cobra.Command, names []string, registry *client.Client, options *lbrulesOptions, balancers []netip.Prefix) error {
	services, err := balancerServices(command.Context(), registry, names, options)
	if err != nil {
		return err
	}
	if balancers == nil {
		nodes, err := client.ListOf[*corev1.Node](command.Context(), registry, client.Query{})
		if err != nil && apierr.Code(err) != codes.PermissionDenied { // a certificate that is bound to a namespace may not list nodes
			return err
		}
		balancers = lbrules.NodeNetworks(nodes)
	}
	rules := []lbrules.Rule{} // an empty list in JSON
	for _, svc := range services {
		of := lbrules.Of(svc, balancers)
		if len(of) == 0 {
			_, _ = fmt.Fprintln(command.ErrOrStderr(), terminal.Line(noRules(svc)))
		}
		rules = append(rules, of...)
	}
	if options.output != "table" {
		return writeRules(command.OutOrStdout(), rules, options.output)
	}
	if len(services) == 0 {
		where := ""
		if !options.all {
			where = " in namespace " + options.namespace
		}
		_, _ = fmt.Fprintf(command.ErrOrStderr(), "No services of type LoadBalancer found%s.\n", where)
	}
	if len(rules) == 0 {
		return nil
	}
	return printer.LBRules(command.OutOrStdout(), rules, options.all)
}

// noRules returns the reason why a service needs no rules.
func noRules(svc *corev1.Service) string {
	text := fmt.Sprintf("Service %s needs no rules yet, because it has neither node ports nor an address that nodes or edges serve", object.NameOf(svc))
	if why := spec.PendingLoadBalancer(svc); why != "" {
		text += ": " + why
	}
	return text
}

// balancerServices returns the selected services of type LoadBalancer, ordered by name. A service of
// another type is left out, or is an error if the user has named it.
func balancerServices(ctx context.Context, registry *client.Client, names []string, options *lbrulesOptions) ([]*corev1.Service, error) {
	kind, _ := kinds.Named("services")
	if len(names) == 0 {
		all, err := client.ListOf[*corev1.Service](ctx, registry, client.Query{Namespace: options.namespaceOf(kind), Labels: options.labels})
		return slices.DeleteFunc(all, func(svc *corev1.Service) bool { return !spec.IsLoadBalancer(svc) }), err
	}
	var services []*corev1.Service
	for _, name := range names {
		o, err := registry.Get(ctx, kind, options.namespace, name)
		if err != nil {
			return nil, err
		}
		svc, _ := o.(*corev1.Service)
		if !spec.IsLoadBalancer(svc) {
			return nil, fmt.Errorf("service %s/%s is of type %s: only services of type LoadBalancer need these rules", options.namespace, name, spec.EnumName(svc.GetSpec().GetType()))
		}
		services = append(services, svc)
	}
	return services, nil
}

func writeRules(out io.Writer, rules []lbrules.Rule, format string) error {
	content, err := json.MarshalIndent(rules, "", "  ")
	if err == nil && format == "yaml" {
		content, err = yaml.JSONToYAML(content)
	}
	if err != nil {
		return err
	}
	_, err = out.Write(append(bytes.TrimRight(content, "\n"), '\n'))
	return err
}
