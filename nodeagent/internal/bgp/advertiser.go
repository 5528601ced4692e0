package bgp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/machine"
	"portolan.dev/nodeagent/plan"

	"portolan.dev/services/kit/wake"
)

// Options are the settings of an Advertiser. All fields are required.
type Options struct {
	Config
	Node string
	// Open opens the sessions.
	Open func(machine.SpeakerOptions) (machine.Speaker, error)
	// Address returns the node's first IPv4 address; the zero value: it has none.
	Address func() netip.Addr
	// Eligible reports whether the node may take traffic of load balancers now.
	Eligible func() bool
	// Stays reports whether the node forwards while its agent does not run.
	Stays bool
	// Warn shows a fault beside the agent's health; nil: there is none.
	Warn    func(error)
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Advertiser advertises the addresses that the node forwards.
type Advertiser struct {
	opts    Options
	peers   []machine.SpeakerPeer
	metrics *metrics
	wake    wake.Signal

	mu         sync.Mutex
	table      Table
	synced     bool                // the table has the frontends of a whole view
	eligible   bool                // as of the last change
	advertised map[netip.Addr]bool // by the speaker
	opened     time.Time           // when the speaker was opened; zero: it was not yet
	routerID   netip.Addr          // of the speaker
	sessions   map[machine.SpeakerPeer]session
	failure    error // of the last change
}

// New returns an advertiser. The configuration must be valid.
func New(o Options) *Advertiser {
	a := &Advertiser{
		opts: o, wake: wake.New(), advertised: map[netip.Addr]bool{}, sessions: map[machine.SpeakerPeer]session{},
	}
	for _, text := range o.Peers {
		peer, err := ParsePeer(text)
		if err == nil {
			a.peers = append(a.peers, peer)
		}
	}
	a.metrics = newMetrics(o.Metrics, a)
	return a
}

// Programmed takes the frontends that were passed to the data plane. failed has the frontends that the data
// plane does not serve as planned.
func (a *Advertiser) Programmed(frontends []plan.FrontendServers, failed map[plan.Frontend]bool) {
	if !a.opts.Enabled() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range frontends {
		a.table.Set(frontends[i], !failed[frontends[i].Frontend])
	}
	if a.synced {
		a.Wake()
	}
}

// Served takes the addresses that a proxy on the node serves.
func (a *Advertiser) Served(all []netip.Addr) {
	if !a.opts.Enabled() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.table.SetServed(all)
	if a.synced {
		a.Wake()
	}
}

// Synced reports that Programmed was called with the frontends of a whole view.
func (a *Advertiser) Synced() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.synced = true
	a.Wake()
}

// Wake makes the advertiser look again whether the node may take traffic.
func (a *Advertiser) Wake() {
	a.wake.Send()
}

// Run advertises until ctx is done. After that, routers with graceful restart keep the routes if the kernel
// goes on forwarding. Other routers drop them.
func (a *Advertiser) Run(ctx context.Context) error {
	if !a.opts.Enabled() {
		<-ctx.Done()
		return nil
	}
	speaker, err := a.open(ctx)
	if err != nil || speaker == nil {
		return err
	}
	defer a.end(speaker)
	a.opts.Log.Info("bgp: running", "as", a.opts.AS, "router_id", a.routerID.String(), "peers", a.opts.Peers)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.wake:
			a.change(speaker)
		}
	}
}

// end ends the sessions. If the node takes no traffic, routers do not keep its routes, so no routes stay if a
// node drains right before its agent stops.
func (a *Advertiser) end(speaker machine.Speaker) {
	a.change(speaker)
	a.mu.Lock()
	keep := a.eligible && a.restart() > 0
	a.mu.Unlock()
	speaker.Close(keep)
}

// restart returns the time for which peers are asked to keep the routes.
func (a *Advertiser) restart() time.Duration {
	if !a.opts.Stays {
		return 0
	}
	return a.opts.GracefulRestart
}

// open opens the speaker after the first sync. It returns nil if ctx is done before.
func (a *Advertiser) open(ctx context.Context) (machine.Speaker, error) {
	options, err := a.settings()
	if err != nil {
		return nil, err
	}
	for !a.isSynced() {
		select {
		case <-ctx.Done():
			return nil, nil
		case <-a.wake:
		}
	}
	a.mu.Lock()
	a.eligible = a.opts.Eligible()
	options.Routes, _ = a.differences(a.eligible, true)
	a.routerID, a.opened = options.RouterID, time.Now()
	a.mu.Unlock()
	speaker, err := a.opts.Open(options)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil, errors.New("bgp-peers: this program has no speaker of BGP: run the agent as a program of its own")
	}
	if err != nil {
		return nil, fmt.Errorf("bgp: %w", err)
	}
	a.record(options.Routes, nil, nil)
	return speaker, nil
}

func (a *Advertiser) isSynced() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.synced
}

// change makes the speaker advertise the wanted addresses.
func (a *Advertiser) change(speaker machine.Speaker) {
	a.mu.Lock()
	before := a.eligible
	a.eligible = a.opts.Eligible()
	began, ended := a.differences(a.eligible, a.eligible != before || a.failure != nil)
	eligible := a.eligible
	a.mu.Unlock()
	if eligible != before {
		a.opts.Log.Info("bgp: the node may take traffic of load balancers", "now", eligible)
	}
	if len(began)+len(ended) > 0 {
		a.record(began, ended, speaker.Change(began, ended))
	}
	a.warn()
}

// differences returns the addresses to advertise (began) and to withdraw (ended). With all it compares all
// addresses, and otherwise the addresses of changed frontends. The caller holds the lock.
func (a *Advertiser) differences(eligible, all bool) (began, ended []netip.Addr) {
	look := a.table.Changed()
	if all {
		look = slices.Concat(a.table.Wanted(), slices.Collect(maps.Keys(a.advertised)))
		slices.SortFunc(look, netip.Addr.Compare)
		look = slices.Compact(look)
	}
	for _, addr := range look {
		switch want := eligible && a.table.Wants(addr); {
		case want && !a.advertised[addr]:
			began = append(began, addr)
		case !want && a.advertised[addr]:
			ended = append(ended, addr)
		}
	}
	return began, ended
}

// record records a change of the speaker. If it failed, the next change tries again.
func (a *Advertiser) record(began, ended []netip.Addr, err error) {
	a.mu.Lock()
	a.failure = err
	if err == nil {
		for _, addr := range began {
			a.advertised[addr] = true
		}
		for _, addr := range ended {
			delete(a.advertised, addr)
		}
	}
	a.mu.Unlock()
	if err != nil {
		a.opts.Log.Error("bgp: routes could not be changed", "err", err)
		return
	}
	a.metrics.changed(len(began), len(ended))
	if len(began)+len(ended) > 0 {
		a.opts.Log.Info("bgp: routes changed", "advertised", listed(began), "withdrawn", listed(ended))
	}
}

// maxListed is the number of addresses of a change that are logged.
const maxListed = 16

// listed returns addresses for the log.
func listed(addrs []netip.Addr) string {
	if len(addrs) > maxListed {
		return fmt.Sprintf("%v and %d more", addrs[:maxListed], len(addrs)-maxListed)
	}
	return fmt.Sprint(addrs)
}
