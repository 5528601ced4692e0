package program

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/jackc/pgx/v5"
	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"

	"portolan.dev/allocator"
)

// installation is a registry's log, and the allocators that follow it.
type installation struct {
	*testing.T
	log *changestest.Log
	cfg allocator.Config
}

// newInstallation serves a log, and configures allocators with a store.
func newInstallation(t *testing.T, dsn string) *installation {
	t.Helper()
	i := &installation{T: t, log: changestest.New(t)}
	lis := kittest.Listen(t)
	server := grpc.NewServer()
	i.log.Register(server)
	kittest.Run(t, "registry", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, server.Stop)()
		return server.Serve(lis)
	})
	config.Defaults(&i.cfg)
	i.cfg.Addr, i.cfg.Registry, i.cfg.NATSPrefix = "127.0.0.1:0", lis.Addr().String(), changestest.Prefix
	i.cfg.ServiceCIDR = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/24")}
	i.cfg.StoreFile = kittest.SecretFile(t, dsn)
	return i
}

// build makes an allocator.
func (i *installation) build() (*allocator.Daemon, app.Host, error) {
	if err := i.cfg.Validate(); err != nil {
		return nil, app.Host{}, err
	}
	host := kittest.Host(i.T, rpc.TCP(), i.log.URL())
	d, err := New(i.Context(), i.cfg, host)
	return d, host, err
}

// run runs an allocator and returns a client of it.
func (i *installation) run(d *allocator.Daemon) (client allocatorv1.AllocatorServiceClient, stop func()) {
	i.Helper()
	stop = kittest.Run(i.T, "allocator", d.Run)
	conn, err := rpc.TCP().Dial(d.Addr().String())
	if err != nil {
		i.Fatal(err)
	}
	i.Cleanup(func() { _ = conn.Close() })
	return allocatorv1.NewAllocatorServiceClient(conn), stop
}

// claim allocates an address, a certain one if value is not empty.
func claim(ctx context.Context, c allocatorv1.AllocatorServiceClient, uid, value string) (string, error) {
	resp, err := c.Allocate(ctx, &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{{
		Owner:  &allocatorv1.Owner{Uid: uid, Kind: "Service", Namespace: "default", Name: uid},
		Claims: []*allocatorv1.Claim{{Slot: "ip", Use: allocatorv1.Use_USE_CLUSTER_IP, Value: value}},
	}}})
	if err != nil {
		return "", err
	}
	if failures := resp.GetResults()[0].GetFailures(); len(failures) > 0 {
		return "", fmt.Errorf("%w: %s", errRefused, failures[0].GetMessage())
	}
	return resp.GetResults()[0].GetValues()[0], nil
}

var errRefused = errors.New("refused")

// built is an allocator, or the reason why there is none.
type built struct {
	daemon *allocator.Daemon
	err    error
}

// TestAllocatorsStartAtOnce starts two allocators on an empty database at the same time. Both serve,
// and each lists the pools that the other has stored.
func TestAllocatorsStartAtOnce(t *testing.T) {
	i := newInstallation(t, kittest.Postgres(t))
	results := make(chan built, 2)
	for range cap(results) {
		go func() {
			d, _, err := i.build()
			results <- built{d, err}
		}()
	}
	var clients []allocatorv1.AllocatorServiceClient
	for range cap(results) {
		r := kittest.Receive(t, "an allocator", results)
		if r.err != nil {
			t.Fatal(r.err)
		}
		client, stop := i.run(r.daemon)
		defer stop()
		clients = append(clients, client)
	}
	for n, c := range clients {
		value, err := claim(t.Context(), c, fmt.Sprint("u", n), "")
		if err != nil {
			t.Fatal(err)
		}
		other := clients[1-n]
		pools, err := other.ListPools(t.Context(), &allocatorv1.ListPoolsRequest{})
		if err != nil || len(pools.GetPools()) != 2 || pools.GetPools()[1].GetUsed() != uint64(n+1) {
			t.Errorf("after %d allocations the other has the pools %v, %v", n+1, pools, err)
		}
		listed, err := other.ListAllocations(t.Context(), &allocatorv1.ListAllocationsRequest{OwnerUid: fmt.Sprint("u", n)})
		if err != nil || len(listed.GetAllocations()) != 1 || listed.GetAllocations()[0].GetValue() != value {
			t.Errorf("the other lists %v, %v; want %s", listed, err, value)
		}
		if again, err := claim(t.Context(), other, fmt.Sprint("u", n), ""); err != nil || again != value {
			t.Errorf("asked again at the other: %s, %v; want %s", again, err, value)
		}
	}
}

// TestARestoredDatabaseGivesNothingTwice restores an older copy of the database under a running
// allocator. A service has got an address since, which looks free in the copy.
func TestARestoredDatabaseGivesNothingTwice(t *testing.T) {
	dsn := kittest.Postgres(t)
	i := newInstallation(t, dsn)
	d, host, err := i.build()
	if err != nil {
		t.Fatal(err)
	}
	client, stop := i.run(d)
	defer stop()
	if _, err := claim(t.Context(), client, "old", ""); err != nil {
		t.Fatal(err)
	}
	admin, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = admin.Close(t.Context()) }()
	copies := `CREATE SCHEMA backup;`
	var back string
	for _, table := range []string{"allocator_head", "allocator_batches", "allocator_pools", "allocator_allocations", "allocator_reserves"} {
		copies += fmt.Sprintf(`CREATE TABLE backup.%s AS TABLE allocator.%s;`, table, table)
		back += fmt.Sprintf(`DELETE FROM allocator.%s; INSERT INTO allocator.%s SELECT * FROM backup.%s;`, table, table, table)
	}
	if _, err := admin.Exec(t.Context(), copies); err != nil {
		t.Fatal(err)
	}
	ip, err := claim(t.Context(), client, "web", "10.96.0.77")
	if err != nil {
		t.Fatal(err)
	}
	i.log.Put(&corev1.Service{
		Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:     &corev1.ServiceSpec{ClusterIp: ip, ClusterIps: []string{ip}},
	})
	if _, err := admin.Exec(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "an answer about an address in use", func() error {
		switch got, err := claim(t.Context(), client, "thief", ip); {
		case errors.Is(err, errRefused):
			return nil
		case err == nil:
			t.Fatalf("%s was allocated although a service has it", got)
			return nil
		default:
			return err
		}
	})
	if _, err := claim(t.Context(), client, "new", ""); err != nil {
		t.Errorf("afterwards nothing is allocated: %v", err)
	}
	if err := host.Health.Ready(); err != nil {
		t.Errorf("afterwards the allocator is not ready: %v", err)
	}
}

// TestAnAllocatorWaitsForItsDatabase starts an allocator before its database.
func TestAnAllocatorWaitsForItsDatabase(t *testing.T) {
	cluster := kittest.NewCluster(t)
	i := newInstallation(t, cluster.Database(t))
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	host := kittest.Host(t, rpc.TCP(), i.log.URL())
	started := make(chan built, 1)
	go func() {
		d, err := New(t.Context(), i.cfg, host)
		started <- built{d, err}
	}()
	kittest.Eventually(t, "the failed check of the store", func() error {
		if err := host.Health.Ready(); err == nil {
			return errors.New("ready without a store")
		}
		return nil
	})
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	r := kittest.Receive(t, "the allocator", started)
	if r.err != nil {
		t.Fatal(r.err)
	}
	client, stop := i.run(r.daemon)
	defer stop()
	if _, err := claim(t.Context(), client, "u", ""); err != nil {
		t.Error(err)
	}
}
