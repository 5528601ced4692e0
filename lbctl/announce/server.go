package announce

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/kit/statestream"
)

const (
	// tickEvery is the time between two looks at the clock, which adds to the time of a fail-over.
	tickEvery = 50 * time.Millisecond
	// retryAfter is the pause before the next try in the error for clients if this process does not lead.
	retryAfter = 100 * time.Millisecond
)

// MaxMessage is the largest message of an agent in bytes. It has room for the addresses, hand-overs
// and subnets that Announce allows. A daemon sets it in rpc.ServerOptions.MaxRequest.
const MaxMessage = 3 << 20

// ServerOptions are the settings of a Server. Log and Metrics are required.
type ServerOptions struct {
	Options
	Log     *slog.Logger
	Metrics prometheus.Registerer
	// Changed, if not nil, is called without a lock when the state of an address may have changed.
	// It must return at once.
	Changed func()
	// InForce, if not nil, reports whether the lease of this leader is in force by its own clock. The server
	// calls it before each decision, because a process that was paused may find out late that its context
	// has ended.
	InForce func() bool
}

// Server implements AnnouncerService. It serves agents only while Lead runs.
type Server struct {
	loadbalancerv1.UnsafeAnnouncerServiceServer
	opts ServerOptions

	mu       sync.Mutex
	assigner *Assigner
	term     context.Context //nolint:containedctx // ends with the term; nil: this process does not lead
	streams  map[uint64]*stream
	opened   uint64 // number of the last stream
	reported map[string]Status
}

var _ loadbalancerv1.AnnouncerServiceServer = (*Server)(nil)

// NewServer returns a server that does not lead yet.
func NewServer(o ServerOptions) *Server {
	s := &Server{opts: o, assigner: NewAssigner(o.Options), streams: map[uint64]*stream{}, reported: map[string]Status{}}
	o.Metrics.MustRegister(metrics{s})
	return s
}

// Lead serves agents until ctx is done, which must be before another process may lead. Then all
// streams end with UNAVAILABLE.
func (s *Server) Lead(ctx context.Context) {
	term, end := context.WithCancel(ctx)
	s.mu.Lock()
	s.term = term
	s.assigner.Begin(time.Now())
	s.mu.Unlock()
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-ticker.C:
			s.tick()
		}
	}
	s.mu.Lock()
	s.term = nil
	s.mu.Unlock()
	end() // ends the streams
	s.changed()
}

// SetWanted replaces the addresses to announce. It may be called at any time.
func (s *Server) SetWanted(all []Wanted) {
	s.mu.Lock()
	s.assigner.SetWanted(time.Now(), all)
	s.wakeDue(time.Now())
	s.mu.Unlock()
	s.changed()
}

// Statuses returns the states of all wanted addresses, ordered by address. If this process does not lead, ok
// is false and the states mean nothing.
func (s *Server) Statuses() (all []Status, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.assigner.Statuses(time.Now()), s.term != nil
}

// Announce implements AnnouncerService.
func (s *Server) Announce(conn grpc.BidiStreamingServer[loadbalancerv1.AnnounceRequest, loadbalancerv1.AnnounceResponse]) error {
	st, term, err := s.open()
	if err != nil {
		return err
	}
	defer func() { s.close(st, rpc.ClientLeft(conn.Context())) }()
	if err := conn.Send(&loadbalancerv1.AnnounceResponse{Sequence: greeting}); err != nil {
		return err
	}
	defer context.AfterFunc(term, func() { st.End(errNotLeading) })()
	return statestream.Serve(st.Stream, conn, "AnnounceMessages",
		func(request *loadbalancerv1.AnnounceRequest) error { return s.accept(conn.Context(), st, request) },
		func() (*loadbalancerv1.AnnounceResponse, error) { return s.answer(st) })
}

// errNotLeading is the error for agents that must try another lbctl.
var errNotLeading = apierr.Unavailable("this lbctl does not lead: try another one", retryAfter)

// leads reports whether this process leads. The server must be locked.
func (s *Server) leads() bool {
	return s.term != nil && s.term.Err() == nil && (s.opts.InForce == nil || s.opts.InForce())
}

func (s *Server) open() (*stream, context.Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.leads() {
		return nil, nil, errNotLeading
	}
	s.opened++
	st := &stream{Stream: statestream.New(), number: s.opened}
	s.streams[st.number] = st
	return st, s.term, nil
}

// close records that a stream has ended. died is set if the agent's machine has closed the connection.
func (s *Server) close(st *stream, died bool) {
	s.mu.Lock()
	delete(s.streams, st.number)
	if st.node != "" {
		s.assigner.Disconnect(time.Now(), st.node, st.number, died)
		s.wakeDue(time.Now())
	}
	s.mu.Unlock()
	s.changed()
}

// receive passes a message to the assigner.
func (s *Server) receive(st *stream, m Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The time is read before the check that this process leads, so that a term gives rights only for
	// messages that were sent during the term.
	now := time.Now()
	if !s.leads() {
		return errNotLeading
	}
	if err := s.assigner.Receive(now, st.number, m); err != nil {
		return err
	}
	for _, other := range s.streams {
		if other.node == m.Node && other.number < st.number {
			other.End(errReplaced)
		}
	}
	st.node = m.Node
	s.wakeDue(now)
	return nil
}

// answer returns the current answer for a stream, or nil if its node needs none or has another stream.
func (s *Server) answer(st *stream) (*loadbalancerv1.AnnounceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !s.leads() {
		return nil, errNotLeading
	}
	answer, ok := s.assigner.Answer(now, st.node, st.number)
	if !ok {
		return nil, nil
	}
	return answer.message(), nil
}

// tick passes the time to the assigner.
func (s *Server) tick() {
	s.mu.Lock()
	now := time.Now()
	if s.leads() {
		s.assigner.Tick(now)
		s.wakeDue(now)
	}
	changed := s.reportChanges(now)
	s.mu.Unlock()
	if changed {
		s.changed()
	}
}

// reportChanges logs the addresses with a changed state, and reports whether there are any.
func (s *Server) reportChanges(now time.Time) bool {
	reported := map[string]Status{}
	changed := false
	for _, status := range s.assigner.Statuses(now) {
		key := status.Address.String()
		before := s.reported[key]
		reported[key] = status
		if before.Reason != status.Reason || before.Node != status.Node || before.Message != status.Message || !before.Since.Equal(status.Since) {
			changed = true
			s.opts.Log.Info("address", "address", key, "reason", status.Reason, "node", status.Node, "message", status.Message)
		}
	}
	changed = changed || len(reported) != len(s.reported)
	s.reported = reported
	return changed
}

// wakeDue wakes the streams of nodes that need an answer. The server must be locked.
func (s *Server) wakeDue(now time.Time) {
	for _, name := range s.assigner.Due(now) {
		if st := s.streams[s.assigner.stream(name)]; st != nil {
			st.Wake()
		}
	}
}

func (s *Server) changed() {
	if s.opts.Changed != nil {
		s.opts.Changed()
	}
}
