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

	"portolan.dev/faults/sim/netem"
	"portolan.dev/services/kit/rpc"
)

// Mesh connects daemons that call each other through gRPC's own servers and clients, over pipes.
// The emulator decides the fate of each request and reply, on the link "grpc " and the caller's
// name.
type Mesh struct {
	// OnReply, if not nil, is called with each call that a server has answered without an error,
	// before the reply is sent.
	OnReply func(method string, request, reply any)

	emulator *netem.Emulator

	mu        sync.Mutex
	listeners map[string]*bufconn.Listener // by address
}

// NewMesh returns a mesh without members.
func NewMesh(emulator *netem.Emulator) *Mesh {
	return &Mesh{emulator: emulator, listeners: map[string]*bufconn.Listener{}}
}

// Member is a daemon in a mesh. It implements rpc.Network.
type Member struct {
	mesh *Mesh
	link string

	mu    sync.Mutex
	dead  bool
	conns map[net.Conn]struct{} // dialed and accepted ones
}

// Join returns a new member with the given name.
func (m *Mesh) Join(name string) *Member {
	return &Member{mesh: m, link: "grpc " + name, conns: map[net.Conn]struct{}{}}
}

// Kill closes all connections of the daemon and prevents new ones, as if its process had died.
func (p *Member) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	for c := range p.conns {
		c.Close()
	}
}

// addConn records a connection of the daemon. If the daemon is dead, addConn closes the connection
// and returns an error.
func (p *Member) addConn(c net.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return errors.Join(errUnreachable, c.Close())
	}
	p.conns[c] = struct{}{}
	return nil
}

var errUnreachable = errors.New("no daemon is reachable at the address")

// pipeBuffer is the number of bytes that a connection buffers in each direction.
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

// listener removes its address from the mesh when it is closed.
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
		if l.member.addConn(c) == nil {
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
		return nil, errUnreachable
	}
	c, err := l.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	return c, p.addConn(c)
}

// transmit waits until a message has arrived. If the message is lost, transmit returns an error
// after brokenTimeout. If ctx ends earlier, it returns the remaining time until the message
// arrives, or 0 if the message is lost.
func (p *Member) transmit(ctx context.Context) (remaining time.Duration, err error) {
	fate, start := p.mesh.emulator.Next(p.link), time.Now()
	wait := fate.Delay
	if fate.Lost {
		wait, err = brokenTimeout, status.Error(codes.Unavailable, "the connection is lost")
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return 0, err
	case <-ctx.Done():
	}
	if !fate.Lost {
		remaining = wait - time.Since(start)
	}
	return remaining, status.FromContextError(ctx.Err()).Err()
}

// unary carries a call. A request on its way arrives even if its caller gives up.
func (p *Member) unary(
	ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	requestMessage, _ := request.(proto.Message)
	replyMessage, _ := reply.(proto.Message)
	if remaining, err := p.transmit(ctx); err != nil {
		if remaining > 0 {
			requestCopy := clone(requestMessage)
			time.AfterFunc(remaining, func() {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), brokenTimeout)
				defer cancel()
				// The caller does not wait for the reply.
				_ = invoke(ctx, method, requestCopy, replyMessage.ProtoReflect().New().Interface(), conn, opts...)
			})
		}
		return err
	}
	err := invoke(ctx, method, request, reply, conn, opts...)
	if err == nil && p.mesh.OnReply != nil {
		p.mesh.OnReply(method, request, reply)
	}
	if _, lost := p.transmit(ctx); lost != nil {
		proto.Reset(replyMessage)
		return lost
	}
	return err
}

func (p *Member) stream(
	ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if _, err := p.transmit(ctx); err != nil {
		return nil, err
	}
	s, err := open(ctx, desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	return &impairedStream{ClientStream: s, member: p}, nil
}

// impairedStream is a stream with emulated delay and loss of its replies. No message arrives after
// a lost one.
type impairedStream struct {
	grpc.ClientStream
	member *Member
	err    error
}

// RecvMsg implements grpc.ClientStream.
func (s *impairedStream) RecvMsg(to any) error {
	if s.err != nil {
		return s.err
	}
	if err := s.ClientStream.RecvMsg(to); err != nil {
		return err
	}
	_, s.err = s.member.transmit(s.Context())
	return s.err
}
