package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"portolan.dev/portolan/internal/workload"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

func newRun(flags *connection) *cobra.Command {
	options := workload.Options{}
	var labels, nameservers []string
	allocator, dns := "", ""
	command := &cobra.Command{
		Use:   "run [-l KEY=VALUE,...] [flags] -- COMMAND [ARG...]",
		Short: "Run a program as a pod",
		Long: `run starts a program and registers it as a pod: with an address of its own in POD_IP, the discovery variables of its namespace, and a readiness
probe. It should listen on POD_IP; with pod ranges of both families, POD_IPS has both addresses. When it is stopped (Ctrl-C, SIGTERM) the pod first leaves its services, then the program is asked to stop;
when the program ends, the pod is gone. The exit code is the program's. Without labels the pod is behind no service: so a client gets its
environment.

Use a certificate of workload/NODE or workload/NODE/NAMESPACE: it writes pods of its own only, and of a folder with certificates of
several roles run takes the workload's. It allocates no addresses, so it needs
--pod-ip with an address of the node. The program gets no credential: of the variables PORTOLAN_… only addresses are passed on. While it runs,
run renews the workload's certificate at the registry and writes the new one in place of the old one.

As root the program also gets a resolv.conf of its own, by which it finds services by name, if the name server answers on port 53. Otherwise
LOCALDOMAIN and RES_OPTIONS have the search path, and the host's resolver has to know the zone: "portolan dns system" shows how.`,
		Example: `  portolan run -l app=web --port http=8080 -- ./server -listen :8080
  portolan run -l app=db --port db=5432 --ready-tcp db -- ./start-postgres.sh
  portolan run -l app=web --port web=8443 --ready "https://:web/healthz period=5s failures=2" -- ./server
  portolan run -- sh -c 'curl http://$WEB_SERVICE_HOST'            # a client, behind no service
  portolan run -l app=web --name web-1 --replace --pod-ip 10.0.0.7 --port http=8080 -- ./server
  portolan run -l app=web --port http=8080 --ready-http 8080/healthz -- sh -c 'exec ./server -listen $POD_IP:8080'`,
		Args: arguments(cobra.MinimumNArgs(1), "-- COMMAND [ARG...]"),
		PersistentPreRun: func(command *cobra.Command, _ []string) {
			flags.forPrograms = true
			flags.log = slog.New(slog.NewTextHandler(command.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			flags.setNamespace(command)
		},
		RunE: flags.withRegistry(func(command *cobra.Command, args []string, registry *client.Client) error {
			parsed, err := parseLabels(labels)
			if err != nil {
				return err
			}
			options.Labels, options.Command = parsed, args
			if err := asWorkload(flags, &options, command.Flags().Changed("namespace")); err != nil {
				return err
			}
			if options.Nameservers, err = flags.nameservers(command.Context(), nameservers, dns); err != nil {
				return err
			}
			return runWorkload(command.Context(), command, flags, registry, options, allocator)
		}),
	}
	set := command.Flags()
	set.StringVar(&options.Name, "name", "", "name of the pod (default: made from the program's)")
	set.StringVarP(&options.Namespace, "namespace", "n", object.DefaultNamespace, "namespace")
	set.StringSliceVarP(&labels, "labels", "l", nil, "labels, which services select by: app=web,tier=front")
	set.StringArrayVar(&options.Ports, "port", nil, "port that the program listens on, NAME=NUMBER[/PROTOCOL]; may be repeated")
	set.StringVar(&options.Ready, "ready", "", "when the program is ready: http://:PORT/PATH, https://…, tcp://:PORT, grpc://:PORT/SERVICE, exec:SCRIPT of the node agent's, or ttl:30s (see portolan check); options follow: \"tcp://:5432 period=5s timeout=2s failures=3 successes=1 delay=10s\"")
	set.StringVar(&options.ReadyTCP, "ready-tcp", "", "ready when this port, by number or name, accepts a connection")
	set.StringVar(&options.ReadyHTTP, "ready-http", "", "ready when GET answers 200-399: PORT/PATH")
	set.StringVar(&options.ReadyGRPC, "ready-grpc", "", "ready when the gRPC health service on this port says so")
	set.StringVar(&options.Node, "node", "", "node that the program runs on (default: the only node, or the node with the name of this machine)")
	set.StringSliceVar(&options.Addresses, "pod-ip", nil, "address that the program has anyway, as in a container, one per family; none is allocated then")
	set.BoolVar(&options.Replace, "replace", false, "take the place of a pod of the same --name that an earlier run has left behind")
	set.StringVar(&options.Hostname, "hostname", "", "name in DNS below the service named by --subdomain")
	set.StringVar(&options.Subdomain, "subdomain", "", "headless service that publishes --hostname")
	set.DurationVar(&options.DrainDelay, "drain-delay", 500*time.Millisecond, "time between leaving the services and asking the program to stop")
	set.DurationVar(&options.Grace, "grace", 30*time.Second, "time between asking the program to stop and killing it")
	set.BoolVar(&options.ServiceLinks, "service-links", true, "services of the namespace in the environment")
	set.StringSliceVar(&nameservers, "nameserver", nil, "addresses for the program's resolv.conf, which answer on port 53; none: the host's (default: the name server's)")
	dnssvcPeer.register(command, &dns)
	allocatorPeer.register(command, &allocator)
	return command
}

// asWorkload completes the options from the caller's certificate, if it is a workload's.
func asWorkload(flags *connection, options *workload.Options, namespaceGiven bool) error {
	source, err := flags.identity()
	if err != nil || source == nil || source.ID().Role != identity.Workload {
		return err
	}
	id := source.ID()
	options.Identity, options.Node = id.Path(), cmp.Or(options.Node, id.Name)
	if !namespaceGiven {
		options.Namespace = cmp.Or(id.Namespace, options.Namespace)
	}
	if len(options.Addresses) == 0 {
		return usageError{fmt.Errorf("%s may not allocate addresses: name an address of the node with --pod-ip", id.Path())}
	}
	return nil
}

func runWorkload(ctx context.Context, command *cobra.Command, flags *connection, registry *client.Client, options workload.Options, allocator string) error {
	conn, err := flags.dialPeer(allocatorPeer, allocator)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runner := &workload.Runner{
		Self: self, Registry: registry.Conn(), Allocator: conn, Options: options,
		In: command.InOrStdin(), Out: command.OutOrStdout(), ErrOut: command.ErrOrStderr(),
	}
	stop, err := flags.keepRenewed(ctx, registry.Conn())
	if err != nil {
		return err
	}
	defer stop()
	err = runner.Run(ctx)
	var exit workload.ErrExit
	if errors.As(err, &exit) {
		_, _ = fmt.Fprintln(command.ErrOrStderr(), exit)
		return exitError{code: exit.Code}
	}
	return err
}

func parseLabels(texts []string) (map[string]string, error) {
	labels := make(map[string]string, len(texts))
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("label %q: want KEY=VALUE", text)}
		}
		labels[key] = value
	}
	return labels, nil
}
