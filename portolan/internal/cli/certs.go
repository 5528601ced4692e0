package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// certsFlags are the flags that all commands about certificates share.
type certsFlags struct {
	output string
	force  bool
	// lifetime is the lifetime of new certificates; 0: the default of their role.
	lifetime lifetime
	hosts    []string
}

func newCerts(flags *connection) *cobra.Command {
	command := &cobra.Command{
		Use:   "certs",
		Short: "Make and renew the certificates of an installation",
		Long: `certs keeps a folder with a certificate authority and its certificates. The URI SAN of a certificate names its role. Each daemon has a role, such
as spiffe://portolan/registry, spiffe://portolan/nodeagent/n1 or spiffe://portolan/registrar/n1/shop. People have the role operator or viewer.
Programs that read metrics, such as Prometheus, have the role monitor. The key of the authority, ca.key, is needed here only: leave it out when
you copy certificates to machines.

Certificates of daemons, workloads, monitors and people are good for 24 hours. Daemons and "portolan run" renew their own at a
registry, which needs issuer.crt and issuer.key for that (-issuer-cert, -issuer-key). The issuer is trusted for the roles of daemons, workloads
and monitors only, so it makes no operators. In the folder with ca.key the command line renews its own certificate. Other people need a new
certificate every day, or a longer --lifetime. Certificates of NATS and Postgres servers are good for 90 days: run "portolan certs renew" every
day, and copy them.`,
		Example: "  portolan certs init --node n1 --node n2\n  portolan certs issue nodeagent/n3\n  portolan certs renew",
	}
	command.AddCommand(newCertsInit(flags), newCertsIssue(flags), newCertsRenew(flags), newCertsIssuer(flags), newCertsNATS(flags), newCertsProvision(flags))
	command.AddCommand(newCertsList(flags), newCertsRevoke(flags))
	return command
}

// register adds the flags of a command that writes certificates.
func (f *certsFlags) register(command *cobra.Command, force string) {
	registerOutput(command, &f.output, "table", "json")
	command.Flags().BoolVar(&f.force, "force", false, force)
}

// folderOf returns the folder of the certificates: the folder of --certs, which other commands use
// to find their own certificate, or certs.
func folderOf(flags *connection) string { return cmp.Or(flags.certs, "certs") }

func (f *certsFlags) registerIssue(command *cobra.Command, hosts string) {
	command.Flags().Var(&f.lifetime, "lifetime", "time that a certificate is good for, such as 24h or 90d (default: 24h, and 90d for NATS and Postgres or if there is no issuer)")
	command.Flags().StringArrayVar(&f.hosts, "host", nil, hosts)
}

// lifetime is the value of the flag --lifetime: a duration, or a number of days with d behind it.
type lifetime time.Duration

// maxLifetime is the longest lifetime of a certificate, a hundred years.
const maxLifetime = 36500 * 24 * time.Hour

// String implements pflag.Value.
func (l *lifetime) String() string {
	if *l == 0 {
		return ""
	}
	return time.Duration(*l).String()
}

// Type implements pflag.Value.
func (l *lifetime) Type() string { return "duration" }

// Set implements pflag.Value.
func (l *lifetime) Set(text string) error {
	parsed, err := time.ParseDuration(text)
	if number, ok := strings.CutSuffix(text, "d"); ok {
		var n int
		n, err = strconv.Atoi(number)
		parsed = time.Duration(min(n, 36501)) * 24 * time.Hour
	}
	if err != nil || parsed < time.Second || parsed > maxLifetime {
		return errors.New("want a time from 1s to 36500d, such as 24h or 90d")
	}
	*l = lifetime(parsed)
	return nil
}

func days(flag string, n int) (time.Duration, error) {
	if n < 1 || n > 36500 {
		return 0, usageError{fmt.Errorf("%s %d: want 1-36500", flag, n)}
	}
	return time.Duration(n) * 24 * time.Hour, nil
}

// hostsOf returns the host names of a certificate. Besides the given ones, the certificate of a
// server has the names for programs on its own machine.
func hostsOf(who string, given []string) []string {
	role, _, _ := strings.Cut(who, "/")
	if slices.Contains([]identity.Role{identity.Operator, identity.Viewer, identity.Workload, identity.Monitor}, identity.Role(role)) {
		return given
	}
	return append(given[:len(given):len(given)], "localhost", "127.0.0.1", "::1")
}

func newCertsInit(flags *connection) *cobra.Command {
	f := &certsFlags{}
	domain, authorityDays := "", 0
	var nodes []string
	command := &cobra.Command{
		Use:   "init",
		Short: "Make an authority and the certificates of a first installation",
		Long: `init makes a certificate authority and certificates of the daemons, of NATS and Postgres, of an operator, a viewer and a monitor, and of the nodes
given by --node. Portolan's clients know a server by the role in its certificate. Servers of NATS among themselves, and clients of Postgres, check
host names, which --host gives.`,
		Example: `  portolan certs init --node n1 --node n2
  portolan certs init --certs /etc/portolan/certs --trust-domain prod.example.com --host nats=nats-1,nats-2,nats-3 --host postgres=db.example.com`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			requests, err := f.firstRequests(nodes)
			if err != nil {
				return err
			}
			lifetime, err := days("--ca-days", authorityDays)
			if err != nil {
				return err
			}
			made, err := certs.Init(folderOf(flags), domain, lifetime, requests, f.force)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintln(command.ErrOrStderr(), "give the registries issuer.crt and issuer.key (-issuer-cert, -issuer-key): they renew the certificates of daemons, which are good for 24 hours")
			return f.print(command.OutOrStdout(), made)
		},
	}
	f.register(command, "replace an authority that is there, and all its certificates")
	f.registerIssue(command, "names and addresses of a server's machines: ROLE=HOST,HOST…; may be repeated")
	command.Flags().StringVar(&domain, "trust-domain", identity.DefaultTrustDomain, "trust domain: tells installations apart")
	command.Flags().IntVar(&authorityDays, "ca-days", int(certs.DefaultAuthorityLifetime.Hours()/24), "days that the authority is good for")
	command.Flags().StringArrayVar(&nodes, "node", nil, "name of a node; may be repeated")
	return command
}

// firstRequests returns the requests for the certificates of a first installation.
func (f *certsFlags) firstRequests(nodes []string) ([]certs.Request, error) {
	hosts := map[string][]string{}
	for _, text := range f.hosts {
		role, list, ok := strings.Cut(text, "=")
		if !ok {
			return nil, usageError{fmt.Errorf("--host %q: want ROLE=HOST,HOST…", text)}
		}
		hosts[role] = append(hosts[role], strings.Split(list, ",")...)
	}
	if natsRoute := string(identity.NATSRoute); hosts[natsRoute] == nil {
		hosts[natsRoute] = hosts[string(identity.NATS)]
	}
	var who []string
	for _, role := range identity.Roles() {
		if !role.OfNode() && role != identity.LBProvider {
			who = append(who, string(role))
		}
	}
	for _, node := range nodes {
		who = append(who, string(identity.NodeAgent)+"/"+node, string(identity.Workload)+"/"+node+"/"+object.DefaultNamespace)
	}
	var requests []certs.Request
	for _, name := range who {
		requests = append(requests, certs.Request{Role: name, Hosts: hostsOf(name, hosts[name]), Lifetime: time.Duration(f.lifetime)})
		delete(hosts, name)
	}
	for role := range hosts {
		return nil, usageError{fmt.Errorf("--host %s=…: there is no such certificate in a first installation", role)}
	}
	return requests, nil
}

func newCertsIssue(flags *connection) *cobra.Command {
	f := &certsFlags{}
	command := &cobra.Command{
		Use:   "issue ROLE[/NAME]...",
		Short: "Issue certificates",
		Long: `issue makes certificates of the folder's authority. Roles are registry, allocator, endpointctl, lbctl, dnssvc, kubeapi, nodeagent/NODE,
edge/NODE, operator[/NAMESPACE], viewer[/NAMESPACE], workload/NODE[/NAMESPACE], registrar/NODE[/NAMESPACE], monitor[/NAME], lbprovider[/NAME],
nats, natsroute and postgres.`,
		Example: `  portolan certs issue nodeagent/n3
  portolan certs issue edge/n3
  portolan certs issue workload/n3/default
  portolan certs issue registrar/n3
  portolan certs issue operator/shop --lifetime 30d
  portolan certs issue postgres --host db.example.com --force`,
		Args: arguments(cobra.MinimumNArgs(1), "ROLE[/NAME]..."),
		RunE: func(command *cobra.Command, args []string) error {
			folder, err := certs.Open(folderOf(flags))
			if err != nil {
				return err
			}
			var requests []certs.Request
			for _, who := range args {
				requests = append(requests, certs.Request{Role: who, Hosts: hostsOf(who, f.hosts), Lifetime: time.Duration(f.lifetime)})
			}
			made, err := folder.Issue(requests, f.force)
			if err != nil {
				return err
			}
			return f.print(command.OutOrStdout(), made)
		},
	}
	f.register(command, "replace certificates that are there")
	f.registerIssue(command, "name or address of the server's machine; may be repeated")
	return command
}

func newCertsRenew(flags *connection) *cobra.Command {
	f := &certsFlags{}
	within := 0
	command := &cobra.Command{
		Use:   "renew [ROLE[/NAME]...]",
		Short: "Renew certificates that expire soon",
		Long: `renew replaces certificates that have at most a third of their life left by new ones with new keys, the same role, the same hosts and the same
lifetime. Daemons read the new files while they run, and open connections go on. Run it every hour: most of the time it does nothing.

In a folder without ca.key it asks the registry (--server) with each certificate that is still valid. A registry renews certificates of daemons,
workloads and monitors, so a timer keeps the certificate of Prometheus valid. Daemons and "portolan run" need no timer.`,
		Example: `  portolan certs renew
  portolan certs renew nats --force
  portolan certs renew --within-days 14 -o json
  portolan certs renew --certs /etc/prometheus/portolan --server 10.0.0.1:7400,10.0.0.2:7400`,
		RunE: func(command *cobra.Command, args []string) error {
			ahead := time.Duration(0)
			if command.Flags().Changed("within-days") {
				var err error
				if ahead, err = days("--within-days", within); err != nil {
					return err
				}
			}
			looked, err := renewFolder(command.Context(), flags, args, ahead, f.force)
			if err != nil {
				return err
			}
			return f.print(command.OutOrStdout(), looked)
		},
	}
	f.register(command, "renew also certificates that do not expire soon")
	command.Flags().IntVar(&within, "within-days", 0, "renew certificates that expire within so many days (default: a third of their life)")
	return command
}

func newCertsNATS(flags *connection) *cobra.Command {
	options := certs.NATSOptions{}
	command := &cobra.Command{
		Use:   "nats-config",
		Short: "Print the rights of each role on NATS, as configuration of nats-server",
		Long: `nats-config prints the parts "tls" and "authorization" of a nats-server's configuration: each role with the subjects that it may use, and each node
with its own heartbeats. Include them in the configuration of each server. The nodes are the ones with a certificate in the folder, and the
nodes named by --node. A registrar that is bound to a namespace needs its certificate in the folder.

With --route it also prints the part "cluster". Only servers with the certificate natsroute.crt can join the cluster. It is issued by an authority of
its own, because a server in the cluster reads and publishes everything. Each server needs natsroute.crt, natsroute.key and routes-ca.crt in its
folder; no other program needs these files.`,
		Example: `  portolan certs nats-config > portolan-nats.conf
  portolan certs nats-config --path /etc/nats/certs --node n7
  portolan certs nats-config --path /etc/nats/certs --route nats1:6222 --route nats2:6222 --route nats3:6222`,
		Args: arguments(cobra.NoArgs, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			folder, err := certs.Open(folderOf(flags))
			if err != nil {
				return err
			}
			if options.Path == "" {
				if options.Path, err = filepath.Abs(folderOf(flags)); err != nil {
					return err
				}
			}
			text, err := folder.NATSConfig(options)
			if err != nil {
				return err
			}
			_, err = io.WriteString(command.OutOrStdout(), text)
			return err
		},
	}
	command.Flags().StringVar(&options.Path, "path", "", "folder in which the server has nats.crt, nats.key and ca.crt (default: the folder of the certificates)")
	command.Flags().StringVar(&options.Prefix, "nats-prefix", changes.DefaultPrefix, "first word of all subjects, as the daemons have it")
	command.Flags().StringArrayVar(&options.Nodes, "node", nil, "name of a node; may be repeated")
	command.Flags().StringArrayVar(&options.Cluster.Routes, "route", nil, "HOST:PORT for the routes of a server of the cluster; repeated for each, this server included")
	command.Flags().StringVar(&options.Cluster.Name, "cluster", "portolan", "name of the cluster")
	command.Flags().StringVar(&options.Cluster.Listen, "cluster-listen", "0.0.0.0:6222", "address at which the server listens for routes")
	return command
}

// print prints certificates.
func (f *certsFlags) print(out io.Writer, list []certs.Certificate) error {
	if f.output == "json" {
		return writeJSON(out, list)
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(w, "NAME\tEXPIRES\tWRITTEN\tFILE")
	for _, one := range list {
		written := "no"
		if one.Written {
			written = "yes"
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", one.Name, one.Expires.UTC().Format(time.RFC3339), written, one.Cert)
	}
	return w.Flush()
}
