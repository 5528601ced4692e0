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

// connection holds the addresses of the daemons. Its flags are the same for every command.
type connection struct {
	server  string
	timeout time.Duration
	certs   string // folder of certificates; empty: none
	files   identity.Files
}

// envCerts is the environment variable for the folder of certificates.
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
	set.StringVar(&c.files.CA, "tls-ca", os.Getenv("PORTOLAN_TLS_CA"), "file of the trusted certificate authorities (PORTOLAN_TLS_CA)")
	set.StringVar(&c.files.TrustDomain, "trust-domain", os.Getenv("PORTOLAN_TRUST_DOMAIN"), "trust domain; empty: that of the certificate (PORTOLAN_TRUST_DOMAIN)")
	root.PersistentFlags().DurationVar(&c.timeout, "timeout", 30*time.Second, "how long one request may take")
}

// dial returns a connection to a daemon. It connects at the first call.
func (c *connection) dial(address string, role identity.Role) (*grpc.ClientConn, error) {
	source, err := c.identity()
	if err != nil {
		return nil, err
	}
	conn, err := rpc.TCP().Dial(address, source.DialOption(role), grpc.WithChainUnaryInterceptor(c.withTimeout))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return conn, nil
}

// dialAgent connects to a node agent.
func (c *connection) dialAgent(address string) (*grpc.ClientConn, error) {
	return c.dial(address, identity.NodeAgent)
}

// identity opens the given certificate. It returns nil if none is given.
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

// daemonAddress returns the address of another daemon: the given one or, if it is empty, the host
// of the (first) registry with the daemon's default port.
func (c *connection) daemonAddress(address string, port int) string {
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

// withTimeout sets the command's time limit on every call.
func (c *connection) withTimeout(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.addTLSHint(invoke(ctx, method, req, reply, cc, opts...))
}

// addTLSHint adds a hint to the error of a call without TLS to a server that requires TLS. Such a
// server closes the connection without a message.
func (c *connection) addTLSHint(err error) error {
	if c.certs+c.files.Cert != "" || status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "server preface") {
		return err
	}
	return status.Errorf(codes.Unavailable, "%s: does the server want TLS? --certs names a folder of certificates", status.Convert(err).Message())
}

// withRegistry returns a command function that runs with a connection to the registry.
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
