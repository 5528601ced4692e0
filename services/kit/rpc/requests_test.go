package rpc_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // every daemon has it, because the exporter of traces imports it
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// TestTooLargeRequestsAreNotDecoded sends requests beyond the limit of their method, which is lower
// than the server's, as a unary call and on a stream.
func TestTooLargeRequestsAreNotDecoded(t *testing.T) {
	f := serve(t, &echo{unary: same, stream: func(ss grpc.ServerStream) error {
		m := newText("")
		if err := ss.RecvMsg(m); err != nil {
			return err
		}
		return ss.SendMsg(m)
	}}, func(o *rpc.ServerOptions) {
		o.MaxRequest = func(method string) int { return map[string]int{unaryMethod: 1000, streamMethod: 2000}[method] }
	})
	stream := func(req string) (string, error) {
		cs, answer := f.open(t.Context(), t), newText("")
		if err := cs.SendMsg(newText(req)); err != nil {
			return "", err
		}
		err := cs.RecvMsg(answer)
		return answer.Value, err
	}
	call := func(req string) (string, error) { return f.call(t.Context(), req) }
	for _, test := range []struct {
		name string
		send func(string) (string, error)
		size int // of the text, which takes 3 bytes more
		want string
	}{
		{"call", call, 997, ""}, {"call", call, 998, "Echo has 1001 bytes, at most 1000 are allowed"},
		{"stream", stream, 1997, ""}, {"stream", stream, 1998, "Watch has 2001 bytes, at most 2000 are allowed"},
	} {
		req := strings.Repeat("x", test.size)
		answer, err := test.send(req)
		switch {
		case test.want == "" && (err != nil || answer != req):
			t.Errorf("%s of %d bytes: %d bytes, %v", test.name, test.size, len(answer), err)
		case test.want != "" && (status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s of %d bytes: %v, want %q", test.name, test.size, err, test.want)
		}
	}
	const counted = `
# HELP portolan_rpc_requests_total Calls answered, by method and status code; a stream counts when it ends.
# TYPE portolan_rpc_requests_total counter
portolan_rpc_requests_total{code="OK",method="/portolan.test.v1.EchoService/Echo"} 1
portolan_rpc_requests_total{code="OK",method="/portolan.test.v1.EchoService/Watch"} 1
portolan_rpc_requests_total{code="ResourceExhausted",method="/portolan.test.v1.EchoService/Echo"} 1
portolan_rpc_requests_total{code="ResourceExhausted",method="/portolan.test.v1.EchoService/Watch"} 1
`
	kittest.Eventually(t, "the count of the calls", func() error {
		return testutil.GatherAndCompare(f.metrics, strings.NewReader(counted), "portolan_rpc_requests_total")
	})
}

// TestCompressedRequestsAreRefused sends a request of 4 KiB that is one of 4 MiB when it is
// decompressed.
func TestCompressedRequestsAreRefused(t *testing.T) {
	f := serve(t, &echo{unary: same}, nil)
	req := newText(strings.Repeat("x", rpc.DefaultMaxMessage-100))
	err := f.conn.Invoke(t.Context(), unaryMethod, req, newText(""), grpc.UseCompressor("gzip"))
	if err == nil || !strings.Contains(err.Error(), "compressed requests are not accepted") {
		t.Errorf("a compressed request: %v", err)
	}
}

// from returns a dialer with a local address.
func from(ip string) grpc.DialOption {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	return grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", addr) })
}

// TestStreamsOfSharedIdentitiesCountByAddress opens streams with one identity from two addresses.
func TestStreamsOfSharedIdentitiesCountByAddress(t *testing.T) {
	for _, test := range []struct {
		who    string
		shared bool
	}{{"operator", true}, {"endpointctl", true}, {"nodeagent/n1", false}, {"workload/n1/default", false}} {
		f := serveTLS(t, &echo{unary: same, stream: func(ss grpc.ServerStream) error {
			if err := ss.SendMsg(newText("open")); err != nil {
				return err
			}
			<-ss.Context().Done()
			return ss.Context().Err()
		}}, test.who, time.Hour, func(o *rpc.ServerOptions) { o.MaxStreamsPerIdentity, o.Authorizer = 1, anyone{} })
		f.mustOpen(t.Context(), t)
		f.conn = f.dial(test.who, time.Hour, from("127.0.0.2"))
		err := f.open(t.Context(), t).RecvMsg(newText(""))
		if test.shared != (err == nil) {
			t.Errorf("%s: a stream from another address: %v", test.who, err)
		}
	}
}

// anyone is an authorizer that admits all calls.
type anyone struct{ registryOnly }

func (anyone) Authorize(context.Context, string) error { return nil }
