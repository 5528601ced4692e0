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

// brokenTimeout is the time after which a connection without a reply counts as broken.
const brokenTimeout = 5 * time.Second

// Server answers unary calls.
type Server interface {
	Call(ctx context.Context, method string, request, reply proto.Message) error
}

// Network connects one daemon to the registry. It implements rpc.Network.
type Network struct {
	name     string
	link     string
	emulator *netem.Emulator
	server   Server
	handlers Handlers

	mu   sync.Mutex
	dead bool
}

// New returns the network of a daemon. Calls of methods without a handler go to server.
func New(name string, emulator *netem.Emulator, server Server, handlers Handlers) *Network {
	return &Network{name: name, link: "grpc " + name, emulator: emulator, server: server, handlers: handlers}
}

// Kill ends the daemon's communication, as if its process had died. No further request or reply is
// sent, but messages on their way still arrive.
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

// Listen implements rpc.Network. The listener gets no connections, because nothing calls the
// daemons.
func (n *Network) Listen(string) (net.Listener, error) {
	return &idleListener{closed: make(chan struct{})}, nil
}

var errUnavailable = status.Error(codes.Unavailable, "the registry is unreachable")

// send sends a message and calls deliver when it arrives, unless it is lost. A message arrives even
// if its sender gives up or is killed after sending it.
func (n *Network) send(deliver func()) {
	if fate := n.emulator.Next(n.link); !fate.Lost && !n.killed() {
		time.AfterFunc(fate.Delay, deliver)
	}
}

// awaitArrival waits until arrived is closed. It returns an error if ctx ends or brokenTimeout
// passes before that.
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

// transmit sends a message and waits until it has arrived.
func (n *Network) transmit(ctx context.Context) error {
	arrived := make(chan struct{})
	n.send(func() { close(arrived) })
	return awaitArrival(ctx, arrived)
}

// serverContext returns the context for the server, with the caller's metadata and name.
func (n *Network) serverContext(ctx context.Context) context.Context {
	sent, _ := metadata.FromOutgoingContext(ctx)
	return registry.WithCaller(metadata.NewIncomingContext(context.Background(), sent), n.name)
}

// unary carries a call. Like a transport, it copies the request and the reply, because the server
// may run after the caller has given up and reuses its messages.
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

// dispatch calls the handler of the method, or the server if there is none.
func (n *Network) dispatch(ctx context.Context, method string, request, reply proto.Message) error {
	if handler := n.handlers.unary[method]; handler != nil {
		return handler(ctx, request, reply)
	}
	return n.server.Call(ctx, method, request, reply)
}

func clone(m proto.Message) proto.Message {
	if fast, ok := m.(interface{ CloneMessageVT() proto.Message }); ok {
		return fast.CloneMessageVT()
	}
	return proto.Clone(m)
}

// moveFields sets the fields of the message to without copying their values. The message from must
// not be used afterwards.
func moveFields(from, to proto.Message) {
	from.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.ProtoReflect().Set(field, value)
		return true
	})
}

// idleListener is a listener that gets no connections.
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
