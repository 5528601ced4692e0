package changes_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
)

// capture is a connection that keeps the last request of Verify.
type capture struct {
	grpc.ClientConnInterface
	request *registryv1.VerifyRequest
}

func (c *capture) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	if request, ok := args.(*registryv1.VerifyRequest); ok {
		c.request = proto.CloneOf(request)
	}
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

// BenchmarkVerify measures the registry's part of one comparison, with ranges of several lengths of
// which the digests are kept, and the reading of a range for the first time.
func BenchmarkVerify(b *testing.B) {
	for _, changed := range []int{0, 50, 5000} {
		log := changestest.New(b)
		conn := &capture{ClientConnInterface: dial(log)}
		follower, err := changes.NewFollower(changes.FollowerConfig{
			Registry: conn, Prefix: changestest.Prefix, Log: kittest.Logger(b), Apply: func(context.Context, []changes.Change, uint64) error { return nil },
		})
		if err == nil {
			err = follower.Begin(b.Context())
		}
		putMany(log, changed)
		all, _ := log.After(b.Context(), 0, changed+1)
		for _, change := range all {
			if err == nil {
				err = follower.Receive(b.Context(), republished(b, "epoch-1", change))
			}
		}
		if err == nil {
			err = follower.Verify(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		ask := func(b *testing.B, verifier *changes.Verifier) {
			answer, err := verifier.Verify(b.Context(), conn.request)
			if err != nil || !answer.GetMatches() {
				b.Fatalf("%v, %v", answer, err)
			}
		}
		b.Run(fmt.Sprintf("changes=%d", changed), func(b *testing.B) {
			b.ReportAllocs()
			verifier := changes.NewVerifier(log)
			for b.Loop() {
				ask(b, verifier)
			}
		})
		b.Run(fmt.Sprintf("changes=%d/first", changed), func(b *testing.B) {
			for b.Loop() {
				ask(b, changes.NewVerifier(log))
			}
		})
	}
}
