package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/wake"
)

const (
	// messageEvery is the time between two messages without a change. After 10 seconds without a message, the
	// agent ends the stream.
	messageEvery = 2 * time.Second
	// messagePause is the shortest time between two messages. The agent allows 50 a second.
	messagePause = 25 * time.Millisecond
	// The pauses between two tries to reach the agent. A restarted agent waits some seconds for the edge.
	retryFirst = 50 * time.Millisecond
	retryLast  = 500 * time.Millisecond
)

// Client is the edge's side of the stream to its agent. It is safe for concurrent use.
type Client struct {
	conn    *grpc.ClientConn // nil: the edge has no agent
	changed func()
	log     *slog.Logger
	wake    wake.Signal // sent when a message is due

	mu       sync.Mutex
	wanted   []netip.Addr
	served   []netip.Addr
	draining bool
	local    map[netip.Addr]bool   // by the agent's last answer
	errs     map[netip.Addr]string // likewise
	connErr  error                 // the reason why there is no stream; nil: there is a stream
}

// New returns a client that uses a connection to the agent, or none if conn is nil. changed is called
// when IsLocal may have changed. It must return at once.
func New(conn *grpc.ClientConn, changed func(), log *slog.Logger) *Client {
	return &Client{
		conn: conn, changed: changed, log: log, wake: wake.New(),
		local: map[netip.Addr]bool{}, errs: map[netip.Addr]string{}, connErr: errNotYet,
	}
}

var errNotYet = errors.New("it has not answered yet")

// Want sets the addresses that should be local to the node: the addresses of planned ports, and addresses at which
// only connections are left.
func (c *Client) Want(addrs []netip.Addr) {
	c.update(func() bool {
		same := slices.Equal(c.wanted, addrs)
		c.wanted = slices.Clone(addrs)
		return !same
	})
}

// Serve sets the addresses at which the edge listens.
func (c *Client) Serve(addrs []netip.Addr) {
	c.update(func() bool {
		same := slices.Equal(c.served, addrs)
		c.served = slices.Clone(addrs)
		return !same
	})
}

// Drain tells the agent that the edge is about to stop.
func (c *Client) Drain() {
	c.update(func() bool { c.draining = true; return true })
}

// update changes the state, and sends it if change returns true.
func (c *Client) update(change func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if change() {
		c.wake.Send()
	}
}

// IsLocal reports whether an address belongs to the node, so that a socket can be bound to it.
func (c *Client) IsLocal(addr netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conn == nil || c.local[addr]
}

// Problem returns the reason why a wanted address is not local, or an empty string if it is.
func (c *Client) Problem(addr netip.Addr) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.conn == nil || c.local[addr]:
		return ""
	case c.connErr != nil:
		return "the node's agent cannot be reached: " + apierr.Describe(c.connErr)
	case c.errs[addr] != "":
		return c.errs[addr]
	}
	return "the node's agent has not made it local yet"
}

// Disconnected returns the reason why there is no stream to the agent. It returns an empty string if there is a
// stream, or if no agent is configured.
func (c *Client) Disconnected() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil || c.connErr == nil {
		return ""
	}
	return apierr.Describe(c.connErr)
}

// Run keeps a stream to the agent until ctx is done. Then the agent announces none of the addresses.
func (c *Client) Run(ctx context.Context) error {
	if c.conn == nil {
		<-ctx.Done()
		return nil
	}
	pause := retryFirst
	for ctx.Err() == nil {
		answered, err := c.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if answered {
			pause = retryFirst
		}
		c.note(err)
		app.Pause(ctx, pause)
		pause = min(2*pause, retryLast)
		c.conn.ResetConnectBackoff()
	}
	return nil
}

// note records the reason why there is no stream.
func (c *Client) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connErr == nil {
		c.log.Warn("the stream to the node's agent has ended", "err", err)
	}
	c.connErr = err
}

// serve opens a stream and sends messages until it ends. It reports whether the agent has answered.
func (c *Client) serve(ctx context.Context) (answered bool, err error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	stream, err := nodeagentv1.NewLocalProxyServiceClient(c.conn).Serve(ctx)
	if err != nil {
		return false, err
	}
	received := make(chan error, 1)
	go func() { received <- c.receiveAll(stream, &answered) }()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case err := <-received:
			return answered, err
		case <-c.wake:
		case <-next.C:
		}
		if err := stream.Send(c.message()); err != nil && !errors.Is(err, io.EOF) { // receiving returns the reason
			end()
			<-received
			return answered, err
		}
		next.Reset(messageEvery)
		app.Pause(ctx, messagePause)
	}
}

// message returns the current state.
func (c *Client) message() *nodeagentv1.ServeRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &nodeagentv1.ServeRequest{Addresses: texts(c.wanted), Ready: texts(c.served), Draining: c.draining}
}

func texts(addrs []netip.Addr) []string {
	all := make([]string, len(addrs))
	for i, addr := range addrs {
		all[i] = addr.String()
	}
	return all
}

// receiveAll follows the answers of a stream until it ends.
func (c *Client) receiveAll(stream grpc.BidiStreamingClient[nodeagentv1.ServeRequest, nodeagentv1.ServeResponse], answered *bool) error {
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		*answered = true
		if c.follow(answer) {
			c.changed()
		}
	}
}

// follow takes over an answer, and reports whether the result of IsLocal has changed for some address. A wanted
// address that the answer does not list keeps its state, because the agent has not decided about it yet.
func (c *Client) follow(answer *nodeagentv1.ServeResponse) (changed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.connErr != nil {
		c.log.Info("connected to the node's agent", "local", len(answer.GetLocal()), "errors", len(answer.GetErrors()))
		c.connErr = nil
	}
	local, errs := map[netip.Addr]bool{}, map[netip.Addr]string{}
	for _, addr := range c.wanted {
		local[addr] = c.local[addr]
	}
	for _, text := range answer.GetLocal() {
		if addr, err := netip.ParseAddr(text); err == nil {
			local[addr] = true
		}
	}
	for _, one := range answer.GetErrors() {
		if addr, err := netip.ParseAddr(one.GetAddress()); err == nil {
			local[addr], errs[addr] = false, one.GetError()
		}
	}
	for addr := range local {
		changed = changed || local[addr] != c.local[addr]
	}
	c.local, c.errs = local, errs
	return changed
}
