package cli

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	dnsv1 "portolan.dev/api/dns/v1"
	"portolan.dev/portolan/internal/workload"
	"portolan.dev/services/client"
	"portolan.dev/services/object"
	"portolan.dev/services/terminal"
)

func newDNS(flags *connection) *cobra.Command {
	command := &cobra.Command{
		Use:     "dns",
		Short:   "Ask the name server, and why it answers so",
		Example: "  portolan dns query web\n  portolan dns resolvconf -n shop\n  portolan dns system",
	}
	command.AddCommand(newDNSQuery(flags), newDNSResolvconf(flags), newDNSSystem())
	return command
}

func newDNSQuery(flags *connection) *cobra.Command {
	request := &dnsv1.QueryRequest{}
	api, why := "", false
	command := &cobra.Command{
		Use:   "query NAME [TYPE]",
		Short: "Answer a question as the name server would",
		Long: `query asks the name server's API. A name without a final dot is completed as programs of the namespace would have it. --explain says which
object the answer comes from, or why there is none. The exit code is 0 when there is an answer.`,
		Example: `  portolan dns query web
  portolan dns query _http._tcp.web.shop SRV --explain
  portolan dns query 10.0.96.10.in-addr.arpa. PTR`,
		Args: arguments(cobra.RangeArgs(1, 2), "NAME [TYPE]"),
		RunE: func(command *cobra.Command, args []string) error {
			request.Name, request.Type = args[0], "A"
			if len(args) > 1 {
				request.Type = strings.ToUpper(args[1])
			}
			return dnsQuery(command.Context(), command.OutOrStdout(), flags, api, request, why)
		},
	}
	command.Flags().StringVarP(&request.Namespace, "namespace", "n", object.DefaultNamespace, "namespace that short names belong to")
	command.Flags().BoolVar(&why, "explain", false, "say where the answer comes from, or why there is none")
	dnssvcPeer.register(command, &api)
	return command
}

func dnsQuery(ctx context.Context, out io.Writer, flags *connection, api string, request *dnsv1.QueryRequest, why bool) error {
	conn, err := flags.dialPeer(dnssvcPeer, api)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	answer, err := dnsv1.NewDNSServiceClient(conn).Query(ctx, request)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, terminal.Line(fmt.Sprintf("; %s %s: %s", answer.GetName(), request.GetType(), answer.GetRcode())))
	for _, section := range [][]string{answer.GetAnswer(), answer.GetAuthority(), answer.GetAdditional()} {
		for _, record := range section {
			_, _ = fmt.Fprintln(out, strings.ReplaceAll(record, "\n", `\n`)) // its columns are separated by tabs
		}
	}
	if why {
		for _, line := range answer.GetExplanation() {
			_, _ = fmt.Fprintln(out, "; "+terminal.Line(line))
		}
	}
	if len(answer.GetAnswer()) == 0 {
		return exitError{code: 1}
	}
	return nil
}

func newDNSResolvconf(flags *connection) *cobra.Command {
	namespace, server := "", ""
	command := &cobra.Command{
		Use:   "resolvconf",
		Short: "Print a resolver configuration for programs of a namespace",
		Long: `resolvconf prints a file for /etc/resolv.conf of a program's container or machine, by which the program finds services by their short names.
Resolvers ask port 53 only; the name server must listen there.`,
		Example: `  portolan dns resolvconf -n shop --nameserver 10.96.0.10`,
		Args:    arguments(cobra.NoArgs, "no arguments"),
		RunE: flags.withRegistry(func(command *cobra.Command, _ []string, registry *client.Client) error {
			settings, err := settingsOf(command.Context(), registry)
			if err != nil {
				return err
			}
			if _, err := netip.ParseAddr(server); err != nil {
				return usageError{fmt.Errorf("--nameserver %q is no address", server)}
			}
			names := workload.ResolverConfigFor([]string{server}, namespace, settings.GetZone(), nil)
			_, err = fmt.Fprint(command.OutOrStdout(), names.ResolvConf())
			return err
		}),
	}
	command.Flags().StringVarP(&namespace, "namespace", "n", object.DefaultNamespace, "namespace of the programs")
	command.Flags().StringVar(&server, "nameserver", "", "address of the name server")
	_ = command.MarkFlagRequired("nameserver")
	return command
}
