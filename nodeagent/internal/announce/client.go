package announce

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"google.golang.org/grpc"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/wake"
)

const (
	// messageEvery is the time between two messages: a quarter of the validity, so that three may be
	// lost.
	messageEvery = 500 * time.Millisecond
	// silence is the time without an answer after which the client connects to another lbctl. Half of
	// the validity is left then.
	silence = time.Second
	// greetingTimeout is the time that an lbctl has for its greeting.
	greetingTimeout = time.Second
	retryFirst      = 50 * time.Millisecond
	retryLast       = 500 * time.Millisecond
	// farewellTimeout is the time that the last message of an agent has.
	farewellTimeout = 500 * time.Millisecond
)

// State is the state of the node in a message.
type State struct {
	Node                        string
	Ready, Draining, Restarting bool
	Stays                       bool // the node forwards although its agent does not run
	Subnets                     []netip.Prefix
	Served, Kept                []netip.Addr // by a proxy on the node
	AwaitsProxy                 bool         // of an earlier agent
}

// states returns the states that apply, in the order of their numbers.
func (s State) states() []loadbalancerv1.AnnounceState {
	var states []loadbalancerv1.AnnounceState
	for _, is := range []struct {
		set   bool
		state loadbalancerv1.AnnounceState
	}{
		{s.Ready, loadbalancerv1.AnnounceState_ANNOUNCE_STATE_READY},
		{s.Draining, loadbalancerv1.AnnounceState_ANNOUNCE_STATE_DRAINING},
		{s.Restarting, loadbalancerv1.AnnounceState_ANNOUNCE_STATE_RESTARTING},
		{s.Stays, loadbalancerv1.AnnounceState_ANNOUNCE_STATE_FORWARDS_ALONE},
		{s.AwaitsProxy, loadbalancerv1.AnnounceState_ANNOUNCE_STATE_AWAITS_PROXY},
	} {
		if is.set {
			states = append(states, is.state)
		}
	}
	return states
}

// Controller is a connection to an lbctl.
type Controller struct {
	Addr string
	Conn *grpc.ClientConn
}

type announceStream = grpc.BidiStreamingClient[loadbalancerv1.AnnounceRequest, loadbalancerv1.AnnounceResponse]

// Client keeps a stream to the leading lbctl.
type Client struct {
	controllers []Controller
	holder      *Holder
	state       func() State
	// handOver is called before each answer is followed.
	handOver func([]handOver)
	// followed is called after each answer with the addresses that the node may announce since, and
	// no longer.
	followed func(began, ended []netip.Addr)
	log      *slog.Logger
	wake     wake.Signal

	mu        sync.Mutex
	connected string // the address of the lbctl; empty: none
	err       error  // why there is none
}

func newClient(controllers []Controller, holder *Holder, state func() State, handOver func([]handOver), followed func(began, ended []netip.Addr), log *slog.Logger) *Client {
	return &Client{controllers: controllers, holder: holder, state: state, handOver: handOver, followed: followed, log: log, wake: wake.New()}
}

// Wake sends a message at once, because the state has changed.
func (c *Client) Wake() {
	c.wake.Send()
}

// Run keeps a stream until ctx is done, and then sends the last state.
func (c *Client) Run(ctx context.Context) error {
	pause := retryFirst
	for ctx.Err() == nil {
		// The stream outlives ctx, so that the last message can be sent.
		life, end := context.WithCancel(context.WithoutCancel(ctx))
		stream, addr, err := c.connect(ctx, life)
		if err == nil {
			pause = retryFirst
			c.note(addr, nil)
			err = c.serve(ctx, stream)
		}
		end()
		if ctx.Err() != nil {
			return nil
		}
		c.note("", err)
		c.log.Debug("no lbctl", "err", err)
		app.Pause(ctx, pause)
		pause = min(2*pause, retryLast)
	}
	return nil
}

func (c *Client) note(addr string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.connected, c.err = addr, err
}

// Connected returns the address of the lbctl, or the reason why there is none.
func (c *Client) Connected() (addr string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.connected, c.err
}

// greeted is a stream with its greeting, or the reason why there is none.
type greeted struct {
	stream   announceStream
	end      context.CancelFunc
	greeting *loadbalancerv1.AnnounceResponse
	addr     string
	err      error
}

// connect opens a stream to every lbctl at once, and returns the first stream with a greeting. Only the
// leader sends one.
func (c *Client) connect(ctx, life context.Context) (announceStream, string, error) {
	results := make(chan greeted, len(c.controllers))
	for _, controller := range c.controllers {
		go func() { results <- c.greet(life, controller) }()
	}
	var errs []error
	var first *greeted
	for left := len(c.controllers); left > 0 && first == nil; left-- {
		select {
		case g := <-results:
			if g.err == nil {
				first = &g
				go endOthers(results, left-1)
			} else {
				errs = append(errs, g.err)
			}
		case <-ctx.Done():
			return nil, "", ctx.Err() // the caller ends life, and with it the streams
		}
	}
	if first == nil {
		return nil, "", errors.Join(errs...)
	}
	c.holder.Begin()
	c.follow(first.greeting)
	return first.stream, first.addr, nil
}

// endOthers ends the streams that were opened later than the first one.
func endOthers(results <-chan greeted, left int) {
	for range left {
		if g := <-results; g.err == nil {
			g.end()
		}
	}
}

// greet opens a stream and waits for the greeting.
func (c *Client) greet(life context.Context, controller Controller) greeted {
	ctx, end := context.WithCancel(life)
	late := time.AfterFunc(greetingTimeout, end)
	controller.Conn.ResetConnectBackoff()
	stream, err := loadbalancerv1.NewAnnouncerServiceClient(controller.Conn).Announce(ctx)
	var greeting *loadbalancerv1.AnnounceResponse
	if err == nil {
		greeting, err = stream.Recv()
	}
	if !late.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		end()
		return greeted{err: apierr.ToStatus(err).Err()}
	}
	return greeted{stream: stream, end: end, greeting: greeting, addr: controller.Addr}
}

// serve exchanges messages and answers until the stream ends, or ctx is done.
func (c *Client) serve(ctx context.Context, stream announceStream) error {
	answers, failed, ended := make(chan *loadbalancerv1.AnnounceResponse), make(chan error, 1), make(chan struct{})
	defer close(ended)
	go func() {
		for {
			answer, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case answers <- answer:
			case <-ended:
				return
			}
		}
	}()
	next, silent := time.NewTimer(0), time.NewTimer(silence)
	defer next.Stop()
	defer silent.Stop()
	for {
		select {
		case <-ctx.Done():
			return c.farewell(stream, failed)
		case err := <-failed:
			return err
		case <-silent.C:
			return errSilent
		case answer := <-answers:
			silent.Reset(silence)
			if c.follow(answer) {
				next.Reset(0)
			}
			continue
		case <-c.wake:
		case <-next.C:
		}
		if err := c.send(stream); err != nil {
			return err
		}
		next.Reset(messageEvery)
	}
}

var errSilent = errors.New("lbctl does not answer")

// send sends a message. If the stream has ended, the error is the reason.
func (c *Client) send(stream announceStream) error {
	err := stream.Send(c.holder.Message(c.state()))
	if errors.Is(err, io.EOF) {
		return nil // receiving returns the reason
	}
	return err
}

// follow takes an answer, and reports whether the next message must be sent at once.
func (c *Client) follow(answer *loadbalancerv1.AnnounceResponse) bool {
	if answer.GetAnsweredMessage() > 0 {
		c.handOver(handOversOf(answer))
	}
	began, ended, refused := c.holder.Follow(answer, time.Now())
	c.followed(began, ended)
	return refused || len(began)+len(ended) > 0
}

// farewell sends the last state of an agent that stops, and waits until it has arrived.
func (c *Client) farewell(stream announceStream, failed <-chan error) error {
	c.holder.Drop()
	if err := errors.Join(c.send(stream), stream.CloseSend()); err != nil {
		return err
	}
	timer := time.NewTimer(farewellTimeout)
	defer timer.Stop()
	select {
	case <-failed: // the server ends the stream after the last message
	case <-timer.C:
	}
	return nil
}
