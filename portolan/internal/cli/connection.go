package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/portolan/internal/certs"
	"portolan.dev/portolan/internal/dev"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/token"
)

// connection holds the addresses of the daemons. Its flags are the same for every command.
type connection struct {
	server  string
	timeout time.Duration
	certs   string // folder of certificates; empty: none
	token   string // file of a token; empty: the file of portolan dev in the working directory
	files   identity.Files
	// forPrograms is set by commands that start programs of others. They use the certificate of the
	// folder with the fewest rights.
	forPrograms bool
	// log is the log of the certificate; nil: none.
	log    *slog.Logger
	source *identity.Source // the certificate, once it was opened
}

// envCerts is the environment variable for the folder of certificates.
const envCerts = "PORTOLAN_CERTS"

const defaultServer = "127.0.0.1:7400"

func (c *connection) register(root *cobra.Command) {
	root.PersistentFlags().StringVar(&c.server, "server", cmp.Or(os.Getenv("PORTOLAN_SERVER"), defaultServer), "address of the registry (PORTOLAN_SERVER)")
	set := root.PersistentFlags()
	set.StringVar(&c.certs, "certs", os.Getenv(envCerts), "folder of certificates; with one, connections are mutual TLS as its operator, viewer or workload ("+envCerts+")")
	set.StringVar(&c.files.Cert, "tls-cert", os.Getenv("PORTOLAN_TLS_CERT"), "instead: file of a certificate (PORTOLAN_TLS_CERT)")
	set.StringVar(&c.files.Key, "tls-key", os.Getenv("PORTOLAN_TLS_KEY"), "file of its private key (PORTOLAN_TLS_KEY)")
	set.StringVar(&c.files.CA, "tls-ca", os.Getenv("PORTOLAN_TLS_CA"), "file of the trusted certificate authorities (PORTOLAN_TLS_CA)")
	set.StringVar(&c.files.TrustDomain, "trust-domain", os.Getenv("PORTOLAN_TRUST_DOMAIN"), "trust domain; empty: the certificate's (PORTOLAN_TRUST_DOMAIN)")
	set.StringVar(&c.token, "token-file", os.Getenv("PORTOLAN_TOKEN_FILE"),
		"file of the token of a portolan dev (PORTOLAN_TOKEN_FILE; default: "+dev.TokenFile(dev.DefaultDataDir)+", if it exists and the address is on loopback)")
	root.PersistentFlags().DurationVar(&c.timeout, "timeout", 30*time.Second, "how long one request may take")
}

// dial returns a connection to a daemon. It connects at the first call.
func (c *connection) dial(address string, role identity.Role) (*grpc.ClientConn, error) {
	source, err := c.identity()
	if err != nil {
		return nil, err
	}
	return c.dialWith(address, source, source.DialOption(role))
}

// dialAgent connects to the agent of a node at an address that the agent, or another one, reported.
func (c *connection) dialAgent(node, address string) (*grpc.ClientConn, error) {
	source, err := c.identity()
	if err != nil {
		return nil, err
	}
	return c.dialWith(address, source, source.AgentDialOption(node))
}

// dialWith connects with a certificate or, if source is nil, with the token of a portolan dev.
func (c *connection) dialWith(address string, source *identity.Source, credentials grpc.DialOption) (*grpc.ClientConn, error) {
	options := []grpc.DialOption{credentials, grpc.WithChainUnaryInterceptor(c.withTimeout)}
	if source == nil {
		secret, err := c.readToken(address)
		if err != nil {
			return nil, err
		}
		if secret != nil {
			options = append(options, grpc.WithPerRPCCredentials(secret))
		}
	}
	conn, err := rpc.TCP().Dial(address, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return conn, nil
}

// readToken returns the token for the daemon at an address. If no file is given, it is the token of
// the working directory's data directory, or nil if there is none. That token goes to loopback
// addresses only, because it crosses the network in clear text. A given one goes to every address.
func (c *connection) readToken(address string) (*token.Token, error) {
	if c.token != "" {
		return token.Read(c.token)
	}
	if !onLoopback(address) {
		return nil, nil
	}
	secret, err := token.Read(dev.TokenFile(dev.DefaultDataDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return secret, err
}

// onLoopback reports whether all addresses of a target, separated by commas, are loopback addresses.
func onLoopback(target string) bool {
	for address := range strings.SplitSeq(target, ",") {
		host, _, err := net.SplitHostPort(strings.TrimSpace(address))
		if err != nil {
			return false
		}
		if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
			return false
		}
	}
	return true
}

// identity opens the given certificate at its first call, so that all connections of a command use
// the same one, also after its renewal. It returns nil if none is given.
func (c *connection) identity() (source *identity.Source, err error) {
	if c.source == nil {
		c.source, err = c.openIdentity()
	}
	return c.source, err
}

func (c *connection) openIdentity() (*identity.Source, error) {
	files, err := c.tlsFiles()
	if err != nil || files.Cert == "" && files.Key == "" && files.CA == "" {
		return nil, err
	}
	if files != c.files {
		renewOwn(c.certs, files)
	}
	return identity.Open(identity.Options{Files: files, Log: cmp.Or(c.log, slog.New(slog.DiscardHandler)), Store: certs.CopyStore(files)})
}

// tlsFiles returns the files of the certificate, given or of the folder. They are empty if there is neither.
func (c *connection) tlsFiles() (identity.Files, error) {
	if c.files.Cert != "" || c.files.Key != "" || c.files.CA != "" || c.certs == "" {
		return c.files, nil
	}
	files, err := c.filesOf(c.certs)
	files.TrustDomain = c.files.TrustDomain
	return files, err
}

// filesOf returns the files of the certificate in a folder that can do most: an operator's or
// viewer's of all namespaces, or else the only one of an operator, viewer or workload that is bound
// to a namespace. For programs the order is the reverse: a workload's certificate comes first.
func (c *connection) filesOf(dir string) (identity.Files, error) {
	if c.forPrograms {
		if files, found, err := certs.BoundFilesOf(dir, identity.Workload); found || err != nil {
			return files, err
		}
	}
	files, unbound := certs.FilesOf(dir, identity.Operator, identity.Viewer)
	if unbound == nil {
		return files, nil
	}
	for _, role := range []identity.Role{identity.Operator, identity.Viewer, identity.Workload} {
		if files, found, err := certs.BoundFilesOf(dir, role); found || err != nil {
			return files, err
		}
	}
	return identity.Files{}, unbound
}

// setNamespace sets the namespace of a command to the namespace that the caller's certificate is bound
// to, unless the user has given one. It ignores errors of the certificate, because the connection reports
// them.
func (c *connection) setNamespace(command *cobra.Command) {
	flag := command.Flags().Lookup("namespace")
	if flag == nil || flag.Changed || c.certs == "" && c.files.Cert == "" {
		return
	}
	if source, err := c.identity(); err == nil && source.ID().Namespace != "" {
		_ = flag.Value.Set(source.ID().Namespace) // the value of a flag of text is never refused
	}
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
