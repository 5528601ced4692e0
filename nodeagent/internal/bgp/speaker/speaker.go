package speaker

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/osrg/gobgp/v4/api"
	"github.com/osrg/gobgp/v4/pkg/apiutil"
	"github.com/osrg/gobgp/v4/pkg/packet/bgp"
	"github.com/osrg/gobgp/v4/pkg/server"

	"portolan.dev/nodeagent/machine"
)

const (
	// connectEvery is the time between two attempts to connect to a peer.
	connectEvery = 5 * time.Second
	// deferral is the time for which a first session waits for the routes of peers. See the package.
	deferral = time.Second
	// maxReceived is the number of routes that a peer may advertise.
	maxReceived = 10_000
	// The numbers of the families in the settings of the library's server.
	ipv4Unicast = 0
	ipv6Unicast = 1
	// bfdMultiplier is the number of BFD packets after which a peer is lost.
	bfdMultiplier = 3
)

// Speaker keeps the sessions. It implements machine.Speaker.
type Speaker struct {
	opts   machine.SpeakerOptions
	server *server.BgpServer
	served chan struct{} // closed when the server has ended
	unwind context.CancelFunc

	mu          sync.Mutex
	established map[netip.Addr]bool
}

var _ machine.Speaker = (*Speaker)(nil)

// Open advertises the routes, and then opens the sessions. It does not wait for them.
func Open(o machine.SpeakerOptions) (machine.Speaker, error) {
	s := &Speaker{opts: o, established: map[netip.Addr]bool{}, served: make(chan struct{})}
	s.server = server.NewBgpServer(server.LoggerOption(slog.New(onlyWarnings{o.Log.Handler()}), new(slog.LevelVar)))
	go func() {
		defer close(s.served)
		s.server.Serve()
	}()
	ctx, unwind := context.WithCancel(context.Background())
	s.unwind = unwind
	if err := s.start(ctx); err != nil {
		s.Close(false)
		return nil, err
	}
	return s, nil
}

func (s *Speaker) start(ctx context.Context) error {
	// Without Families, the library makes a table for each family that it supports.
	global := &api.Global{Asn: s.opts.AS, RouterId: s.opts.RouterID.String(), ListenPort: -1, Families: []uint32{ipv4Unicast, ipv6Unicast}}
	if err := s.server.StartBgp(ctx, &api.StartBgpRequest{Global: global}); err != nil {
		return err
	}
	if err := s.refuseRoutes(ctx); err != nil {
		return err
	}
	if err := s.server.WatchEvent(ctx, server.WatchEventMessageCallbacks{OnPeerUpdate: s.changed}, server.WatchPeer()); err != nil {
		return err
	}
	if err := s.Change(s.opts.Routes, nil); err != nil {
		return err
	}
	for _, p := range s.opts.Peers {
		if err := s.server.AddPeer(ctx, &api.AddPeerRequest{Peer: s.peer(p)}); err != nil {
			return err
		}
	}
	return nil
}

// refuseRoutes makes the server refuse the routes of peers.
func (s *Speaker) refuseRoutes(ctx context.Context) error {
	own := &api.Policy{Name: "own", Statements: []*api.Statement{{
		Name:       "own",
		Conditions: &api.Conditions{RouteType: api.Conditions_ROUTE_TYPE_LOCAL},
		Actions:    &api.Actions{RouteAction: api.RouteAction_ROUTE_ACTION_ACCEPT},
	}}}
	if err := s.server.AddPolicy(ctx, &api.AddPolicyRequest{Policy: own}); err != nil {
		return err
	}
	return s.server.SetPolicyAssignment(ctx, &api.SetPolicyAssignmentRequest{Assignment: &api.PolicyAssignment{
		Direction: api.PolicyDirection_POLICY_DIRECTION_IMPORT, Policies: []*api.Policy{own}, DefaultAction: api.RouteAction_ROUTE_ACTION_REJECT,
	}})
}

// Change implements machine.Speaker. An address that fails does not keep others from being changed.
func (s *Speaker) Change(advertise, withdraw []netip.Addr) error {
	var errs []error
	for _, addr := range withdraw {
		errs = append(errs, s.server.DeletePath(apiutil.DeletePathRequest{Paths: []*apiutil.Path{s.path(addr)}}))
	}
	for _, addr := range advertise {
		_, err := s.server.AddPath(apiutil.AddPathRequest{Paths: []*apiutil.Path{s.path(addr)}})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Close implements machine.Speaker. If the routes are kept, Close does not stop the whole server, because that
// would end the sessions a second time. An idle goroutine stays, until the process ends.
func (s *Speaker) Close(keep bool) {
	s.unwind()
	if !keep {
		s.server.Stop()
	} else if err := s.server.StopBgp(context.Background(), &api.StopBgpRequest{AllowGracefulRestart: true}); err != nil {
		s.opts.Log.Warn("bgp: end of the sessions", "err", err)
	}
	<-s.served
}

// changed reports a session that has begun or ended.
func (s *Speaker) changed(event *apiutil.WatchEventMessage_PeerEvent, _ time.Time) {
	state := event.Peer.State
	addr := state.NeighborAddress.Unmap()
	s.mu.Lock()
	before, now := s.established[addr], state.SessionState == bgp.BGP_FSM_ESTABLISHED
	s.established[addr] = now
	s.mu.Unlock()
	if before == now {
		return
	}
	for _, p := range s.opts.Peers {
		if p.Addr.Addr() == addr {
			s.opts.Changed(p, now, reason(now, state.DisconnectMessage))
		}
	}
}

func reason(established bool, text string) string {
	switch {
	case established:
		return ""
	case text == "":
		return "the session has ended"
	}
	return text
}

// onlyWarnings drops log lines below Warn, because the library logs each step of a session.
type onlyWarnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h onlyWarnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h onlyWarnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return onlyWarnings{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h onlyWarnings) WithGroup(name string) slog.Handler {
	return onlyWarnings{h.Handler.WithGroup(name)}
}
