package replicas

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// installation is an allocator and any number of registries, each behind a door.
type installation struct {
	t         *testing.T
	store     string // DSN of the registries' store
	brokers   []*broker
	registry  *door // the address of the registries for the allocator; it leads to the first
	replicas  []*replica
	allocator *allocator
}

// allocator is the only allocator of an installation.
type allocator struct {
	i       *installation
	door    *door // its address for registries
	direct  *door // its address for the checks
	dir     string
	flags   []string
	process *process
	client  allocatorv1.AllocatorServiceClient
}

// replica is one registry of an installation.
type replica struct {
	i        *installation
	name     string
	door     *door
	process  *process
	conn     *grpc.ClientConn
	services registryv1.ServiceServiceClient
	changes  registryv1.ChangeServiceClient
}

// install starts an installation with some registries.
func install(t *testing.T, store string, nats []*broker, registries int, allocatorFlags ...string) *installation {
	t.Helper()
	i := &installation{t: t, store: store, brokers: nats, registry: openDoor(t)}
	i.allocator = &allocator{i: i, door: openDoor(t), direct: openDoor(t), dir: filepath.Join(t.TempDir(), "allocator"), flags: allocatorFlags}
	i.allocator.client = allocatorv1.NewAllocatorServiceClient(dial(t, i.allocator.direct))
	i.allocator.start()
	for n := range registries {
		r := &replica{i: i, name: fmt.Sprintf("registry-%d", n), door: openDoor(t)}
		r.conn = dial(t, r.door)
		r.services, r.changes = registryv1.NewServiceServiceClient(r.conn), registryv1.NewChangeServiceClient(r.conn)
		i.replicas = append(i.replicas, r)
		r.start()
	}
	return i
}

func dial(t *testing.T, d *door) *grpc.ClientConn {
	t.Helper()
	conn, err := rpc.TCP().Dial(d.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// within returns a context with the time limit of a call.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func (i *installation) flags() []string {
	return []string{"-addr", "127.0.0.1:0", "-http-addr", "127.0.0.1:0", "-log-format", "json", "-nats-url", natsURL(i.brokers)}
}

func (a *allocator) start() {
	a.i.t.Helper()
	args := append(a.i.flags(), "-registry", a.i.registry.addr(), "-data-dir", a.dir)
	a.process = start(a.i.t, "allocator", "allocator", append(args, a.flags...)...)
	addr := a.process.await("allocator listens", "addr")
	a.door.leadTo(addr)
	a.direct.leadTo(addr)
}

// kill kills the process and closes its doors.
func (a *allocator) kill() {
	a.process.kill()
	a.door.leadTo("")
	a.direct.leadTo("")
}

// held returns the allocation of each value that an object has.
func (a *allocator) held() (map[string]*allocatorv1.Allocation, error) {
	found := map[string]*allocatorv1.Allocation{}
	request := &allocatorv1.ListAllocationsRequest{PageSize: 1000}
	for {
		answer, err := a.client.ListAllocations(within(a.i.t), request, grpc.WaitForReady(true))
		if err != nil {
			return nil, err
		}
		for _, one := range answer.GetAllocations() {
			switch one.GetState() {
			case allocatorv1.AllocationState_ALLOCATION_STATE_RESTING, allocatorv1.AllocationState_ALLOCATION_STATE_RESERVED:
			default:
				found[one.GetValue()] = one
			}
		}
		if answer.GetNextPageToken() == "" {
			return found, nil
		}
		request.PageToken = answer.GetNextPageToken()
	}
}

func (r *replica) start() {
	r.i.t.Helper()
	r.process = start(r.i.t, r.name, "registry", append(r.i.flags(), "-store-file", kittest.SecretFile(r.i.t, r.i.store), "-allocator", r.i.allocator.door.addr(),
		"-stream-replicas", fmt.Sprint(len(r.i.brokers)))...)
	addr := r.process.await("registry listens", "addr")
	r.door.leadTo(addr)
	r.conn.ResetConnectBackoff()
	if r == r.i.replicas[0] {
		r.i.registry.leadTo(addr)
	}
}

// kill kills the process and closes its door.
func (r *replica) kill() {
	r.process.kill()
	r.door.leadTo("")
}

// ready reports whether the replica is ready, with its text.
func (r *replica) ready() (bool, string) {
	r.i.t.Helper()
	status, text, err := r.http("/readyz")
	if err != nil {
		return false, err.Error()
	}
	return status == http.StatusOK, text
}

// metric returns the value of a metric without labels.
func (r *replica) metric(name string) float64 {
	r.i.t.Helper()
	_, text, err := r.http("/metrics")
	if err != nil {
		r.i.t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				r.i.t.Fatal(err)
			}
			return number
		}
	}
	r.i.t.Fatalf("%s has no metric %s", r.name, name)
	return 0
}

// http asks the replica's port of metrics and health.
func (r *replica) http(path string) (status int, text string, err error) {
	r.i.t.Helper()
	answer, err := http.Get("http://" + r.process.await("starting", "http") + path)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(content), err
}

// head returns the newest revision.
func (r *replica) head() uint64 {
	r.i.t.Helper()
	head, err := r.changes.GetHead(within(r.i.t), &registryv1.GetHeadRequest{}, grpc.WaitForReady(true))
	if err != nil {
		r.i.t.Fatal(err)
	}
	return head.GetRevision()
}

// list returns all services once the replica has reached a revision.
func (r *replica) list(revision uint64) (map[string]*corev1.Service, error) {
	all := map[string]*corev1.Service{}
	request := &registryv1.ListServicesRequest{MinRevision: revision, PageSize: 1000}
	for {
		answer, err := r.services.ListServices(within(r.i.t), request, grpc.WaitForReady(true))
		if err != nil {
			return nil, err
		}
		for _, svc := range answer.GetServices() {
			all[svc.GetMetadata().GetName()] = svc
		}
		if answer.GetNextPageToken() == "" {
			return all, nil
		}
		request.PageToken = answer.GetNextPageToken()
	}
}
