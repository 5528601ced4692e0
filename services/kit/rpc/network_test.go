package rpc_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// via returns the network by which the call arrived: "tcp" or "bufconn".
func via(ctx context.Context, _ *text) (*text, error) {
	p, _ := peer.FromContext(ctx)
	return newText(p.Addr.Network()), nil
}

// serveOn serves via at addr and returns the address with the resolved port.
func serveOn(t *testing.T, n rpc.Network, addr string) (bound string, stop func()) {
	t.Helper()
	lis, err := n.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	log := kittest.Logger(t)
	srv := rpc.NewServer(rpc.ServerOptions{Log: log, Metrics: obs.NewMetrics(), Health: health.New(log)})
	(&echo{unary: via}).register(srv)
	return lis.Addr().String(), kittest.Run(t, "server at "+addr, func(ctx context.Context) error { return srv.Serve(ctx, lis) })
}

func callVia(t *testing.T, n rpc.Network, target string) (string, error) {
	t.Helper()
	conn, err := n.Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	resp := newText("")
	err = conn.Invoke(t.Context(), unaryMethod, newText(""), resp)
	return resp.Value, err
}

func TestMemoryNetwork(t *testing.T) {
	network := rpc.Memory()
	exact, _ := serveOn(t, network, "127.0.0.1:0")
	all, _ := serveOn(t, network, ":0")
	_, allPort, err := net.SplitHostPort(all)
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, _ := serveOn(t, rpc.TCP(), "127.0.0.1:0")
	tests := []struct {
		name    string
		network rpc.Network
		target  string
		want    string
	}{
		{"own listener", network, exact, "bufconn"},
		{"own listener, scheme", network, "passthrough:///" + exact, "bufconn"},
		{"listener on all addresses", network, "127.0.0.1:" + allPort, "bufconn"},
		{"as listened on", network, all, "bufconn"},
		{"by name", network, "localhost:" + allPort, "bufconn"},
		{"somebody else's", network, elsewhere, "tcp"},
		{"client from outside", rpc.TCP(), exact, "tcp"},
		{"another memory network", rpc.Memory(), exact, "tcp"},
		{"list", network, exact + "," + exact, "bufconn"},
	}
	for _, tt := range tests {
		if got, err := callVia(t, tt.network, tt.target); err != nil || got != tt.want {
			t.Errorf("%s: came by %q, %v, want %q", tt.name, got, err, tt.want)
		}
	}
}

func TestListenersAreForgottenWhenClosed(t *testing.T) {
	network := rpc.Memory()
	addr, stop := serveOn(t, network, "127.0.0.1:0")
	if !rpc.Serves(network, addr) {
		t.Errorf("%s is not served in memory", addr)
	}
	stop()
	if rpc.Serves(network, addr) {
		t.Errorf("%s is served in memory after its server stopped", addr)
	}
}

func TestClosingAListenerLeavesNothing(t *testing.T) {
	network := rpc.Memory()
	lis, err := network.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if conn, err := lis.Accept(); err == nil {
			conn.Close()
			t.Error("accepted a connection that nobody made")
		}
	})
	if err := lis.Close(); err != nil {
		t.Error(err)
	}
	if err := lis.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	wg.Wait()
	if _, err := lis.Accept(); err == nil {
		t.Error("accepted after close")
	}
}

func TestListenErrorNamesTheAddress(t *testing.T) {
	taken := kittest.Listen(t).Addr().String()
	for name, n := range map[string]rpc.Network{"tcp": rpc.TCP(), "memory": rpc.Memory()} {
		lis, err := n.Listen(taken)
		if err == nil {
			lis.Close()
		}
		if err == nil || !strings.Contains(err.Error(), taken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRoundRobin checks that calls are distributed over a list of addresses, and that no call fails
// once the loss of one address is known.
func TestRoundRobin(t *testing.T) {
	network := rpc.TCP()
	a, stopA := serveOn(t, network, "127.0.0.1:0")
	b, _ := serveOn(t, network, "127.0.0.1:0")
	conn, err := network.Dial(a + ", " + b)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	seen := map[string]int{}
	call := func() error {
		var p peer.Peer
		err := conn.Invoke(t.Context(), unaryMethod, newText(""), newText(""), grpc.Peer(&p), grpc.WaitForReady(true))
		if err == nil {
			seen[p.Addr.String()]++
		}
		return err
	}
	kittest.Eventually(t, "calls at both servers", func() error {
		if err := call(); err != nil {
			return err
		}
		if seen[a] == 0 || seen[b] == 0 {
			return fmt.Errorf("seen %v", seen)
		}
		return nil
	})
	stopA()
	for range 10 {
		if err := call(); err != nil {
			t.Errorf("with one of two servers: %v", err)
		}
	}
}
