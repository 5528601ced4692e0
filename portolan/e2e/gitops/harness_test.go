package gitops

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"portolan.dev/allocator"
	"portolan.dev/portolan/internal/cli"
	"portolan.dev/registry"
	"portolan.dev/services/client"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

// installation is a registry with an allocator and NATS, without TLS.
type installation struct {
	*testing.T
	network *rpc.MemoryNetwork
	nats    string
	config  registry.Config
	conn    *grpc.ClientConn
	*client.Client
	stop func() // stops the registry
}

// reserved is a network with a listener that was opened before its daemon, so that another daemon could
// be told its address.
type reserved struct {
	rpc.Network
	listener net.Listener
}

// Listen implements rpc.Network.
func (r reserved) Listen(string) (net.Listener, error) { return r.listener, nil }

func install(t *testing.T) *installation {
	t.Helper()
	i := &installation{T: t, network: rpc.Memory()}
	_, i.nats = kittest.NATS(t)
	listener, err := i.network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config.Defaults(&i.config)
	i.config.Addr = listener.Addr().String()
	var a allocator.Config
	config.Defaults(&a)
	a.Addr, a.Registry, a.DataDir = "127.0.0.1:0", i.config.Addr, filepath.Join(t.TempDir(), "allocator")
	a.ServiceCIDR = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	claims, err := allocator.New(t.Context(), a, kittest.Host(t, i.network, i.nats))
	if err != nil {
		t.Fatal(err)
	}
	kittest.Run(t, "allocator", claims.Run)
	i.config.Allocator, i.config.ServiceCIDR, i.config.Store = claims.Addr().String(), a.ServiceCIDR, "sqlite:"+filepath.Join(t.TempDir(), "registry")
	i.start(reserved{i.network, listener})
	if i.conn, err = i.network.Dial(i.config.Addr, (*identity.Source)(nil).DialOption(identity.Registry)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = i.conn.Close() })
	i.Client = client.New(i.conn)
	return i
}

// start starts the registry, also again after stop.
func (i *installation) start(network rpc.Network) {
	i.Helper()
	daemon, err := registry.New(i.Context(), i.config, kittest.Host(i.T, network, i.nats))
	if err != nil {
		i.Fatal(err)
	}
	i.stop = kittest.Run(i.T, "registry", daemon.Run)
}

// portolan runs a command with manifests at its standard input, and returns its exit code.
func (i *installation) portolan(in string, args ...string) (out, errOut string, code int) {
	i.Helper()
	var o, e bytes.Buffer
	code = cli.Main(i.Context(), append(args, "--server", i.config.Addr), strings.NewReader(in), &o, &e)
	return o.String(), e.String(), code
}

// must is portolan for a command that succeeds.
func (i *installation) must(in string, args ...string) string {
	i.Helper()
	out, errOut, code := i.portolan(in, args...)
	if code != 0 {
		i.Fatalf("portolan %q: exit code %d\n%s%s", args, code, out, errOut)
	}
	return out
}

func (i *installation) get(name string) (object.Object, error) {
	parts := strings.Split(name, "/")
	kind, ok := kinds.Named(parts[0])
	if !ok {
		i.Fatalf("kind %q", parts[0])
	}
	namespace := ""
	if kind.Namespaced {
		namespace = object.DefaultNamespace
	}
	if len(parts) == 3 {
		namespace = parts[1]
	}
	return i.Get(i.Context(), kind, namespace, parts[len(parts)-1])
}

// check returns an error unless objects, such as "service/web" or "service/shop/web", exist. A "!" before
// a name means that the object must not exist.
func (i *installation) check(names ...string) error {
	i.Helper()
	for _, name := range names {
		name, missing := strings.CutPrefix(name, "!")
		_, err := i.get(name)
		if err != nil && apierr.Code(err) != codes.NotFound {
			return err
		}
		if (err != nil) != missing {
			return fmt.Errorf("%s: exists %v", name, err == nil)
		}
	}
	return nil
}

// expect checks which objects there are.
func (i *installation) expect(names ...string) {
	i.Helper()
	for _, name := range names {
		if err := i.check(name); err != nil {
			i.Error(err)
		}
	}
}

// await waits until expect would succeed.
func (i *installation) await(names ...string) {
	i.Helper()
	kittest.Eventually(i, strings.Join(names, " "), func() error { return i.check(names...) })
}

// service returns a manifest of a service with the label app=app.
func service(namespace, name, app string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata:\n  name: %s\n  namespace: %s\n  labels: {app: %s}\nspec:\n  selector: {app: %s}\n  ports:\n  - port: 80\n", name, namespace, app, app)
}

// namespace returns a manifest of a namespace with the label app=app.
func namespace(name, app string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n  labels: {app: %s}\n", name, app)
}

// write writes files of a folder.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
