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
	"portolan.dev/faults/history"
	"portolan.dev/faults/sim/network"
	"portolan.dev/faults/sim/stores"
	"portolan.dev/registry"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
)

// Times of the allocator's verifier. A write is under way for less than the grace, as with the
// defaults.
const (
	verifyGrace    = 30 * time.Second
	verifyInterval = 5 * time.Second
)

// addresses are the addresses of the daemons, by their names.
var addresses = map[string]string{"registry-a": "10.0.0.1:7400", "registry-b": "10.0.0.2:7400", allocatorName: "10.0.0.3:7401"}

// serviceRange and nodePorts are few, so that values are soon used again.
var serviceRange = netip.MustParsePrefix("10.96.0.0/28")

const (
	nodePorts     = "30000-30007"
	firstNodePort = 30000
	nodePortCount = 8
)

// cluster is registries and an allocator that call each other, with their stores and clients.
type cluster struct {
	world       *world
	mesh        *network.Mesh
	database    *stores.Database
	disk        *stores.Disk
	accountBook *accountBook

	conns    map[string]*grpc.ClientConn // of clients, by client and registry
	clients  sync.WaitGroup              // calls under way
	recorder *history.Recorder

	mu    sync.Mutex
	known map[string]history.Version // guarded by mu: of services, by name, as the newest answer says
}

// newCluster returns a cluster without daemons in a world. It ends the relay of the world, because
// the registries have their own relays.
func newCluster(w *world) *cluster {
	c := &cluster{
		world: w, mesh: network.NewMesh(w.weather), database: stores.NewDatabase(w.weather), disk: stores.NewDisk(w.weather),
		conns: map[string]*grpc.ClientConn{}, recorder: history.NewRecorder(), known: map[string]history.Version{},
	}
	c.accountBook = newAccountBook(c.disk)
	c.database.Committed, c.disk.Applied, c.mesh.Answered = c.accountBook.committed, c.accountBook.applied, c.accountBook.answered
	w.end(relayName, false)
	w.broker.LoseStream()
	w.join = func(name string) member { return &body{Member: c.mesh.Join(name)} }
	w.cluster = c
	return c
}

// body is the network of a daemon that dies together with the daemon's way to its store.
type body struct {
	*network.Member

	mu    sync.Mutex
	store interface{ Kill() }
}

// Kill implements member.
func (b *body) Kill() {
	b.Member.Kill()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.store != nil {
		b.store.Kill()
	}
}

func (b *body) use(store interface{ Kill() }) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.store = store
}

func (c *cluster) startRegistry(name string) {
	c.start(name, func(ctx context.Context, host app.Host, body *body) (app.Daemon, error) {
		var cfg registry.Config
		config.Defaults(&cfg)
		cfg.Addr, cfg.Allocator, cfg.ServiceCIDR = addresses[name], addresses[allocatorName], []netip.Prefix{serviceRange}
		return registry.NewOn(ctx, cfg, host, func(_ context.Context, commits store.CommitterOptions) (store.Store, error) {
			s := c.database.Open(name, commits)
			body.use(s)
			return s, nil
		})
	})
}

func (c *cluster) startAllocator() {
	c.start(allocatorName, func(ctx context.Context, host app.Host, body *body) (app.Daemon, error) {
		var cfg allocator.Config
		config.Defaults(&cfg)
		cfg.Addr, cfg.Registry = addresses[allocatorName], addresses["registry-a"]+","+addresses["registry-b"]
		cfg.ServiceCIDR, cfg.NodePortRange = []netip.Prefix{serviceRange}, nodePorts
		cfg.VerifyGrace, cfg.VerifyInterval, cfg.ReuseDelay = verifyGrace, verifyInterval, time.Second
		file := c.disk.Open(allocatorName)
		body.use(file)
		return allocator.NewOn(ctx, cfg, host, file)
	})
}

// start runs a daemon unless it runs already. One that does not start, because its store fails, is
// started again, as a supervisor does.
func (c *cluster) start(name string, open func(context.Context, app.Host, *body) (app.Daemon, error)) {
	c.world.start(name, func(ctx context.Context, host app.Host) (app.Daemon, error) {
		body, _ := host.Network.(*body)
		for {
			host.Metrics = prometheus.NewRegistry()
			d, err := open(ctx, host, body)
			if err == nil {
				return d, nil
			}
			host.Log.Warn("not started", "err", err)
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
