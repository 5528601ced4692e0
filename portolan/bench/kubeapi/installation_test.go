package kubeapi

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// services is the number of services of an installation.
const services = 10_000

// description is the annotation that makes a service about as large as in `make bench-registry`.
var description = strings.Repeat("0", 300)

func name(i int) string { return fmt.Sprintf("svc-%05d", i) }

// service returns a service with a virtual IP.
func service(i int) *corev1.Service {
	ip := fmt.Sprintf("10.96.%d.%d", 1+i/250, 1+i%250)
	return &corev1.Service{
		Metadata: &corev1.ObjectMeta{
			Name: name(i), Namespace: object.DefaultNamespace, Labels: map[string]string{"app": name(i), "tier": "backend", "team": "payments"},
			Annotations: map[string]string{"description": description},
		},
		Spec: &corev1.ServiceSpec{
			ClusterIp: ip, ClusterIps: []string{ip}, Selector: map[string]string{"app": name(i)},
			Ports: []*corev1.ServicePort{{Name: "http", Port: 80}, {Name: "metrics", Port: 9090}},
		},
	}
}

// installation is a registry with an allocator and a kubeapi, and a database of their own.
type installation struct {
	*rig.Installation
	kubeapi *rig.Daemon
	url     string // of kubeapi
}

// install starts an installation with services.
func (b *bench) install(ctx context.Context) (*installation, error) {
	b.names++
	installed, err := b.rig.Install(ctx, fmt.Sprintf("kubeapi%d", b.names), allServices)
	if err != nil {
		return nil, err
	}
	i := &installation{Installation: installed}
	if i.kubeapi, err = i.StartFollower(ctx, "kubeapi"); err != nil {
		return nil, err
	}
	i.url = "http://" + i.kubeapi.Addr
	kittest.Eventually(b.T, "a list", func() error { return i.ready(ctx) })
	return i, nil
}

// allServices yields the services of an installation.
func allServices(yield func(object.Object) bool) {
	for n := range services {
		if !yield(service(n)) {
			return
		}
	}
}

// ready returns an error until kubeapi has all services.
func (i *installation) ready(ctx context.Context) error {
	_, err := i.get(ctx, fmt.Sprintf("/api/v1/services?resourceVersion=%d&limit=1", services), "application/json")
	return err
}

// get reads a path of kubeapi.
func (i *installation) get(ctx context.Context, path, accept string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, i.url+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", path, response.Status, body)
	}
	return body, err
}

// head returns the newest revision, after kubeapi has it too.
func (i *installation) head(ctx context.Context) (uint64, error) {
	head, err := registryv1.NewChangeServiceClient(i.Conn).GetHead(ctx, &registryv1.GetHeadRequest{})
	if err != nil {
		return 0, err
	}
	_, err = i.get(ctx, fmt.Sprintf("/api/v1/namespaces/default?resourceVersion=%d", head.GetRevision()), "application/json")
	return head.GetRevision(), err
}

// micros formats a duration in microseconds.
func micros(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }
