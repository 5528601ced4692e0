package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
)

// waiting is the handler of a stream that sends one message and then waits for its end.
func waiting(ss grpc.ServerStream) error {
	if err := ss.SendMsg(newText("")); err != nil {
		return err
	}
	<-ss.Context().Done()
	return ss.Context().Err()
}

// TestRevocationEndsCallsAndStreams revokes the certificate of a client that has a stream open, and
// gives the same identity a new one.
func TestRevocationEndsCallsAndStreams(t *testing.T) {
	var server *identity.Source
	f := serveTLS(t, &echo{unary: same, stream: waiting}, "registry", time.Hour, func(o *rpc.ServerOptions) { server = o.Identity })
	stream := f.open(t.Context(), t)
	if err := stream.RecvMsg(newText("")); err != nil {
		t.Fatal(err)
	}
	revoked := time.Now()
	server.DenyList().Update(map[string]identity.Denial{"a": {Identity: "registry", IssuedBefore: revoked, Reason: "stolen"}}, nil)
	for what, err := range map[string]error{
		"the stream": stream.RecvMsg(newText("")),
		"a call":     f.conn.Invoke(t.Context(), unaryMethod, newText("x"), newText("")),
	} {
		if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "(stolen): portolan certs issue registry --force makes a new one") {
			t.Errorf("%s: %v", what, err)
		}
	}
	kittest.Eventually(t, "the refusal of a new connection", func() error {
		err := f.conn.Invoke(t.Context(), unaryMethod, newText("x"), newText(""))
		if status.Code(err) == codes.Unavailable && strings.Contains(err.Error(), "the server refused our certificate") && strings.Contains(err.Error(), "it was revoked") {
			return nil
		}
		return fmt.Errorf("got %v", err)
	})
	kittest.Eventually(t, "a call with a certificate that was issued later", func() error {
		return f.dial("registry", time.Hour).Invoke(t.Context(), unaryMethod, newText("x"), newText(""))
	})
}

// TestMaxConnectionAge makes calls and keeps a stream open while the server ends every connection
// after a short time. No call may fail, and the stream ends with an error after which clients
// resume.
func TestMaxConnectionAge(t *testing.T) {
	addresses := map[string]bool{}
	f := serveTLS(t, &echo{stream: waiting, unary: func(ctx context.Context, req *text) (*text, error) {
		p, _ := peer.FromContext(ctx)
		addresses[p.Addr.String()] = true // calls come one after the other
		return req, nil
	}}, "registry", time.Hour, func(o *rpc.ServerOptions) { o.MaxConnectionAge = 300 * time.Millisecond })
	stream := f.open(t.Context(), t)
	if err := stream.RecvMsg(newText("")); err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "three connections", func() error {
		if _, err := f.call(t.Context(), "x"); err != nil {
			t.Fatalf("a call failed: %v", err)
		}
		if len(addresses) < 3 {
			return errors.New("the client did not connect again")
		}
		return nil
	})
	if err := stream.RecvMsg(newText("")); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream ended with %v", err)
	}
}
