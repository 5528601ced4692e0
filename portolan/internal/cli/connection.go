package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/portolan/internal/certs"
	"portolan.dev/portolan/internal/client"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
)

// connection says where the daemons are; the flags are the same for every command.
type connection struct {
	server  string
	timeout time.Duration
	certs   string // folder of certificates; empty: none
	files   identity.Files
}

// envCerts names the folder of certificates.
const envCerts = "PORTOLAN_CERTS"

const defaultServer = "127.0.0.1:7400"

// Default ports of the other daemons' APIs.
const (
	allocatorPort   = 7401
	endpointctlPort = 7402
	dnssvcPort      = 7403
)

func (c *connection) register(root *cobra.Command) {
	root.PersistentFlags().StringVar(&c.server, "server", cmp.Or(os.Getenv("PORTOLAN_SERVER"), defaultServer), "address of the registry (PORTOLAN_SERVER)")
	set := root.PersistentFlags()
	set.StringVar(&c.certs, "certs", os.Getenv(envCerts), "folder of certificates; with one, connections are mutual TLS as its operator or viewer ("+envCerts+")")
	set.StringVar(&c.files.Cert, "tls-cert", os.Getenv("PORTOLAN_TLS_CERT"), "instead: file of a certificate (PORTOLAN_TLS_CERT)")
	set.StringVar(&c.files.Key, "tls-key", os.Getenv("PORTOLAN_TLS_KEY"), "file of its private key (PORTOLAN_TLS_KEY)")
	set.StringVar(&c.files.CA, "tls-ca", os.Getenv("PORTOLAN_TLS_CA"), "file of the authorities whose certificates are believed (PORTOLAN_TLS_CA)")
	set.StringVar(&c.files.TrustDomain, "trust-domain", os.Getenv("PORTOLAN_TRUST_DOMAIN"), "trust domain; empty: that of the certificate (PORTOLAN_TRUST_DOMAIN)")
	root.PersistentFlags().DurationVar(&c.timeout, "timeout", 30*time.Second, "how long one request may take")
}

// dial connects to a daemon; connecting itself happens with the first call.
func (c *connection) dial(address string, role identity.Role) (*grpc.ClientConn, error) {
	source, err := c.identity()
	if err != nil {
		return nil, err
	}
	conn, err := rpc.TCP().Dial(address, source.Peer(role), grpc.WithChainUnaryInterceptor(c.bound))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return conn, nil
}

// dialAgent connects to a node agent.
func (c *connection) dialAgent(address string) (*grpc.ClientConn, error) {
	return c.dial(address, identity.NodeAgent)
}

// identity opens the certificate that was given; nil where there is none.
func (c *connection) identity() (*identity.Source, error) {
	files := c.files
	if files.Cert == "" && files.Key == "" && files.CA == "" {
		if c.certs == "" {
			return nil, nil
		}
		var err error
		if files, err = certs.FilesOf(c.certs, identity.Operator, identity.Viewer); err != nil {
			return nil, err
		}
		files.TrustDomain = c.files.TrustDomain
	}
	return identity.Open(identity.Options{Files: files, Log: slog.New(slog.DiscardHandler)})
}

// beside returns the address of another daemon: the one given, or, where none is, the registry's host (the first one's, where there are several)
// and the port that the daemon has by default.
func (c *connection) beside(address string, port int) string {
	if address != "" {
		return address
	}
	server, _, _ := strings.Cut(c.server, ",")
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		host = server
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// registry connects to the registry. The caller closes the connection.
func (c *connection) registry() (*client.Client, *grpc.ClientConn, error) {
	conn, err := c.dial(c.server, identity.Registry)
	if err != nil {
		return nil, nil, err
	}
	return client.New(conn), conn, nil
}

// bound gives every call the command's time limit.
func (c *connection) bound(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.hint(invoke(ctx, method, req, reply, cc, opts...))
}

// hint says what to do where a server that wants TLS was talked to without: it hangs up before it says anything.
func (c *connection) hint(err error) error {
	if c.certs+c.files.Cert != "" || status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "server preface") {
		return err
	}
	return status.Errorf(codes.Unavailable, "%s: does the server want TLS? --certs names a folder of certificates", status.Convert(err).Message())
}

// withRegistry runs a command with a connection to the registry.
func (c *connection) withRegistry(run func(*cobra.Command, []string, *client.Client) error) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		registry, conn, err := c.registry()
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		return run(command, args, registry)
	}
}
