package rpc_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"

	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// TestClientLeft checks that a server distinguishes a call that the client has cancelled from a call of a
// client that has closed the connection.
func TestClientLeft(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(conn *net.TCPConn, cancel func()) error
		want bool
	}{
		{"closed", func(conn *net.TCPConn, _ func()) error { return conn.Close() }, true},
		{"reset", func(conn *net.TCPConn, _ func()) error {
			if err := conn.SetLinger(0); err != nil {
				return err
			}
			return conn.Close()
		}, true},
		{"given up", func(_ *net.TCPConn, cancel func()) error { cancel(); return nil }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun, left := make(chan struct{}), make(chan bool, 1)
			e := &echo{stream: func(ss grpc.ServerStream) error {
				close(begun)
				<-ss.Context().Done()
				left <- rpc.ClientLeft(ss.Context())
				return nil
			}}
			lis := kittest.Listen(t)
			f := serveEcho(t, e, lis, nil)
			conns := make(chan *net.TCPConn, 10)
			conn, err := rpc.TCP().Dial(lis.Addr().String(), grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				opened, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
				if err == nil {
					conns <- opened.(*net.TCPConn)
				}
				return opened, err
			}))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			f.conn = conn
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.open(ctx, t)
			<-begun
			if err := c.end(<-conns, cancel); err != nil {
				t.Fatal(err)
			}
			if got := <-left; got != c.want {
				t.Errorf("the client has left: %v, want %v", got, c.want)
			}
		})
	}
}
