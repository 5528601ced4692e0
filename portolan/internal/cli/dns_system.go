package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"

	"github.com/spf13/cobra"
)

// hostResolver is a resolver of the machine, with the steps that make it ask a name server for one
// zone.
type hostResolver struct {
	name  string
	sign  string // folder that exists on machines with this resolver
	steps func(zone string, server netip.AddrPort) string
}

// hostResolvers are in the order in which a machine with several uses them.
var hostResolvers = []hostResolver{
	{"resolved", "/run/systemd/resolve", func(zone string, server netip.AddrPort) string {
		return fmt.Sprintf(`sudo mkdir -p /etc/systemd/resolved.conf.d
printf '[Resolve]\nDNS=%s\nDomains=~%s\n' | sudo tee /etc/systemd/resolved.conf.d/portolan.conf
sudo systemctl restart systemd-resolved
`, server, zone)
	}},
	{"dnsmasq", "/etc/dnsmasq.d", func(zone string, server netip.AddrPort) string {
		return fmt.Sprintf(`echo 'server=/%s/%s#%d' | sudo tee /etc/dnsmasq.d/portolan.conf
sudo systemctl restart dnsmasq
`, zone, server.Addr(), server.Port())
	}},
	{"unbound", "/etc/unbound/unbound.conf.d", func(zone string, server netip.AddrPort) string {
		return fmt.Sprintf(`printf 'server:\n  domain-insecure: "%s"\n  do-not-query-localhost: no\nforward-zone:\n  name: "%s"\n  forward-addr: %s@%d\n' | sudo tee /etc/unbound/unbound.conf.d/portolan.conf
sudo systemctl restart unbound
`, zone, zone, server.Addr(), server.Port())
	}},
}

func newDNSSystem() *cobra.Command {
	zone, server, resolver := "", "", ""
	command := &cobra.Command{
		Use:   "system",
		Short: "Show how this machine's own resolver finds services",
		Long: `system prints the commands after which the resolver of this machine asks the name server for names of the zone, and its usual servers for all
others. It changes nothing itself.`,
		Example: "  portolan dns system\n  portolan dns system --nameserver 10.0.0.1:53 --resolver dnsmasq",
		Args:    arguments(cobra.NoArgs, "no arguments"),
		RunE: func(command *cobra.Command, _ []string) error {
			at, err := netip.ParseAddrPort(server)
			if err != nil {
				return usageError{fmt.Errorf("--nameserver %q: want ADDRESS:PORT", server)}
			}
			for _, r := range hostResolvers {
				if r.name == resolver || resolver == "" && isFolder(r.sign) {
					_, err := fmt.Fprint(command.OutOrStdout(), r.steps(zone, at))
					return err
				}
			}
			return unknownResolver(resolver)
		},
	}
	command.Flags().StringVar(&zone, "zone", "cluster.local", "zone of the services")
	command.Flags().StringVar(&server, "nameserver", cmp.Or(os.Getenv("PORTOLAN_NAMESERVER"), "127.0.0.1:7053"), "where names are answered (PORTOLAN_NAMESERVER)")
	command.Flags().StringVar(&resolver, "resolver", "", "resolved, dnsmasq or unbound (default: the one that this machine has)")
	return command
}

func unknownResolver(name string) error {
	if name != "" {
		return usageError{fmt.Errorf("resolver %q is not known; resolvers are resolved, dnsmasq, unbound", name)}
	}
	return errors.New("this machine has none of systemd-resolved, dnsmasq and unbound; install one, or let the name server listen on port 53 and name it in /etc/resolv.conf")
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
