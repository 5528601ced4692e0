package cli

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	dnsv1 "portolan.dev/api/dns/v1"
	"portolan.dev/portolan/internal/workload"
)

// nameserverTimeout is how long the start of a program waits for a name server that does not
// answer.
const nameserverTimeout = 2 * time.Second

// nameservers returns the addresses for a program's resolv.conf. These are the given ones, or none
// if "none" is given. By default they are the addresses at which the name server listens on port
// 53, because resolvers ask no other port. If the name server does not answer, there are none.
func (c *connection) nameservers(ctx context.Context, given []string, api string) ([]string, error) {
	if len(given) == 1 && given[0] == "none" {
		return nil, nil
	}
	for _, text := range given {
		if _, err := netip.ParseAddr(text); err != nil {
			return nil, usageError{fmt.Errorf("--nameserver %q is no address", text)}
		}
	}
	if len(given) > 0 {
		return given, nil
	}
	conn, err := c.dialPeer(dnssvcPeer, api)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, nameserverTimeout)
	defer cancel()
	status, err := dnsv1.NewDNSServiceClient(conn).GetStatus(ctx, &dnsv1.GetStatusRequest{})
	if err != nil {
		return nil, nil //nolint:nilerr // names are a convenience: the program runs without
	}
	host, _, _ := net.SplitHostPort(c.peerAddress(dnssvcPeer, api))
	return onPort53(status.GetListen(), host), nil
}

// onPort53 returns the addresses of listen with port 53, which a resolv.conf can name. An
// unspecified address is replaced by the host of the API.
func onPort53(listen []string, host string) []string {
	var servers []string
	for _, text := range listen {
		at, err := netip.ParseAddrPort(text)
		if err != nil || at.Port() != 53 {
			continue
		}
		addr := at.Addr()
		if addr.IsUnspecified() {
			if addr, err = netip.ParseAddr(host); err != nil {
				continue
			}
		}
		servers = append(servers, addr.String())
	}
	return servers
}

// newWithResolver returns a command that is a step of run. It is hidden, because users have no use
// for it.
func newWithResolver() *cobra.Command {
	return &cobra.Command{
		Use:     "with-resolver FILE -- COMMAND [ARG...]",
		Short:   "Run a command with a resolv.conf of its own: a step of run",
		Example: "  portolan with-resolver resolv.conf -- getent hosts web",
		Hidden:  true,
		Args:    arguments(cobra.MinimumNArgs(2), "FILE -- COMMAND [ARG...]"),
		RunE: func(command *cobra.Command, args []string) error {
			return workload.ExecWithResolver(args[0], args[1:], command.ErrOrStderr())
		},
	}
}
