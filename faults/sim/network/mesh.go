package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"portolan.dev/faults/sim/weather"
	"portolan.dev/services/kit/rpc"
)

// Mesh joins daemons that call each other. Their servers and clients are the real ones, over pipes.
// The weather decides about each question and answer; its links are "grpc <caller>".
type Mesh struct {
	// Answered, if not nil, is called with each call that a server has answered without an error,
	// before the answer travels.
	Answered func(method string, request, reply any)

	weather *weather.Weather

	mu        sync.Mutex
	listeners map[string]*bufconn.Listener // by address
}

// NewMesh returns a mesh without members.
func NewMesh(w *weather.Weather) *Mesh {
	return &Mesh{weather: w, listeners: map[string]*bufconn.Listener{}}
}

// Member is a daemon in a mesh. It implements rpc.Network.
type Member struct {
	mesh *Mesh
	link string

	mu    sync.Mutex
	dead  bool
	conns map[net.Conn]struct{} // that it dialed, and that it accepted
}

// Join adds a daemon.
func (m *Mesh) Join(name string) *Member {
	return &Member{mesh: m, link: "grpc " + name, conns: map[net.Conn]struct{}{}}
}

// Kill ends all connections of the daemon. It gets no new ones, as if its process were gone.
func (p *Member) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	for c := range p.conns {
		c.Close()
	}
}

// take records a connection of the daemon.
func (p *Member) take(c net.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errors.Join(errGone, c.Close())
	}
	p.conns[c] = struct{}{}
	return nil
}

var errGone = errors.New("no daemon is there")

// pipeBuffer is how many bytes a connection holds in each direction.
const pipeBuffer = 256 << 10

// Listen implements rpc.Network.
func (p *Member) Listen(addr string) (net.Listener, error) {
	m := p.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners[addr] != nil {
		return nil, fmt.Errorf("listen at %s: the address is in use", addr)
	}
	pipes := bufconn.Listen(pipeBuffer)
	m.listeners[addr] = pipes
	return &listener{Listener: pipes, member: p, addr: addr}, nil
}

// listener forgets its address when it is closed.
type listener struct {
	*bufconn.Listener
	member *Member
	addr   string
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.member.take(c) == nil {
			return c, nil
		}
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	m := l.member.mesh
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners[l.addr] == l.Listener {
		delete(m.listeners, l.addr)
	}
	return l.Listener.Close()
}

// Dial implements rpc.Network.
func (p *Member) Dial(target string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return rpc.TCP().Dial(target, append(opts, grpc.WithContextDialer(p.connect),
		grpc.WithChainUnaryInterceptor(p.unary), grpc.WithChainStreamInterceptor(p.stream))...)
}

func (p *Member) connect(ctx context.Context, addr string) (net.Conn, error) {
	p.mesh.mu.Lock()
	l := p.mesh.listeners[addr]
	p.mesh.mu.Unlock()
	if l == nil {
		return nil, errGone
	}
	c, err := l.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	return c, p.take(c)
}

// travel waits while a message is on its way. If ctx ends before that, late returns after which
// time the message still arrives; 0: it does not.
func (p *Member) travel(ctx context.Context) (late time.Duration, err error) {
	fate, began := p.mesh.weather.Next(p.link), time.Now()
	wait := fate.Delay
	if fate.Lost {
		wait, err = brokenAfter, status.Error(codes.Unavailable, "the connection is lost")
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0, err
	case <-ctx.Done():
	}
	if !fate.Lost {
		late = wait - time.Since(began)
	}
	return late, status.FromContextError(ctx.Err()).Err()
}

// unary carries a call. A question that was sent arrives also if its caller has given up meanwhile.
func (p *Member) unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	asked, _ := request.(proto.Message)
	wanted, _ := reply.(proto.Message)
	if late, err := p.travel(ctx); err != nil {
		if late > 0 {
			question := copied(asked)
			time.AfterFunc(late, func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), brokenAfter)
				defer cancel()
				// The caller does not wait for the answer.
				_ = invoke(ctx, method, question, wanted.ProtoReflect().New().Interface(), conn, opts...)
			})
		}
		return err
	}
	err := invoke(ctx, method, request, reply, conn, opts...)
	if err == nil && p.mesh.Answered != nil {
		p.mesh.Answered(method, request, reply)
	}
	if _, lost := p.travel(ctx); lost != nil {
		proto.Reset(wanted)
		return lost
	}
	return err
}

func (p *Member) stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if _, err := p.travel(ctx); err != nil {
		return nil, err
	}
	s, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	return &slowStream{ClientStream: s, member: p}, nil
}

// slowStream is a stream with messages that travel through the weather. After a lost message no
// more messages arrive.
type slowStream struct {
	grpc.ClientStream
	member *Member
	lost   error
}

// RecvMsg implements grpc.ClientStream.
func (s *slowStream) RecvMsg(to any) error {
	if s.lost != nil {
		return s.lost
	}
	if err := s.ClientStream.RecvMsg(to); err != nil {
		return err
	}
	_, s.lost = s.member.travel(s.Context())
	return s.lost
}
