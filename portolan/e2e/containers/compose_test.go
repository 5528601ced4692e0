package containers

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/portolan/e2e/labtest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

const (
	// subnet is the network of the project, and backend the address of its container that serves.
	subnet  = "10.50.0.0/24"
	backend = "10.50.0.80"
	port    = 8080
)

// services are added to the services of the document. The container `db` is the backend of Portolan's
// service `inside`. Other containers also reach it as `db`, a name of the project and not of Portolan.
const services = `
  db:
    image: ` + image + `
    command: [sh, -c, "mkdir /www && echo from the container >/www/index.html && exec httpd -f -p 8080 -h /www"]
    networks: {default: {ipv4_address: ` + backend + `}}
networks:
  default: {ipam: {config: [{subnet: ` + subnet + `}]}}
`

// TestNamesInContainers runs the project of docs/containers.md in each mode of the agent. One of the
// services has its backend beside the host, the other one in a container of the same project.
func TestNamesInContainers(t *testing.T) {
	labtest.Need(t)
	kernel := slices.DeleteFunc(labtest.Modes(), func(mode string) bool { return mode == "userspace" })
	if len(kernel) == 0 {
		t.Skip("allowed: the kernel has no plane, and without one no node can forward an address that it lacks")
	}
	for _, mode := range kernel {
		t.Run(mode, func(t *testing.T) {
			lab := labtest.Install(t, labtest.Options{Nodes: []labtest.NodeOptions{{Name: "host", ProxyMode: mode}}})
			e := startEngine(t, lab.Nodes[0].Namespace)
			dir := project(t, lab.DNS().Addr())
			e.run(dir, append(slices.Clone(e.compose), "up", "-d")...)
			t.Cleanup(func() { e.run(dir, append(slices.Clone(e.compose), "down", "-v", "-t", "0")...) })

			offer(lab, "outside", serveInHub(t, lab))
			offer(lab, "inside", backend)
			for _, page := range []struct{ url, want string }{
				{"http://outside.default.svc.cluster.local/", "from beside the host"},
				{"http://outside.default/", "from beside the host"},
				{"http://outside/", "from beside the host"},
				{"http://inside/", "from the container"},
				{fmt.Sprintf("http://db:%d/", port), "from the container"}, // a name of the project
			} {
				kittest.Eventually(t, page.url, func() error { return e.fetch(dir, page.url, page.want) })
			}
		})
	}
}

// fetch gets a page in the container of the document.
func (e *engine) fetch(dir, url, want string) error {
	out, err := e.try(dir, append(slices.Clone(e.compose), "exec", "-T", "shop", "curl", "-sSm", "5", url)...)
	if err == nil && strings.TrimSpace(out) != want {
		err = fmt.Errorf("want %q", want)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

var example = regexp.MustCompile("(?s)```yaml\n(x-portolan: .*?)```")

// project writes the compose file of the document, with the lab's name server, an image that the engine
// has, and the other services. It returns the folder.
func project(t *testing.T, nameServer netip.Addr) string {
	t.Helper()
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	match := example.FindSubmatch(text)
	if match == nil {
		t.Fatalf("%s has no compose file with x-portolan", manual)
	}
	file := string(match[1])
	for from, to := range map[string]string{
		"[10.0.0.1, 10.0.0.2]": "[" + nameServer.String() + "]",
		"image: shop:1":        "image: " + image + "\n    command: [sleep, \"86400\"]",
	} {
		if !strings.Contains(file, from) {
			t.Fatalf("the compose file of %s has no %q", manual, from)
		}
		file = strings.ReplaceAll(file, from, to)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "docker-compose.yml"), []byte(file+services), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// serveInHub serves a page in the hub, which is another machine than the node, and returns its address.
func serveInHub(t *testing.T, lab *labtest.Installation) string {
	t.Helper()
	addr := lab.DNS().Addr().String()
	lis, err := net.Listen("tcp", net.JoinHostPort(addr, fmt.Sprint(port)))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "from beside the host")
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(lis) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := kittest.Receive(t, "the end of the server", done); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return addr
}

// offer makes a service with one endpoint.
func offer(lab *labtest.Installation, name, addr string) {
	lab.Helper()
	at := int32(port)
	for _, o := range []object.Object{
		&corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name}, Spec: &corev1.ServiceSpec{
			Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		}},
		&corev1.EndpointSlice{
			Metadata:    &corev1.ObjectMeta{Namespace: "default", Name: name + "-1", Labels: map[string]string{object.LabelServiceName: name}},
			AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4, Ports: []*corev1.EndpointPort{{Port: &at, Protocol: corev1.Protocol_PROTOCOL_TCP}},
			Endpoints: []*corev1.Endpoint{{Addresses: []string{addr}}},
		},
	} {
		if _, err := lab.Registry.Apply(lab.Context(), o, false); err != nil {
			lab.Fatalf("apply %s: %v", object.KeyOf(o), err)
		}
	}
}
