package network

import (
	"context"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"portolan.dev/faults/sim/netem"
	"portolan.dev/faults/sim/registry"
	"portolan.dev/services/kit/apierr"
)

// brokenAfter is how long an answer is awaited until the connection counts as broken.
const brokenTimeout = 5 * time.Second

// Server answers unary calls.
type Server interface {
	Call(ctx context.Context, method string, request, reply proto.Message) error
}

// Network joins one daemon to the registry. It implements rpc.Network.
type Network struct {
	name     string
	link     string
	emulator *netem.Emulator
	server   Server
	handlers Handlers

	mu   sync.Mutex
	dead bool
}

// New returns the network of a daemon. Services answers the calls that it has methods for, server
// all others.
func New(name string, emulator *netem.Emulator, server Server, handlers Handlers) *Network {
	return &Network{name: name, link: "grpc " + name, emulator: emulator, server: server, handlers: handlers}
}

// Kill ends all calls of the daemon. Calls that it makes afterwards reach no server, as if its
// process were gone.
func (n *Network) Kill() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dead = true
}

func (n *Network) killed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead
}

// Dial implements rpc.Network.
func (n *Network) Dial(target string, opts ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+target, append(opts,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithUnaryInterceptor(n.unary), grpc.WithStreamInterceptor(n.stream))...)
}

// Listen implements rpc.Network. The daemons get no calls.
func (n *Network) Listen(string) (net.Listener, error) {
	return &idleListener{closed: make(chan struct{})}, nil
}

var errUnavailable = status.Error(codes.Unavailable, "the registry is not reached")

// send lets a message travel, and calls arrive when it arrives, unless it is lost. A message on its
// way arrives even if its sender gives up or is killed, because other machines cannot call it back.
func (n *Network) send(deliver func()) {
	if fate := n.emulator.Next(n.link); !fate.Lost && !n.killed() {
		time.AfterFunc(fate.Delay, deliver)
	}
}

// awaitArrival waits until arrived is closed, the caller gives up, or its connection counts as
// broken.
func awaitArrival(ctx context.Context, arrived <-chan struct{}) error {
	broken := time.NewTimer(brokenTimeout)
	defer broken.Stop()
	select {
	case <-arrived:
		return nil
	case <-broken.C:
		return errUnavailable
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// travel waits while a message is on its way.
func (n *Network) transmit(ctx context.Context) error {
	arrived := make(chan struct{})
	n.send(func() { close(arrived) })
	return awaitArrival(ctx, arrived)
}

// incoming returns the context of the server.
func (n *Network) serverContext(ctx context.Context) context.Context {
	sent, _ := metadata.FromOutgoingContext(ctx)
	return registry.WithCaller(metadata.NewIncomingContext(context.Background(), sent), n.name)
}

// unary carries a call. It has copies of the question and the answer, as a transport has: the
// server may answer when the caller has given up and uses its own for something else.
func (n *Network) unary(ctx context.Context, method string, request, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
	requestMessage, _ := request.(proto.Message)
	replyMessage, _ := reply.(proto.Message)
	requestCopy, replyCopy := clone(requestMessage), replyMessage.ProtoReflect().New().Interface()
	var callErr error
	arrived := make(chan struct{})
	n.send(func() {
		callErr = n.dispatch(n.serverContext(ctx), method, requestCopy, replyCopy)
		n.send(func() { close(arrived) })
	})
	if err := awaitArrival(ctx, arrived); err != nil {
		return err
	}
	if callErr != nil {
		return apierr.ToStatus(callErr).Err()
	}
	moveFields(replyCopy, replyMessage)
	return nil
}

// answer has the server answer a question.
func (n *Network) dispatch(ctx context.Context, method string, requestCopy, dispatch proto.Message) error {
	if handler := n.handlers.unary[method]; handler != nil {
		return handler(ctx, requestCopy, dispatch)
	}
	return n.server.Call(ctx, method, requestCopy, dispatch)
}

// copied returns a copy of a message.
func clone(m proto.Message) proto.Message {
	if fast, ok := m.(interface{ CloneMessageVT() proto.Message }); ok {
		return fast.CloneMessageVT()
	}
	return proto.Clone(m)
}

// moveFields sets the fields of a message to the fields of another one, which must not be in use
// elsewhere.
func moveFields(from, to proto.Message) {
	from.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.ProtoReflect().Set(field, value)
		return true
	})
}

// silent is a listener that gets no connections.
type idleListener struct {
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (s *idleListener) Accept() (net.Conn, error) {
	<-s.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (s *idleListener) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (s *idleListener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
