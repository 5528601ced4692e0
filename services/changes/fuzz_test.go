package changes_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
)

// FuzzReceive checks that no message makes a follower fail, and that a forged message is applied
// only if it names the next revision.
func FuzzReceive(f *testing.F) {
	f.Add("test.rep.head", "", "", "", "", []byte{})
	f.Add("test.rep.chg.Service.default.a", "test_CHG", "test.chg.Service.default.a", "7", "epoch-1", []byte{0x08, 0x07})
	f.Add("test.rep.chg.Node._.n", "test_CHG", "test.chg.Node._.n", "18446744073709551615", "epoch-1", []byte{0xff})
	f.Add("test.rep.chg", "test_CHG", "test.chg", "0", "", []byte(nil))
	log := changestest.New(f)
	putMany(log, 5)
	conn := log.Conn()
	f.Fuzz(func(t *testing.T, subject, stream, published, sequence, epoch string, data []byte) {
		follower, err := changes.NewFollower(changes.FollowerConfig{
			Registry: conn, Prefix: changestest.Prefix, Log: kittest.Logger(t), Apply: newReplay().apply, BookmarkEvery: 2, IdleEvery: 1, Jitter: 1, RetryMax: 1, DistrustFor: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		if err := follower.Begin(ctx); err != nil {
			t.Fatal(err)
		}
		m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
		m.Header.Set("Nats-Stream", stream)
		m.Header.Set("Nats-Subject", published)
		m.Header.Set("Nats-Sequence", sequence)
		m.Header.Set("Portolan-Epoch", epoch)
		if err := follower.Receive(ctx, m); err != nil {
			t.Fatal(err)
		}
		if _, revision := follower.Position(); revision != 5 && sequence != "6" {
			t.Fatalf("the view is at %d", revision)
		}
	})
}
