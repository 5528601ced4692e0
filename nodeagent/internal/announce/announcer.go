package announce

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent/machine"
	"portolan.dev/services/kit/apierr"
)

// Options are the settings of an Announcer.
type Options struct {
	Node string
	// Interfaces are patterns of the names of the interfaces on which the node announces, such as
	// eth*. If there are none, the node does not announce.
	Interfaces  []string
	Controllers []Controller
	Machine     machine.Machine
	Ready       func() bool // whether the node forwards services as planned
	Draining    func() bool
	// Stays reports whether the node forwards while its agent does not run.
	Stays   bool
	Proxy   Proxy
	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Proxy is the proxy on the node that serves load-balancer addresses.
type Proxy interface {
	// Serves reports whether the proxy takes connections at an address.
	Serves(netip.Addr) bool
	// Served returns the addresses for which Serves is true, ordered.
	Served() []netip.Addr
	// Kept returns the addresses at which the proxy may have connections, ordered.
	Kept() []netip.Addr
	// Awaits reports whether the agent has been restarted, and the proxy has not connected to it yet.
	Awaits() bool
}

// Announcer announces the addresses that lbctl gives the node.
type Announcer struct {
	opts      Options
	holder    *Holder
	responder *Responder
	client    *Client
	metrics   *metrics
	life      atomic.Pointer[context.Context] // of Run; nil: it has not begun
	handOvers machine.HandOvers               // nil: the node has none; set before life
	// handOverError is the reason why hand-overs are not in force; nil or empty: they are.
	handOverError atomic.Pointer[string]
}

// New returns an announcer.
func New(o Options) *Announcer {
	a := &Announcer{opts: o, holder: NewHolder(bootTime, rand.Text(), o.Proxy.Serves)}
	a.metrics = newMetrics(o.Metrics, a.holder, a.Enabled())
	a.responder = newResponder(o.Interfaces, o.Machine.Neighbors, a.holder, a.metrics, o.Log)
	a.client = newClient(o.Controllers, a.holder, a.state, a.handOver, a.followed, o.Log)
	return a
}

// Enabled reports whether the node announces at all.
func (a *Announcer) Enabled() bool { return len(a.opts.Interfaces) > 0 }

// Run announces until ctx is done. It then tells lbctl that it stops. Hand-overs stay in force.
func (a *Announcer) Run(ctx context.Context) error {
	a.openHandOvers()
	if !a.Enabled() {
		<-ctx.Done()
		return nil
	}
	a.life.Store(&ctx)
	defer a.responder.close()
	a.Refresh()
	err := a.client.Run(ctx)
	if a.handOvers != nil {
		err = errors.Join(err, a.handOvers.Close())
	}
	return err
}

// Refresh reads the interfaces again, and checks the hand-overs. The machine may have changed them.
func (a *Announcer) Refresh() {
	life := a.life.Load()
	if life == nil || (*life).Err() != nil {
		return
	}
	if a.handOvers != nil {
		if err := a.handOvers.Check(); err != nil {
			a.noteHandOvers(err)
		}
	}
	all, err := a.opts.Machine.Interfaces()
	if err != nil {
		a.opts.Log.Warn("interfaces for announcing", "err", err)
		return
	}
	before := a.responder.Subnets()
	a.responder.SetInterfaces(*life, all)
	if after := a.responder.Subnets(); !slices.Equal(before, after) {
		a.client.Wake()
	}
}

// Wake tells lbctl at once that the node began or ceased to drain, or that the addresses of the proxy changed.
func (a *Announcer) Wake() { a.client.Wake() }

// withdraw gives up the addresses that the proxy no longer serves, and ends their hand-overs, before lbctl is
// told. Otherwise the next node of an address could be its previous one, and would send the packets back.
func (a *Announcer) withdraw() {
	withdrawn, refused := a.holder.Withdraw()
	gone := slices.Concat(withdrawn, refused)
	if len(gone) == 0 {
		return
	}
	if len(a.holder.HandOvers()) > 0 {
		a.handOver(a.holder.handOversWithout(gone))
		a.holder.endHandOvers(gone)
	}
	a.followed(nil, withdrawn)
}

// state returns the state for the next message. An agent that stops reports a restart if its kernel forwards
// in the meantime, and otherwise that the node drains.
func (a *Announcer) state() State {
	a.withdraw()
	stopping := (*a.life.Load()).Err() != nil
	return State{
		Node: a.opts.Node, Ready: a.opts.Ready(), Subnets: a.responder.Subnets(),
		Draining: a.opts.Draining() || stopping && !a.opts.Stays, Restarting: stopping && a.opts.Stays,
		Stays: a.opts.Stays, Served: a.opts.Proxy.Served(), Kept: a.opts.Proxy.Kept(), AwaitsProxy: a.opts.Proxy.Awaits(),
	}
}

func (a *Announcer) followed(began, ended []netip.Addr) {
	if len(began)+len(ended) == 0 {
		return
	}
	a.metrics.changed(len(began), len(ended))
	a.opts.Log.Info("announced addresses", "began", began, "ended", ended)
	a.responder.Changed(*a.life.Load(), began)
}

// Status returns the state of announcing, or nil if it is off.
func (a *Announcer) Status() *nodeagentv1.Announcing {
	if !a.Enabled() {
		return nil
	}
	s := &nodeagentv1.Announcing{}
	previous := a.holder.HandOvers()
	for _, addr := range a.holder.Held() {
		s.Addresses = append(s.Addresses, &nodeagentv1.AnnouncedAddress{
			Address: addr.String(), Since: timestamppb.New(a.holder.Since(addr)), PreviousNode: previous[addr],
		})
	}
	left, _ := a.holder.Left()
	s.RightsEnd, s.RightsEndSeconds = durationpb.New(max(0, left)), seconds(left)
	s.Interfaces, s.Error = a.responder.state()
	if text := a.handOverError.Load(); text != nil && *text != "" {
		s.Error = *text
	}
	addr, err := a.client.Connected()
	s.Controller = addr
	if err != nil {
		s.Error = apierr.Describe(err)
	}
	return s
}
