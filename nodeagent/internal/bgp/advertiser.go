package bgp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/nodeagent/machine"
	"portolan.dev/nodeagent/plan"
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
	wake    chan struct{}

	mu         sync.Mutex
	table      Table
	synced     bool                // the table has the frontends of a whole view
	eligible   bool                // as of the last change
	advertised map[netip.Addr]bool // by the speaker
	routerID   netip.Addr
	sessions   map[machine.SpeakerPeer]session
	failure    error // of the last change
}

// session is the state of the session with a peer.
type session struct {
	established bool
	since       time.Time // of the state; zero: there was no session yet
	reason      string    // why it has ended; empty: it has not
}

// New returns an advertiser. The configuration must be valid.
func New(o Options) *Advertiser {
	a := &Advertiser{
		opts: o, wake: make(chan struct{}, 1), advertised: map[netip.Addr]bool{}, sessions: map[machine.SpeakerPeer]session{},
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

// Programmed takes the frontends that the data plane was told, and those of them that it does not
// have as planned.
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

// Synced reports that Programmed was called with the frontends of a whole view.
func (a *Advertiser) Synced() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.synced = true
	a.Wake()
}

// Wake makes the advertiser look again whether the node may take traffic.
func (a *Advertiser) Wake() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// Run advertises until ctx is done. Then routers keep the routes if the kernel goes on forwarding and
// they agreed to it, and drop them otherwise.
func (a *Advertiser) Run(ctx context.Context) error {
	if !a.opts.Enabled() {
		<-ctx.Done()
		return nil
	}
	speaker, err := a.open(ctx)
	if err != nil || speaker == nil {
		return err
	}
	defer func() { speaker.Close(a.restart() > 0) }()
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

// restart returns the time for which peers are asked to keep the routes.
func (a *Advertiser) restart() time.Duration {
	if !a.opts.Stays {
		return 0
	}
	return a.opts.GracefulRestart
}

// open opens the speaker after the first sync. It returns nil if ctx is done before.
func (a *Advertiser) open(ctx context.Context) (machine.Speaker, error) {
	options, err := a.speakerOptions()
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
	a.routerID = options.RouterID
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

func (a *Advertiser) speakerOptions() (machine.SpeakerOptions, error) {
	c := &a.opts.Config
	o := machine.SpeakerOptions{
		AS: c.AS, Peers: a.peers, HoldTime: c.HoldTime, Restart: a.restart(), BFD: c.BFD, Hops: uint8(c.Hops), // #nosec G115 -- Validate has checked it
		RouterID: a.identifier(), Changed: a.sessionChanged, Log: a.opts.Log,
	}
	var err error
	if o.Communities, o.LargeCommunities, err = parseCommunities(c.Communities); err != nil {
		return o, err
	}
	if c.PasswordFile == "" {
		return o, nil
	}
	password, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return o, fmt.Errorf("bgp-password-file: %w", err)
	}
	o.Password = string(bytes.TrimSpace(password))
	if o.Password == "" || len(o.Password) > maxPassword {
		return o, fmt.Errorf("bgp-password-file: %s does not have a password of 1 to %d bytes", c.PasswordFile, maxPassword)
	}
	return o, nil
}

// maxPassword is the kernel's limit for the key of TCP MD5.
const maxPassword = 80

// identifier returns the router ID. A node without an IPv4 address gets a number that is most likely
// its own, and that is the same after a restart.
func (a *Advertiser) identifier() netip.Addr {
	if id, err := netip.ParseAddr(a.opts.RouterID); err == nil {
		return id
	}
	if addr := a.opts.Address(); addr.Is4() {
		return addr
	}
	sum := fnv.New32a()
	sum.Write([]byte(a.opts.Node)) //nolint:errcheck // it never fails
	return netip.AddrFrom4([4]byte(sum.Sum(nil)))
}

// change makes the speaker advertise what is wanted now.
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
}

// differences returns the addresses to advertise, and those to withdraw. With all it looks at all
// addresses, and otherwise at those of changed frontends. The caller holds the lock.
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
	a.metrics.changed(len(began), len(ended))
	if len(began)+len(ended) > 0 {
		a.opts.Log.Info("bgp: routes", "advertised", began, "withdrawn", ended, "err", err)
	}
	a.warn()
}

// sessionChanged takes the beginning or the end of a session.
func (a *Advertiser) sessionChanged(peer machine.SpeakerPeer, established bool, reason string) {
	a.mu.Lock()
	a.sessions[peer] = session{established: established, since: time.Now(), reason: reason}
	a.mu.Unlock()
	a.metrics.session(peer, established)
	if established {
		a.opts.Log.Info("bgp: session established", "peer", peer.String())
	} else {
		a.opts.Log.Warn("bgp: session ended", "peer", peer.String(), "reason", reason)
	}
	a.warn()
}

// warn shows the peers that had a session and have none now, and a change that failed.
func (a *Advertiser) warn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	var down []string
	for peer, s := range a.sessions {
		if !s.established {
			down = append(down, fmt.Sprintf("no session with %s since %s: %s", peer, s.since.UTC().Format(time.RFC3339), s.reason))
		}
	}
	slices.Sort(down)
	if a.failure != nil {
		down = append(down, a.failure.Error())
	}
	if len(down) == 0 {
		a.opts.Warn(nil)
		return
	}
	a.opts.Warn(errors.New(strings.Join(down, "; ")))
}
