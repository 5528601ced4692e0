package cli

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"portolan.dev/portolan/internal/dev"
)

func newDev() *cobra.Command {
	options := dev.Options{}
	var bind, dns, level string
	var services, pods, balancers string
	command := &cobra.Command{
		Use:   "dev",
		Short: "Run a whole installation in this process",
		Long: `dev runs every daemon in one process, on loopback, without root. All data is in one folder. It prints "portolan ready" when all daemons are ready.
Virtual IPs are loopback addresses, so only programs of this machine reach them. If you may not bind the port of a service, the service gets an
Event, and "portolan explain" shows the remedy.

Other users of the machine cannot use the installation: APIs and metrics answer only clients that send the token in the file "token" of the data
directory, which only your user can read. portolan finds it when it runs in the same folder as dev; elsewhere give --token-file or
PORTOLAN_TOKEN_FILE. Clients of Kubernetes find the API of Kubernetes, at port 7405, and the token in the file "kubeconfig" of the same directory:
kubectl --kubeconfig .portolan/kubeconfig get services. Services and names are open to all users of the machine, as every port on loopback is.

With IPv6 ranges beside those of IPv4 the installation is dual-stack. IPv6 has one loopback address only, so the ranges have to be made local
first, as root: ip -6 route add local fd00:7f60::/112 dev lo, the same for the pods, and sysctl -w net.ipv6.ip_nonlocal_bind=1.

With --docker, containers of this machine become backends: containers with the label portolan.service, and containers of compose projects under
the names of their compose files. See docs/docker.md.

On macOS every loopback address other than 127.0.0.1 has to be made first, so take small ranges: --service-cidr 127.96.0.0/27 --pod-cidr
127.64.0.0/27. dev prints the commands for the addresses that are missing.`,
		Example: `  portolan dev
  portolan dev --example examples/hello
  portolan dev --docker
  portolan dev --service-cidr 127.96.0.0/16,fd00:7f60::/112 --pod-cidr 127.64.0.0/16,fd00:7f64::/112
  portolan dev --data-dir /tmp/try --dns-addr 127.0.0.1:5353`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			parsed := map[string]*string{"--bind": &bind, "--service-cidr": &services, "--pod-cidr": &pods,
				"--load-balancer-cidr": &balancers, "--dns-addr": &dns, "--log-level": &level}
			if err := parseDev(&options, parsed); err != nil {
				return usageError{err}
			}
			return dev.Run(command.Context(), options, os.Stdout)
		},
	}
	set := command.Flags()
	set.StringVar(&options.DataDir, "data-dir", dev.DefaultDataDir, "folder of all data, and of the token that clients need")
	set.StringVar(&bind, "bind", "127.0.0.1", "address of the daemons: APIs on ports 7400-7408, metrics and health on 7500-7508")
	set.StringVar(&services, "service-cidr", "127.96.0.0/16", "range of virtual IPs, or one of each family: the first family is the default")
	set.StringVar(&pods, "pod-cidr", "127.64.0.0/16", "range of pod addresses, or one of each family")
	set.StringVar(&balancers, "load-balancer-cidr", "127.98.0.0/24", "range of the addresses of services of type LoadBalancer, or one of each family; empty: none")
	set.StringVar(&options.NodePortRange, "node-port-range", "30000-32767", "ports that services may have on the node")
	set.StringVar(&dns, "dns-addr", "127.0.0.1:7053", "where names are answered")
	set.StringVar(&options.Zone, "zone", "cluster.local", "DNS zone")
	set.StringVar(&options.Node, "node", "dev", "name of the node")
	set.StringVar(&options.Example, "example", "", "folder whose service.yaml is applied, with three backends")
	set.BoolVar(&options.Insecure, "insecure", false, "allow addresses that other machines reach, also in externalIPs, though dev has no TLS and the token crosses the network in clear text")
	set.StringVar(&options.Docker, "docker", "", "register the containers of a Docker engine, given by the path of its socket")
	set.Lookup("docker").NoOptDefVal = dev.DockerSocket
	set.StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	set.StringVar(&options.TraceEndpoint, "trace-endpoint", "", "host:port of an OpenTelemetry collector (OTLP over gRPC); empty: no traces")
	return command
}

// parseDev parses the flags that are not plain texts.
func parseDev(options *dev.Options, texts map[string]*string) (err error) {
	parse := func(flag string, read func(string) error) {
		if err == nil {
			if fault := read(*texts[flag]); fault != nil {
				err = fmt.Errorf("%s: %w", flag, fault)
			}
		}
	}
	parse("--bind", func(s string) (e error) { options.Bind, e = netip.ParseAddr(s); return })
	parse("--service-cidr", func(s string) (e error) { options.ServiceCIDR, e = parsePrefixes(s); return })
	parse("--pod-cidr", func(s string) (e error) { options.PodCIDR, e = parsePrefixes(s); return })
	parse("--load-balancer-cidr", func(s string) (e error) {
		if s != "" {
			options.BalancerCIDR, e = parsePrefixes(s)
		}
		return
	})
	parse("--dns-addr", func(s string) (e error) { options.DNSAddr, e = netip.ParseAddrPort(s); return })
	parse("--log-level", func(s string) error { return options.LogLevel.UnmarshalText([]byte(s)) })
	if err == nil {
		options.DataDir, err = filepath.Abs(options.DataDir)
	}
	return err
}

// parsePrefixes parses ranges separated by commas.
func parsePrefixes(text string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for one := range strings.SplitSeq(text, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		prefixes = append(prefixes, prefix)
	}
	return prefixes, nil
}
