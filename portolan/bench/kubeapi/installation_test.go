package kubeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/portolan/bench/internal/rig"
	"portolan.dev/registry"
	"portolan.dev/registry/program"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"
)

// services is the number of services of an installation.
const services = 10_000

// description is the annotation that makes a service about as large as those of `make bench-registry`.
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
	allocator, registry, kubeapi *rig.Daemon
	conn                         *grpc.ClientConn
	url                          string // of kubeapi
}

// install fills a database with services and starts the daemons on it.
func (b *bench) install(ctx context.Context) (*installation, error) {
	b.names++
	id := fmt.Sprintf("kubeapi%d", b.names)
	dsn, err := b.seed(ctx, id)
	if err != nil {
		return nil, err
	}
	registryAddr, err := rig.FreeAddr()
	if err != nil {
		return nil, err
	}
	i, common := &installation{}, []string{"-nats-prefix", id}
	cidr := []string{"-service-cidr", "10.96.0.0/16"}
	if i.allocator, err = b.rig.StartDaemon(ctx, "allocator", append(append(cidr, common...), "-data-dir", filepath.Join(b.rig.Dir, id), "-registry", registryAddr)...); err != nil {
		return nil, err
	}
	if i.registry, err = b.rig.StartDaemon(ctx, "registry", append(append(cidr, common...), "-store", dsn, "-allocator", i.allocator.Addr, "-addr", registryAddr)...); err != nil {
		return nil, err
	}
	if i.kubeapi, err = b.rig.StartDaemon(ctx, "kubeapi", append(common, "-registry", registryAddr)...); err != nil {
		return nil, err
	}
	i.url = "http://" + i.kubeapi.Addr
	if i.conn, err = rpc.TCP().Dial(i.registry.Addr); err != nil {
		return nil, err
	}
	b.rig.Defer(func() { _ = i.conn.Close() })
	kittest.Eventually(b.T, "a list", func() error { return i.ready(ctx) })
	return i, nil
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

// stop ends the daemons, so that they do not use the CPU while others are measured.
func (i *installation) stop() {
	for _, d := range []*rig.Daemon{i.kubeapi, i.registry, i.allocator} {
		d.Stop()
	}
}

// head returns the newest revision, after kubeapi has it too.
func (i *installation) head(ctx context.Context) (uint64, error) {
	head, err := registryv1.NewChangeServiceClient(i.conn).GetHead(ctx, &registryv1.GetHeadRequest{})
	if err != nil {
		return 0, err
	}
	_, err = i.get(ctx, fmt.Sprintf("/api/v1/namespaces/default?resourceVersion=%d", head.GetRevision()), "application/json")
	return head.GetRevision(), err
}

// seed fills a database with the services before a registry runs on it. It returns the database's DSN.
func (b *bench) seed(ctx context.Context, id string) (string, error) {
	dsn, err := b.rig.Postgres.Database(ctx, id)
	if err != nil {
		return "", err
	}
	s, err := program.OpenStore(ctx, registry.Config{Store: dsn}, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	defer s.Close()
	err = s.Restore(ctx, 0, services, func(yield func(store.Row, error) bool) {
		for n := range services {
			if !yield(row(service(n), uint64(n)+1)) { // #nosec G115 -- small
				return
			}
		}
	})
	return dsn, errors.Join(err, b.rig.Postgres.Tidy(ctx, id))
}

// row returns a service as it is stored, with the metadata that the registry sets.
func row(s *corev1.Service, revision uint64) (store.Row, error) {
	s.Metadata.Uid, s.Metadata.Generation, s.Metadata.CreationTimestamp = fmt.Sprintf("uid-%d", revision), 1, timestamppb.Now()
	data, err := store.Encode(s)
	return store.Row{Key: object.KeyOf(s), UID: s.Metadata.GetUid(), Revision: revision, Data: data}, err
}

// micros formats a duration in microseconds.
func micros(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1000 / float64(n) }
