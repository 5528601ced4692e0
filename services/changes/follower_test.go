package changes_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
)

func TestFollow(t *testing.T) {
	log := changestest.New(t)
	log.Put(service("a", 1), node("n1"))
	f := log.Follow(changes.FollowerConfig{NATS: log.NATS()})
	log.WaitFor(f)
	log.Put(service("b", 1), service("a", 2))
	log.Delete(serviceKey("b"))
	log.WaitFor(f)
	waitForView(t, log, f)
}

func TestFollowWithoutNATS(t *testing.T) {
	log := changestest.New(t)
	f := log.Follow(fast(changes.FollowerConfig{}))
	log.Put(service("a", 1), node("n1"))
	log.WaitFor(f)
	log.Put(service("b", 1))
	log.WaitFor(f)
	waitForView(t, log, f)
}

// TestAFollowerThatEndedHearsNothing checks that a follower unsubscribes at its end, while the
// connection stays open.
func TestAFollowerThatEndedHearsNothing(t *testing.T) {
	log := changestest.New(t)
	nc := log.NATS()
	before := nc.NumSubscriptions()
	follower, err := changes.NewFollower(fast(changes.FollowerConfig{
		Registry: log.Conn(), NATS: nc, Prefix: changestest.Prefix, Log: kittest.Logger(t), Apply: newReplay().apply,
	}))
	if err != nil {
		t.Fatal(err)
	}
	stop := kittest.Run(t, "follower", follower.Run)
	log.Put(service("a", 1))
	log.WaitFor(follower)
	if n := nc.NumSubscriptions(); n != before+1 {
		t.Errorf("%d subscriptions while it follows, %d before", n, before)
	}
	stop()
	if n := nc.NumSubscriptions(); n != before {
		t.Errorf("%d subscriptions after its end, %d before it", n, before)
	}
}

// movable is an address behind which a NATS server can be stopped and restarted on different ports.
type movable struct {
	t    *testing.T
	dir  string
	addr atomic.Pointer[string]
	srv  *server.Server
}

func (m *movable) start() {
	m.t.Helper()
	srv, _ := kittest.NATSAt(m.t, m.dir, server.RANDOM_PORT)
	addr := srv.Addr().String()
	m.srv = srv
	m.addr.Store(&addr)
}

func (m *movable) stop() {
	m.addr.Store(nil)
	kittest.StopNATS(m.srv)
}

// Dial implements nats.CustomDialer.
func (m *movable) Dial(network, _ string) (net.Conn, error) {
	addr := m.addr.Load()
	if addr == nil {
		return nil, net.ErrClosed
	}
	return net.Dial(network, *addr)
}

func (m *movable) connect() *nats.Conn {
	m.t.Helper()
	return impatient(m.t, "nats://127.0.0.1:4222", nats.SetCustomDialer(m), nats.RetryOnFailedConnect(true))
}

// TestNATSComesAndGoes runs a follower that starts without NATS, gets it, loses it, and gets it
// again.
func TestNATSComesAndGoes(t *testing.T) {
	bus := &movable{t: t, dir: t.TempDir()}
	log := changestest.New(t)
	putMany(log, 10)
	kittest.Run(t, "relay", relayOf(t, log, "", func(cfg *changes.RelayConfig) { cfg.NATS = bus.connect() }).Run)
	f := log.Follow(fast(changes.FollowerConfig{NATS: bus.connect()}))
	log.WaitFor(f)

	for range 2 {
		bus.start()
		js := jetStreamOn(t, bus.connect())
		waitForStreamAt(t, js, log, log.Revision())
		putMany(log, 100)
		waitForStreamAt(t, js, log, log.Revision())
		log.WaitFor(f)
		bus.stop()
		putMany(log, 100)
		log.WaitFor(f)
	}
	waitForView(t, log, f)
}

// TestSlowConsumer checks that changes dropped from a full queue while Apply is busy are read from
// the log later.
func TestSlowConsumer(t *testing.T) {
	log := changestest.New(t)
	busy := make(chan struct{})
	got := newReplay()
	f := log.Follow(fast(changes.FollowerConfig{NATS: log.NATS(), Queue: 8, Apply: func(ctx context.Context, batch []changes.Change, revision uint64) error {
		if revision > 0 {
			select {
			case <-busy:
			case <-ctx.Done():
			}
		}
		return got.apply(ctx, batch, revision)
	}}))
	kittest.Eventually(t, "first snapshot", func() error {
		if !f.Synced() {
			return fmt.Errorf("not synced")
		}
		return nil
	})
	putMany(log, 1000)
	waitForStreamAt(t, jetStream(t, log.URL()), log, 1000)
	close(busy)
	log.WaitFor(f)
	waitForView(t, log, f)
}

// TestRegistryComesAndGoes runs a follower with the registry away at the start and again later.
// Health reports it, and the view stays.
func TestRegistryComesAndGoes(t *testing.T) {
	log := changestest.New(t)
	putMany(log, 10)
	registry := &outage{ClientConnInterface: log.Conn()}
	registry.down.Store(true)
	status := health.New(kittest.Logger(t))
	cfg := fast(changes.FollowerConfig{Registry: registry, Health: status})
	cfg.StaleAfter = 10 * cfg.BookmarkEvery
	f := log.Follow(cfg)
	if status.Ready() == nil || f.Synced() {
		t.Error("ready before the first snapshot")
	}
	registry.down.Store(false)
	log.WaitFor(f)
	kittest.Eventually(t, "readiness", status.Ready)

	registry.down.Store(true)
	kittest.Eventually(t, "health to say that the view is stale", func() error {
		if status.Ready() == nil {
			return fmt.Errorf("still ready")
		}
		return nil
	})
	if err := same(stateOf(log), viewOf(f)); err != nil {
		t.Errorf("the view did not stay: %v", err)
	}
	putMany(log, 10)
	registry.down.Store(false)
	log.WaitFor(f)
	kittest.Eventually(t, "readiness", status.Ready)
	waitForView(t, log, f)
}

// TestManyThingsAtOnce follows a log while NATS, the registry and the log fail in random ways at
// the same time.
func TestManyThingsAtOnce(t *testing.T) {
	srv, url := kittest.NATS(t)
	log := changestest.New(t)
	js := jetStream(t, url)
	for i := range 2 {
		relay := relayOf(t, log, url, func(cfg *changes.RelayConfig) { cfg.NATS = impatient(t, url, nats.Name(cuttable)) })
		kittest.Run(t, fmt.Sprintf("relay %d", i), relay.Run)
	}
	registry := &outage{ClientConnInterface: log.Conn()}
	var followers []*changes.Follower
	for _, kinds := range [][]string{nil, {"Service"}, {"Node"}} {
		followers = append(followers, log.Follow(fast(changes.FollowerConfig{
			Registry: registry, NATS: impatient(t, url, nats.Name(cuttable)), Kinds: kinds, Apply: newReplay().apply,
		})))
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	for range 400 {
		switch n := dice.IntN(100); {
		case n < 60:
			putMany(log, 1+dice.IntN(50))
		case n < 75:
			log.Put(node(fmt.Sprintf("n%d", dice.IntN(5))))
		case n < 85:
			log.Delete(serviceKey(fmt.Sprintf("s%d.example", dice.IntN(7))))
		case n < 88:
			cutConnections(t, srv)
		case n < 92:
			registry.down.Store(!registry.down.Load())
		case n < 95:
			log.Prune(log.Revision() - min(log.Revision(), uint64(dice.IntN(20))))
		case n < 97:
			_ = js.DeleteStream(t.Context(), changestest.Stream) // the stream or the server may be gone
		default:
			registry.down.Store(false)
			log.WaitFor(followers[dice.IntN(len(followers))])
		}
	}
	registry.down.Store(false)
	for i, kinds := range [][]string{nil, {"Service"}, {"Node"}} {
		f := followers[i]
		log.WaitFor(f)
		kittest.Eventually(t, "view to be the log's", func() error { return same(stateOf(log, kinds...), viewOf(f)) })
	}
	waitForStreamAt(t, js, log, log.Revision())
}
