package changestest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/grpc"

	"portolan.dev/services/changes"
	"portolan.dev/services/kit/kittest"
)

// Prefix is the prefix of the subjects in tests.
const Prefix = "test"

// Stream is the name of the stream in tests.
const Stream = "test_CHG"

type connection struct {
	once sync.Once
	grpc *grpc.ClientConn
}

type bus struct {
	once sync.Once
	url  string
}

// Conn returns a client connection to the log's ChangeService, which is served until the test ends.
func (l *Log) Conn() *grpc.ClientConn {
	l.conn.once.Do(func() { l.conn.grpc = kittest.Conn(l.t, l.Register) })
	return l.conn.grpc
}

// URL starts a NATS server, and a relay from this log to it, and returns the server's URL. Both run
// until the test ends. Subjects have the prefix Prefix. Changes committed after URL has returned
// are published on the stream.
func (l *Log) URL() string {
	l.t.Helper()
	l.bus.once.Do(func() {
		_, l.bus.url = kittest.NATS(l.t)
		nc := kittest.NATSConn(l.t, l.bus.url)
		relay, err := changes.NewRelay(changes.RelayConfig{
			NATS: nc, Log: l, Prefix: Prefix, Logger: kittest.Logger(l.t), BookmarkEvery: 200 * time.Millisecond,
		})
		if err != nil {
			l.t.Fatalf("relay: %v", err)
		}
		kittest.Run(l.t, "relay", relay.Run)
		WaitForStream(l.t, nc)
	})
	return l.bus.url
}

// WaitForStream waits until a relay has created the stream. Changes committed before that reach
// followers in a snapshot, not as messages.
func WaitForStream(t testing.TB, nc *nats.Conn) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	kittest.Eventually(t, "the stream", func() error {
		_, err := js.Stream(t.Context(), Stream)
		return err
	})
}

// NATS returns a new connection to the server of URL, closed when the test ends.
func (l *Log) NATS() *nats.Conn {
	l.t.Helper()
	return kittest.NATSConn(l.t, l.URL())
}

// Follow runs a follower of the log until the test ends. It uses NATS only if cfg has a connection,
// and sets the other fields that cfg leaves empty.
func (l *Log) Follow(cfg changes.FollowerConfig) *changes.Follower {
	l.t.Helper()
	if cfg.Registry == nil {
		cfg.Registry = l.Conn()
	}
	if cfg.Prefix == "" {
		cfg.Prefix = Prefix
	}
	if cfg.Log == nil {
		cfg.Log = kittest.Logger(l.t)
	}
	if cfg.Apply == nil {
		cfg.Apply = func(context.Context, []changes.Change, uint64) error { return nil }
	}
	follower, err := changes.NewFollower(cfg)
	if err != nil {
		l.t.Fatalf("follower: %v", err)
	}
	kittest.Run(l.t, "follower", follower.Run)
	return follower
}

// WaitFor waits until a follower, or any other value with a revision, has applied the newest
// revision of the log.
func (l *Log) WaitFor(follower interface{ Revision() uint64 }) {
	l.t.Helper()
	head := l.Revision()
	kittest.Eventually(l.t, fmt.Sprintf("revision %d to be applied", head), func() error {
		if got := follower.Revision(); got < head {
			return fmt.Errorf("it is at %d", got)
		}
		return nil
	})
}
