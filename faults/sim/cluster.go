package sim

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"portolan.dev/allocator"
	allocatorstore "portolan.dev/allocator/store"
	"portolan.dev/faults/history"
	"portolan.dev/faults/sim/network"
	"portolan.dev/faults/sim/stores"
	"portolan.dev/registry"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
)

// Times of the allocator's verifier. As with the defaults, no write takes longer than the grace.
const (
	verifyGrace    = 30 * time.Second
	verifyInterval = 5 * time.Second
)

// addresses has the listen addresses of the daemons, by name.
var addresses = map[string]string{"registry-a": "10.0.0.1:7400", "registry-b": "10.0.0.2:7400", allocatorName: "10.0.0.3:7401"}

// serviceRange has few addresses, so that addresses are soon used again.
var serviceRange = netip.MustParsePrefix("10.96.0.0/28")

// There are few node ports, so that ports are soon used again.
const (
	nodePorts     = "30000-30007"
	firstNodePort = 30000
	nodePortCount = 8
)

// cluster consists of two registries and an allocator, with their stores and clients.
type cluster struct {
	world     *world
	mesh      *network.Mesh
	database  *stores.Database
	disk      *stores.Disk
	ownership *ownershipChecker

	conns    map[string]*grpc.ClientConn // connections of clients, by client and registry
	clients  sync.WaitGroup              // the calls in progress
	recorder *history.Recorder

	mu           sync.Mutex
	lastVersions map[string]history.Version // guarded by mu; from the newest replies, by service name
}

// newCluster returns a cluster without daemons. It stops the relay of the world, because the
// registries have their own relays.
func newCluster(w *world) *cluster {
	c := &cluster{
		world: w, mesh: network.NewMesh(w.emulator), database: stores.NewDatabase(w.emulator), disk: stores.NewDisk(w.emulator),
		conns: map[string]*grpc.ClientConn{}, recorder: history.NewRecorder(), lastVersions: map[string]history.Version{},
	}
	c.ownership = newOwnershipChecker(c.disk)
	c.database.OnCommit, c.disk.OnApply, c.mesh.OnReply = c.ownership.onCommit, c.ownership.onApply, c.ownership.onReply
	w.stop(relayName, false)
	w.broker.LoseStream()
	w.joinNetwork = func(name string) killableNetwork { return &storeMember{Member: c.mesh.Join(name)} }
	w.cluster = c
	return c
}

// storeMember is the network of a daemon with a store. Killing it also kills the connection to the
// store.
type storeMember struct {
	*network.Member

	mu    sync.Mutex
	store interface{ Kill() }
}

// Kill implements killableNetwork.
func (m *storeMember) Kill() {
	m.Member.Kill()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.store != nil {
		m.store.Kill()
	}
}

func (m *storeMember) setStore(store interface{ Kill() }) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store = store
}

func (c *cluster) startRegistry(name string) {
	c.start(name, func(ctx context.Context, host app.Host, member *storeMember) (app.Daemon, error) {
		var cfg registry.Config
		config.Defaults(&cfg)
		cfg.Addr, cfg.Allocator, cfg.ServiceCIDR = addresses[name], addresses[allocatorName], []netip.Prefix{serviceRange}
		return registry.NewOn(ctx, cfg, host, func(_ context.Context, _ registry.Config, commits store.CommitterOptions) (store.Store, error) {
			s := c.database.Open(name, commits)
			member.setStore(s)
			return s, nil
		})
	})
}

func (c *cluster) startAllocator() {
	c.start(allocatorName, func(ctx context.Context, host app.Host, member *storeMember) (app.Daemon, error) {
		var cfg allocator.Config
		config.Defaults(&cfg)
		cfg.Addr, cfg.Registry = addresses[allocatorName], addresses["registry-a"]+","+addresses["registry-b"]
		cfg.ServiceCIDR, cfg.NodePortRange = []netip.Prefix{serviceRange}, nodePorts
		cfg.VerifyGrace, cfg.VerifyInterval, cfg.ReuseDelay = verifyGrace, verifyInterval, time.Second
		file := c.disk.Open(allocatorName)
		member.setStore(file)
		return allocator.NewOn(ctx, cfg, host, func(context.Context, allocator.Config) (allocatorstore.Store, error) { return file, nil })
	})
}

// start starts a daemon unless it runs. It tries again every second if the daemon does not start
// because its store fails, as a supervisor does.
func (c *cluster) start(name string, open func(context.Context, app.Host, *storeMember) (app.Daemon, error)) {
	c.world.start(name, func(ctx context.Context, host app.Host) (app.Daemon, error) {
		member, _ := host.Network.(*storeMember)
		for {
			host.Metrics = prometheus.NewRegistry()
			d, err := open(ctx, host, member)
			if err == nil {
				return d, nil
			}
			host.Log.Warn("the daemon did not start", "err", err)
			if !app.Pause(ctx, time.Second) {
				return nil, err
			}
		}
	})
}

// conn returns the connection of a client to a registry.
func (c *cluster) conn(client, registry string) (*grpc.ClientConn, error) {
	key := client + " " + registry
	if c.conns[key] == nil {
		conn, err := c.mesh.Join(client).Dial(addresses[registry])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		c.conns[key] = conn
	}
	return c.conns[key], nil
}

func (c *cluster) close() {
	for _, conn := range c.conns {
		conn.Close()
	}
}
