package allocator_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// leases serves the Leases of a log.
type leases struct {
	registryv1.UnimplementedLeaseServiceServer
	log *changestest.Log
}

func leaseKey(name string) object.Key {
	return object.Key{Kind: "Lease", Namespace: "default", Name: name}
}

func (l leases) get(name string) (*corev1.Lease, error) {
	lease, ok := l.log.Get(leaseKey(name)).(*corev1.Lease)
	if !ok {
		return nil, apierr.NotFound("Lease", name)
	}
	return lease, nil
}

func (l leases) GetLease(_ context.Context, req *registryv1.GetLeaseRequest) (*registryv1.GetLeaseResponse, error) {
	lease, err := l.get(req.GetName())
	return &registryv1.GetLeaseResponse{Lease: lease}, err
}

func (l leases) DeleteLease(_ context.Context, req *registryv1.DeleteLeaseRequest) (*registryv1.DeleteLeaseResponse, error) {
	lease, err := l.get(req.GetName())
	if err == nil && len(lease.GetMetadata().GetFinalizers()) == 0 {
		l.log.Delete(leaseKey(req.GetName()))
	}
	return &registryv1.DeleteLeaseResponse{Lease: lease}, err
}

// startWithLeases serves a registry with the objects of a log and its Leases, and returns its address.
func startWithLeases(t *testing.T, log *changestest.Log) string {
	t.Helper()
	lis := kittest.Listen(t)
	server := grpc.NewServer()
	log.Register(server)
	registryv1.RegisterServiceServiceServer(server, services{})
	registryv1.RegisterLeaseServiceServer(server, leases{log: log})
	kittest.Run(t, "registry", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, server.Stop)()
		return server.Serve(lis)
	})
	return lis.Addr().String()
}

func putLease(log *changestest.Log, name string, finalizers ...string) {
	log.Put(&corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, Finalizers: finalizers}})
}

func reserve(t *testing.T, c allocatorv1.AllocatorServiceClient, req *allocatorv1.ReserveRequest) (*allocatorv1.ReserveResponse, error) {
	t.Helper()
	req.Wishes = []*allocatorv1.ReserveWish{{Use: allocatorv1.Use_USE_CLUSTER_IP, Family: corev1.IPFamily_IP_FAMILY_IPV4, Count: 3}}
	return c.Reserve(t.Context(), req)
}

// TestReservesEndWithTheirLeases begins a reserve, stores a service with one of its values, and starts
// the allocator again: the Lease is deleted, the value belongs to the service, and the holder is told
// that its reserve is closed. A holder with a new Lease begins a new one.
func TestReservesEndWithTheirLeases(t *testing.T) {
	log := changestest.New(t)
	cfg := defaults(t)
	cfg.Registry, cfg.NATSPrefix = startWithLeases(t, log), changestest.Prefix
	cfg.ServiceCIDR = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/24")}
	nats := log.URL()
	const one, two = "portolan-reserve-1", "portolan-reserve-2"
	client, stop := start(t, cfg, nats)
	if _, err := reserve(t, client, &allocatorv1.ReserveRequest{Holder: one}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a reserve without a Lease: %v", err)
	}
	putLease(log, one)
	resp, err := reserve(t, client, &allocatorv1.ReserveRequest{Holder: one})
	epoch, _, _, _ := log.Head(t.Context())
	if err != nil || len(resp.GetGranted()) != 3 || resp.GetLogEpoch() != epoch {
		t.Fatalf("%v, %v; want 3 values for the log %s", resp, err, epoch)
	}
	ip := resp.GetGranted()[0].GetValue()
	log.Put(&corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:     &corev1.ServiceSpec{ClusterIp: ip, ClusterIps: []string{ip}},
	})
	stop()

	client, stop = start(t, cfg, nats)
	defer stop()
	if _, err := reserve(t, client, &allocatorv1.ReserveRequest{Holder: one}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a reserve from before the start: %v", err)
	}
	if log.Get(leaseKey(one)) != nil {
		t.Error("the Lease is still there")
	}
	if got, want := pools(t, client), "node-port 30000-32767 0, service-ipv4 10.96.0.0/24 1"; got != want {
		t.Errorf("pools %q, want %q", got, want)
	}
	putLease(log, two)
	if resp, err := reserve(t, client, &allocatorv1.ReserveRequest{Holder: two}); err != nil || len(resp.GetGranted()) != 3 {
		t.Errorf("a new reserve: %v, %v", resp, err)
	}
}

// TestANewLogIsAdoptedWhileRunning gives the registry's log a new epoch. The allocator closes the
// reserve and then answers for the new log. A Lease that cannot be deleted keeps it from doing so.
func TestANewLogIsAdoptedWhileRunning(t *testing.T) {
	log := changestest.New(t)
	cfg := defaults(t)
	cfg.Registry, cfg.NATSPrefix = startWithLeases(t, log), changestest.Prefix
	client, stop := start(t, cfg, log.URL())
	defer stop()
	const holder = "portolan-reserve-1"
	allocate(t, client, "first") // the start is over
	putLease(log, holder, "example.com/stay")
	if _, err := reserve(t, client, &allocatorv1.ReserveRequest{Holder: holder}); err != nil {
		t.Fatal(err)
	}
	epoch, err := log.NewEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log.Put(&corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"}})
	kittest.Eventually(t, "allocation to be refused", func() error {
		if _, err := client.Allocate(t.Context(), allocation("early")); status.Code(err) != codes.Unavailable {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	putLease(log, holder)
	kittest.Eventually(t, "allocation for the new log", func() error {
		resp, err := client.Allocate(t.Context(), allocation("late"))
		if err != nil || resp.GetLogEpoch() != epoch || log.Get(leaseKey(holder)) != nil {
			return fmt.Errorf("%v, %w; the log is %s", resp, err, epoch)
		}
		return nil
	})
}
