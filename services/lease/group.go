package lease

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/spec"
)

// Config is the configuration of a [Group].
type Config struct {
	Client    registryv1.LeaseServiceClient
	Log       *slog.Logger
	Namespace string
	// Name is the name of the Lease of shard 0. The others' names are in services/spec.
	Name string
	// Identity is the name of this replica in the leases. No other running replica may have it. A
	// replica with the same identity after a restart takes its leases back at once.
	Identity string
	// Duration is the time after which a lease that is not renewed expires.
	Duration time.Duration
	// Shards is the number of shards, at least 1. Replicas with another number wait.
	Shards int
	// Lead is called when the lease of a shard is won. It must return when its context ends, which is
	// before the lease expires. The context fences writes. All writes of the shard's previous holder
	// are at or before the revision.
	Lead func(ctx context.Context, shard int, epoch, revision uint64)
	// Moved is called when a shard is taken, given up or lost, and may be nil.
	Moved func(shard int, move Move)
	// Waits is called with the reason for which this replica takes no shards, and with "" when the
	// reason is gone. It may be nil.
	Waits func(reason string)
}

// Move is a change of the holder of a shard, as this replica sees it.
type Move string

// The moves of a shard.
const (
	Taken   Move = "taken"    // this replica has taken it
	GivenUp Move = "given-up" // this replica has released it
	Lost    Move = "lost"     // this replica could not renew its lease
)

// Group holds this replica's part of the shards. Make it with New, then call Run once.
type Group struct {
	cfg Config
	// shards holds the electors of all possible shards. Those from cfg.Shards on are only read when
	// the number of shards changes.
	shards []*elector
	places []*elector // of members; none if there is one shard

	held    map[*elector]context.CancelFunc // leases that this replica holds, and how to give them up
	ended   chan *elector                   // of held leases; never blocks
	running sync.WaitGroup                  // one for each held lease
	first   uint64                          // epoch of the lease of shard 0, if it is held
	waits   string                          // the last reason given to cfg.Waits
}

// New returns a group that holds nothing.
func New(cfg Config) *Group {
	g := &Group{cfg: cfg, held: map[*elector]context.CancelFunc{}, ended: make(chan *elector, spec.MaxControllerShards+cfg.Shards)}
	for shard := range spec.MaxControllerShards {
		g.shards = append(g.shards, &elector{
			cfg: &g.cfg, name: spec.ControllerShardLease(cfg.Name, shard),
			lead: func(ctx context.Context, epoch, revision uint64) { cfg.Lead(ctx, shard, epoch, revision) },
		})
	}
	if cfg.Shards > 1 {
		for place := range cfg.Shards {
			g.places = append(g.places, &elector{
				cfg: &g.cfg, name: spec.ControllerMemberLease(cfg.Name, place), level: slog.LevelDebug,
				lead: func(ctx context.Context, _, _ uint64) { <-ctx.Done() },
			})
		}
	}
	return g
}

// InForce reports whether the lease of a shard that this replica leads is in force by its own clock.
// It serves tasks that cannot carry a fence: a process that was paused asks it before the context
// that Lead was given has ended. It is safe for concurrent use.
func (g *Group) InForce(shard int) bool {
	until := g.shards[shard].until.Load()
	return until != nil && time.Now().Before(*until)
}

// Run competes until ctx is done, and then releases all leases.
func (g *Group) Run(ctx context.Context) error {
	defer g.running.Wait()
	for ctx.Err() == nil {
		pause := g.cfg.Duration / 5
		if g.round(ctx) {
			pause = g.cfg.Duration / 20
		}
		g.wait(ctx, pause)
	}
	return nil
}

// wait waits for a pause, or until a lease is not held any more.
func (g *Group) wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case e := <-g.ended:
		delete(g.held, e)
		for len(g.ended) > 0 { // several leases often end together
			delete(g.held, <-g.ended)
		}
	}
}

// round reads the leases and takes or gives up some. It reports whether the next round should follow
// soon.
func (g *Group) round(ctx context.Context) (soon bool) {
	if g.cfg.Shards == 1 && len(g.held) > 0 {
		return false
	}
	if !g.read(ctx) {
		return false
	}
	if !g.isInForce() {
		return g.changeCount(ctx)
	}
	g.reportWaiting("")
	if g.cfg.Shards == 1 {
		return g.take(ctx, []int{0})
	}
	opened := g.openShards(ctx)
	if !g.isMember() {
		g.join(ctx) // takes shards when it knows the replicas that start at the same time
		return false
	}
	move := balance(g.cfg.Identity, g.members(), g.holders())
	g.giveUp(move.give)
	return g.take(ctx, move.take) || move.short || opened
}

// read reads the leases of shards and members. It returns false if it is not known how many shards
// there are.
func (g *Group) read(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Duration/2)
	defer cancel()
	first := g.shards[0]
	if err := first.read(ctx, 0); err != nil {
		g.cfg.Log.Debug("lease not read", "lease", first.name, "err", err)
		return false
	}
	all := slices.Concat(g.shards[1:g.cfg.Shards], g.places)
	if !g.isInForce() {
		all = slices.Concat(g.shards[1:], g.places)
	}
	g.readAll(ctx, all, 0)
	return true
}

// readAll reads leases from registries that have reached a revision.
func (g *Group) readAll(ctx context.Context, all []*elector, revision uint64) {
	each(all, func(e *elector) {
		if err := e.read(ctx, revision); err != nil {
			g.cfg.Log.Debug("lease not read", "lease", e.name, "err", err)
		}
	})
}

// each calls fn for all electors at once.
func each(all []*elector, fn func(e *elector)) {
	var running sync.WaitGroup
	for _, e := range all {
		running.Go(func() { fn(e) })
	}
	running.Wait()
}

// isMember reports whether this replica has the place of a member.
func (g *Group) isMember() bool { return slices.ContainsFunc(g.places, g.holds) }

func (g *Group) holds(e *elector) bool { return g.held[e] != nil }

// join takes the place of a member. If others have all places, there are as many replicas as shards
// without this one, so it gives up its shards.
func (g *Group) join(ctx context.Context) {
	free := slices.DeleteFunc(slices.Clone(g.places), func(e *elector) bool { return !e.vacant() })
	mine := slices.IndexFunc(free, func(e *elector) bool { return e.holder() == g.cfg.Identity })
	switch {
	case mine >= 0:
		g.takeLeases(ctx, free[mine])
	case len(free) > 0:
		g.takeLeases(ctx, free[rand.IntN(len(free))]) // #nosec G404 -- so that replicas that join together take different places
	case !slices.ContainsFunc(g.places, func(e *elector) bool { return e.unknown }):
		g.giveUpAll()
	}
}

// members returns the replicas that take shards.
func (g *Group) members() []string {
	all := []string{g.cfg.Identity}
	for _, e := range g.places {
		if !e.vacant() && int(e.seen.GetSpec().GetShards()) == g.cfg.Shards && !slices.Contains(all, e.holder()) {
			all = append(all, e.holder())
		}
	}
	return all
}

// unavailable is in place of the holder of a shard that cannot be taken now.
const unavailable = "?"

// holders returns the holder of each shard, and "" for those that can be taken.
func (g *Group) holders() []string {
	all := make([]string, g.cfg.Shards)
	for shard := range all {
		switch e := g.shards[shard]; {
		case g.holds(e) || g.isMine(e):
			all[shard] = g.cfg.Identity
		case e.unknown || !g.isOpen(e):
			all[shard] = unavailable
		case !e.vacant():
			all[shard] = e.holder()
		}
	}
	return all
}

// isMine reports whether a lease is in the name of this replica although it does not hold it, because
// the response to a request was lost, or because the replica has restarted.
func (g *Group) isMine(e *elector) bool {
	return !g.holds(e) && !e.unknown && g.isOpen(e) && e.holder() == g.cfg.Identity
}

// take takes shards, and those that are in the name of this replica already. It reports whether it
// took any.
func (g *Group) take(ctx context.Context, shards []int) bool {
	var all []*elector
	for shard, e := range g.shards[:g.cfg.Shards] {
		if !g.holds(e) && e.vacant() && (slices.Contains(shards, shard) || g.isMine(e)) {
			all = append(all, e)
		}
	}
	before := len(g.held)
	g.takeLeases(ctx, all...)
	return len(g.held) > before
}

// takeLeases takes leases, all at once, and holds those that it gets.
func (g *Group) takeLeases(ctx context.Context, all ...*elector) {
	var mu sync.Mutex
	each(all, func(e *elector) {
		held, at, err := e.take(ctx, g.cfg.Shards)
		if err != nil {
			g.cfg.Log.Debug("lease not acquired", "lease", e.name, "err", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		g.hold(ctx, e, held, at)
	})
}

// hold holds a lease that was taken with a request at a time, until it is lost or given up.
func (g *Group) hold(ctx context.Context, e *elector, held *corev1.Lease, at time.Time) {
	shard := slices.Index(g.shards, e)
	if shard == 0 {
		g.first = held.GetSpec().GetEpoch()
	}
	ctx, cancel := context.WithCancel(ctx)
	g.held[e] = cancel
	g.moved(shard, Taken)
	g.running.Go(func() {
		defer cancel()
		e.hold(ctx, held, at)
		if ctx.Err() != nil {
			g.moved(shard, GivenUp)
		} else {
			g.moved(shard, Lost)
		}
		g.ended <- e
	})
}

// moved reports a move of a shard. Places of members have a negative number.
func (g *Group) moved(shard int, move Move) {
	if shard >= 0 && g.cfg.Moved != nil {
		g.cfg.Moved(shard, move)
	}
}

// giveUp gives up shards. Their leases are released when their writes have ended.
func (g *Group) giveUp(shards []int) {
	for _, shard := range shards {
		if cancel := g.held[g.shards[shard]]; cancel != nil {
			cancel()
		}
	}
}

// giveUpAll gives up all shards and the place of a member.
func (g *Group) giveUpAll() {
	for _, cancel := range g.held {
		cancel()
	}
}
