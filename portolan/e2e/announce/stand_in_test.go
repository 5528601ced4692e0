package announce

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/rpc"
)

// standInProgram is the name of the program standIn.
const standInProgram = "edge-stand-in"

// standIn stands for an edge: it serves addresses through the node's agent, greets each client with the
// node's name and the client's address, and sends back each line. After SIGTERM it drains, and ends when
// its connections have ended. Its arguments are the address of the agent, the name of the node, and the
// addresses to serve.
func standIn() int {
	s := &proxy{node: os.Args[2], listeners: map[netip.AddrPort]net.Listener{}, wake: make(chan struct{}, 1)}
	for _, text := range os.Args[3:] {
		s.wanted = append(s.wanted, netip.MustParseAddrPort(text))
	}
	conn, err := rpc.TCP().Dial(os.Args[1])
	if err != nil {
		fmt.Println(err)
		return 1
	}
	ctx, end := context.WithCancel(context.Background())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go func() {
		<-stop
		s.drain()
		s.clients.Wait()
		end()
	}()
	for ctx.Err() == nil {
		err := s.serve(ctx, nodeagentv1.NewLocalProxyServiceClient(conn))
		fmt.Println("stream:", err)
		app.Pause(ctx, 100*time.Millisecond)
		conn.ResetConnectBackoff()
	}
	return 0
}

// proxy is the state of a stand-in.
type proxy struct {
	node    string
	wanted  []netip.AddrPort
	wake    chan struct{}
	clients sync.WaitGroup

	mu        sync.Mutex
	listeners map[netip.AddrPort]net.Listener
	draining  bool
}

func (s *proxy) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.wake <- struct{}{}
}

// serve keeps a stream to the agent, and listens at the addresses that it makes local.
func (s *proxy) serve(ctx context.Context, agent nodeagentv1.LocalProxyServiceClient) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	stream, err := agent.Serve(ctx)
	if err != nil {
		return err
	}
	answers, failed := make(chan *nodeagentv1.ServeResponse), make(chan error, 1)
	go func() {
		for {
			answer, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case answers <- answer:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		if err := stream.Send(s.message()); err != nil && err != io.EOF {
			return err
		}
		select {
		case answer := <-answers:
			s.listen(answer.GetLocal())
		case err := <-failed:
			return err
		case <-s.wake:
		case <-time.After(time.Second):
		}
	}
}

func (s *proxy) message() *nodeagentv1.ServeRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &nodeagentv1.ServeRequest{Draining: s.draining}
	for _, at := range s.wanted {
		m.Addresses = append(m.Addresses, at.Addr().String())
		if s.listeners[at] != nil {
			m.Ready = append(m.Ready, at.Addr().String())
		}
	}
	return m
}

// listen listens at the local ones of the wanted addresses.
func (s *proxy) listen(local []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	config := net.ListenConfig{Control: freely}
	for _, at := range s.wanted {
		if s.listeners[at] != nil || !slices.Contains(local, at.Addr().String()) {
			continue
		}
		lis, err := config.Listen(context.Background(), "tcp", at.String())
		if err != nil {
			fmt.Println(err)
			continue
		}
		s.listeners[at] = lis
		go s.accept(lis)
	}
}

// freely lets a socket of IPv6 be bound to an address that is local by a route only.
func freely(network, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) {
		if network == "tcp6" {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_IPV6, unix.IPV6_FREEBIND, 1)
		}
	})
	return errors.Join(err, failed)
}

func (s *proxy) accept(lis net.Listener) {
	for {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		s.clients.Go(func() { s.echo(conn) })
	}
}

func (s *proxy) echo(conn net.Conn) {
	defer conn.Close()
	client := netip.MustParseAddrPort(conn.RemoteAddr().String()).Addr()
	if _, err := fmt.Fprintln(conn, s.node, client); err != nil {
		return
	}
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, line); err != nil {
			return
		}
	}
}
