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

	"portolan.dev/faults/sim/registry"
	"portolan.dev/faults/sim/weather"
	"portolan.dev/services/kit/apierr"
)

// lostAfter is how long a caller without a deadline waits for an answer that was lost.
const lostAfter = 5 * time.Second

// Server answers unary calls.
type Server interface {
	Call(ctx context.Context, method string, request, reply proto.Message) error
}

// Network joins one daemon to the registry. It implements rpc.Network.
type Network struct {
	name     string
	link     string
	weather  *weather.Weather
	server   Server
	services Services

	mu   sync.Mutex
	dead bool
}

// New returns the network of a daemon. Services answers the calls that it has methods for, server all others.
func New(name string, w *weather.Weather, server Server, services Services) *Network {
	return &Network{name: name, link: "grpc " + name, weather: w, server: server, services: services}
}

// Kill ends all calls of the daemon. Calls that it makes afterwards reach no server, as if its process were gone.
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
	return &silent{closed: make(chan struct{})}, nil
}

var errUnavailable = status.Error(codes.Unavailable, "the registry is not reached")

// travel waits while a message is on its way.
func (n *Network) travel(ctx context.Context) error {
	fate := n.weather.Next(n.link)
	wait, end := fate.Delay, error(nil)
	if fate.Lost || n.killed() {
		wait, end = lostAfter, errUnavailable
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return end
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// incoming returns the context of the server.
func (n *Network) incoming(ctx context.Context) context.Context {
	sent, _ := metadata.FromOutgoingContext(ctx)
	return registry.WithCaller(metadata.NewIncomingContext(context.Background(), sent), n.name)
}

func (n *Network) unary(ctx context.Context, method string, request, reply any, _ *grpc.ClientConn, _ grpc.UnaryInvoker, _ ...grpc.CallOption) error {
	if err := n.travel(ctx); err != nil {
		return err
	}
	question, _ := request.(proto.Message)
	answer, _ := reply.(proto.Message)
	var err error
	if handler := n.services.unary[method]; handler != nil {
		err = handler(n.incoming(ctx), question, answer)
	} else {
		err = n.server.Call(n.incoming(ctx), method, question, answer)
	}
	if err := n.travel(ctx); err != nil {
		proto.Reset(answer)
		return err
	}
	if err != nil {
		return apierr.ToStatus(err).Err()
	}
	return nil
}

// silent is a listener that gets no connections.
type silent struct {
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (s *silent) Accept() (net.Conn, error) {
	<-s.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (s *silent) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (s *silent) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
