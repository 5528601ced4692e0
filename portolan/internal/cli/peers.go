package cli

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"portolan.dev/services/kit/identity"
)

// peer is a daemon besides the registry that commands speak to.
type peer struct {
	role  identity.Role
	title string // in the description of its flag
	port  int    // default port of its API
}

var (
	allocatorPeer   = peer{identity.Allocator, "the allocator", 7401}
	endpointctlPeer = peer{identity.EndpointCtl, "the endpoint controller", 7402}
	dnssvcPeer      = peer{identity.DNSSvc, "the name server's API", 7403}
	kubeapiPeer     = peer{identity.KubeAPI, "kubeapi", 7405}
	edgePeer        = peer{identity.Edge, "the edge's API", 7407}
	registrarPeer   = peer{identity.Registrar, "the registrar's API", 7408}
)

// register adds the flag for the daemon's address, which has the name of its role.
func (p peer) register(command *cobra.Command, address *string) {
	variable := "PORTOLAN_" + strings.ToUpper(string(p.role))
	command.Flags().StringVar(address, string(p.role), os.Getenv(variable), fmt.Sprintf("address of %s (%s; default: port %d of the registry's host)", p.title, variable, p.port))
}

// dialPeer returns a connection to another daemon, at the address of peerAddress.
func (c *connection) dialPeer(p peer, address string) (*grpc.ClientConn, error) {
	return c.dial(c.peerAddress(p, address), p.role)
}

// peerAddress returns the address of another daemon: the given one or, if it is empty, the host of the
// (first) registry with the daemon's default port.
func (c *connection) peerAddress(p peer, address string) string {
	if address != "" {
		return address
	}
	server, _, _ := strings.Cut(c.server, ",")
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		host = server
	}
	return net.JoinHostPort(host, strconv.Itoa(p.port))
}
