package labtest

import (
	"cmp"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"google.golang.org/grpc"

	"portolan.dev/portolan/internal/certs"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// lifetime is the lifetime of an installation's certificates, longer than any test.
const lifetime = 4 * time.Hour

// NATSConfig returns the output of portolan certs nats-config for the authority in a folder. path
// is the folder of the server's certificate.
func NATSConfig(authority, path string, nodes []string) (string, error) {
	return natsConfig(authority, certs.NATSOptions{Path: path, Nodes: nodes})
}

// NATSClusterConfig is NATSConfig for a server of a cluster that listens for the given routes at an
// address. It issues the certificate for routes if the folder has none, and copies it to path.
func NATSClusterConfig(authority, path string, nodes []string, listen string, routes []string) (string, error) {
	if err := provideRouteCertificate(authority, path, routes); err != nil {
		return "", err
	}
	return natsConfig(authority, certs.NATSOptions{Path: path, Nodes: nodes, Cluster: certs.NATSCluster{Listen: listen, Routes: routes}})
}

func natsConfig(authority string, options certs.NATSOptions) (string, error) {
	folder, err := certs.Open(authority)
	if err != nil {
		return "", err
	}
	options.Prefix = changes.DefaultPrefix
	return folder.NATSConfig(options)
}

func provideRouteCertificate(authority, path string, routes []string) error {
	files := []string{"natsroute.crt", "natsroute.key", "routes-ca.crt"}
	if _, err := os.Stat(filepath.Join(authority, files[0])); errors.Is(err, fs.ErrNotExist) {
		folder, err := certs.Open(authority)
		if err != nil {
			return err
		}
		request := certs.Request{Role: string(identity.NATSRoute), Lifetime: lifetime}
		for _, route := range routes {
			host, _, _ := strings.Cut(route, ":")
			request.Hosts = append(request.Hosts, host)
		}
		if _, err := folder.Issue([]certs.Request{request}, false); err != nil {
			return err
		}
	}
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(authority, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(path, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// issue makes the authority of the installation, and a certificate of each daemon, of the NATS
// server and of an operator.
func (i *Installation) issue() {
	i.Helper()
	i.Certs = i.TempDir()
	requests := []certs.Request{{Role: "operator", Lifetime: lifetime}, {Role: "nats", Lifetime: lifetime, Hosts: []string{control[0].String()}}}
	for _, daemon := range []string{"registry", "allocator", "endpointctl", "dnssvc"} {
		requests = append(requests, certs.Request{Role: daemon, Lifetime: i.lifetime(), Hosts: []string{control[0].String()}})
	}
	for _, node := range i.options.Nodes {
		requests = append(requests, certs.Request{Role: "nodeagent/" + node.Name, Lifetime: i.lifetime()})
	}
	if _, err := certs.Init(i.Certs, identity.DefaultTrustDomain, lifetime, requests, false); err != nil {
		i.Fatal(err)
	}
}

// lifetime returns the lifetime of the certificates of daemons.
func (i *Installation) lifetime() time.Duration { return cmp.Or(i.options.Lifetime, lifetime) }

// Issue issues a certificate of a role, such as workload/n1, and returns its files.
func (i *Installation) Issue(who string, lifetime time.Duration) identity.Files {
	i.Helper()
	folder, err := certs.Open(i.Certs)
	if err != nil {
		i.Fatal(err)
	}
	if _, err := folder.Issue([]certs.Request{{Role: who, Lifetime: lifetime}}, true); err != nil {
		i.Fatal(err)
	}
	return i.files(who)
}

// files returns the files of the certificate of a role.
func (i *Installation) files(who string) identity.Files {
	id, err := identity.ParsePath(identity.DefaultTrustDomain, who)
	if err != nil {
		i.Fatal(err)
	}
	base := filepath.Join(i.Certs, id.FileName())
	return identity.Files{Cert: base + ".crt", Key: base + ".key", CA: filepath.Join(i.Certs, "ca.crt")}
}

// tlsFlags returns the flags that give a daemon the certificate of a role.
func (i *Installation) tlsFlags(who string) []string {
	files := i.files(who)
	return []string{"-tls-cert", files.Cert, "-tls-key", files.Key, "-tls-ca", files.CA}
}

// Source returns the certificate in files in the form that clients and servers use.
func (i *Installation) Source(files identity.Files) *identity.Source {
	i.Helper()
	source, err := identity.Open(identity.Options{Files: files, Log: kittest.Logger(i)})
	if err != nil {
		i.Fatal(err)
	}
	return source
}

// DialAs returns a connection to a daemon of the given role with the certificate in files. It is
// closed when the test ends.
func (i *Installation) DialAs(files identity.Files, role identity.Role, at netip.AddrPort) *grpc.ClientConn {
	i.Helper()
	conn, err := rpc.TCP().Dial(at.String(), i.Source(files).DialOption(role))
	if err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() { _ = conn.Close() })
	return conn
}

// secureNATS adds the output of portolan certs nats-config to the options of the NATS server.
func (i *Installation) secureNATS(options *server.Options) {
	i.Helper()
	var nodes []string
	for _, node := range i.options.Nodes {
		nodes = append(nodes, node.Name)
	}
	text, err := NATSConfig(i.Certs, i.Certs, nodes)
	if err != nil {
		i.Fatal(err)
	}
	path := filepath.Join(i.Certs, "nats.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		i.Fatal(err)
	}
	if err := options.ProcessConfigFile(path); err != nil {
		i.Fatal(err)
	}
	if role := i.options.NATSIntruder; role != "" {
		id, err := identity.ParsePath(identity.DefaultTrustDomain, role)
		if err != nil {
			i.Fatal(err)
		}
		options.Users = append(options.Users, &server.User{Username: id.String()})
	}
}
