package changes_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/testing/protocmp"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// relayOf returns a relay with short periods. The tests do not depend on their length.
func relayOf(t *testing.T, log changes.Log, url string, change ...func(*changes.RelayConfig)) *changes.Relay {
	t.Helper()
	cfg := changes.RelayConfig{
		Log: log, Prefix: changestest.Prefix, Logger: kittest.Logger(t),
		BookmarkEvery: 50 * time.Millisecond, CheckEvery: 50 * time.Millisecond, PollEvery: 20 * time.Millisecond,
	}
	for _, fn := range change {
		fn(&cfg)
	}
	if cfg.NATS == nil {
		cfg.NATS = kittest.NATSConn(t, url)
	}
	relay, err := changes.NewRelay(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return relay
}

func jetStream(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	return jetStreamOn(t, impatient(t, url))
}

func jetStreamOn(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// streamIsAt returns an error unless the stream has the log's epoch and has reached the revision.
func streamIsAt(js jetstream.JetStream, log *changestest.Log, revision uint64) error {
	// A server that is starting never answers questions that it received too early, so the question
	// is given up long before the callers are.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	epoch, _, _, _ := log.Head(ctx)
	stream, err := js.Stream(ctx, changestest.Stream)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	if got := info.Config.Metadata["epoch"]; got != epoch {
		return fmt.Errorf("stream is of %s, the log of %s", got, epoch)
	}
	if info.State.LastSeq != revision {
		return fmt.Errorf("stream is at %d, want %d", info.State.LastSeq, revision)
	}
	return nil
}

func waitForStreamAt(t *testing.T, js jetstream.JetStream, log *changestest.Log, revision uint64) {
	t.Helper()
	kittest.Eventually(t, "the stream to be the log's", func() error { return streamIsAt(js, log, revision) })
}

// compareStream reads the whole stream and compares it with the log, message by message.
func compareStream(t *testing.T, js jetstream.JetStream, log *changestest.Log) {
	t.Helper()
	ctx := t.Context()
	epoch, head, _, _ := log.Head(ctx)
	stream, err := js.Stream(ctx, changestest.Stream)
	if err != nil {
		t.Fatal(err)
	}
	state := stream.CachedInfo().State
	if state.LastSeq != head || state.Msgs != head-state.FirstSeq+1 {
		t.Fatalf("stream has %d messages from %d to %d, the log ends at %d", state.Msgs, state.FirstSeq, state.LastSeq, head)
	}
	want, err := log.After(ctx, state.FirstSeq-1, int(head))
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	messages, err := consumer.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer messages.Stop()
	for _, change := range want {
		m, err := messages.Next()
		if err != nil {
			t.Fatalf("revision %d: %v", change.GetRevision(), err)
		}
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		got := &registryv1.Change{}
		if err := got.UnmarshalVT(m.Data()); err != nil {
			t.Fatal(err)
		}
		if meta.Sequence.Stream != change.GetRevision() || m.Headers().Get("Portolan-Epoch") != epoch || !bytes.Equal(m.Data(), change.Payload) {
			t.Fatalf("sequence %d, epoch %q; differs from the log (-log +stream):\n%s", meta.Sequence.Stream,
				m.Headers().Get("Portolan-Epoch"), cmp.Diff(change.Change, got, protocmp.Transform()))
		}
		key := object.KeyOf(object.Unwrap(got.GetObject()))
		if subject := "test.chg.Service.default." + strings.ReplaceAll(key.Name, ".", "=2E"); m.Subject() != subject {
			t.Fatalf("revision %d is on subject %s, want %s", change.GetRevision(), m.Subject(), subject)
		}
	}
}

// TestRelaysRaceWhileConnectionsAreCut checks that several relays with failing connections still
// put every revision of the log into the stream once and in order.
func TestRelaysRaceWhileConnectionsAreCut(t *testing.T) {
	const total, rounds = 20_000, 20
	srv, url := kittest.NATS(t)
	log := changestest.New(t)
	for i := range 2 {
		relay := relayOf(t, log, url, func(cfg *changes.RelayConfig) { cfg.NATS = impatient(t, url, nats.Name(cuttable)) })
		kittest.Run(t, fmt.Sprintf("relay %d", i), relay.Run)
	}
	js := jetStream(t, url)
	waitForStreamAt(t, js, log, 0)
	for round := range rounds {
		putMany(log, total/rounds)
		// The cut comes while the messages just written are being published.
		kittest.Eventually(t, "the relays to get on", func() error { return streamIsPast(js, uint64(round*total/rounds)) })
		cutConnections(t, srv)
	}
	waitForStreamAt(t, js, log, total)
	compareStream(t, js, log)
	if epoch, _, _, _ := log.Head(t.Context()); epoch != "epoch-1" {
		t.Errorf("the log is of %s: the stream once had what the log had not", epoch)
	}
}

// impatient connects like kittest.NATSConn, but reconnects at once.
func impatient(t *testing.T, url string, options ...nats.Option) *nats.Conn {
	t.Helper()
	options = append(options, nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(time.Millisecond, time.Millisecond),
		nats.Timeout(time.Minute))
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func streamIsPast(js jetstream.JetStream, revision uint64) error {
	stream, err := js.Stream(context.Background(), changestest.Stream)
	if err != nil {
		return err
	}
	if last := stream.CachedInfo().State.LastSeq; last <= revision {
		return fmt.Errorf("stream is at %d", last)
	}
	return nil
}

// cuttable is the name of the connections that cutConnections closes.
const cuttable = "cuttable"

// cutConnections closes all connections named cuttable. They reconnect.
func cutConnections(t *testing.T, srv *server.Server) {
	t.Helper()
	conns, err := srv.Connz(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, conn := range conns.Conns {
		if conn.Name == cuttable {
			_ = srv.DisconnectClientByID(conn.Cid) // it may be gone already
		}
	}
}

// TestRelayMendsTheStream damages the stream or the log while no relay runs, and lets the log move
// on. A new relay must make the stream equal to the log again, and a follower that ran all the time
// must end with the log's state.
func TestRelayMendsTheStream(t *testing.T) {
	ctx := context.Background()
	for name, damage := range map[string]func(t *testing.T, js jetstream.JetStream, log *changestest.Log) error{
		"nothing": func(*testing.T, jetstream.JetStream, *changestest.Log) error { return nil },
		"deleted": func(_ *testing.T, js jetstream.JetStream, _ *changestest.Log) error {
			return js.DeleteStream(ctx, changestest.Stream)
		},
		"another epoch": func(_ *testing.T, _ jetstream.JetStream, log *changestest.Log) error {
			_, err := log.NewEpoch(ctx)
			return err
		},
		"of somebody else": func(_ *testing.T, js jetstream.JetStream, _ *changestest.Log) error {
			if err := js.DeleteStream(ctx, changestest.Stream); err != nil {
				return err
			}
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: changestest.Stream, Subjects: []string{"somebody.else"}})
			return err
		},
		"of another log": func(t *testing.T, js jetstream.JetStream, _ *changestest.Log) error {
			if err := js.DeleteStream(ctx, changestest.Stream); err != nil {
				return err
			}
			return foreignStream(t, js, "epoch-of-another-log", 50)
		},
		"set back to an older copy": func(t *testing.T, js jetstream.JetStream, _ *changestest.Log) error {
			if err := js.DeleteStream(ctx, changestest.Stream); err != nil {
				return err
			}
			return foreignStream(t, js, "epoch-1", 0) // of the log's epoch, but at 0
		},
		"log set back": func(_ *testing.T, _ jetstream.JetStream, log *changestest.Log) error {
			log.Restore(9)
			return nil
		},
		"log set back and gone another way": func(_ *testing.T, _ jetstream.JetStream, log *changestest.Log) error {
			log.Restore(9)
			for i := range 20 {
				log.Put(service(fmt.Sprintf("another%d", i), i))
			}
			return nil
		},
		"log pruned beyond the stream": func(_ *testing.T, _ jetstream.JetStream, log *changestest.Log) error {
			putMany(log, 20)
			log.Prune(log.Revision() - 3)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, url := kittest.NATS(t)
			log := changestest.New(t)
			js := jetStream(t, url)
			f := log.Follow(fast(changes.FollowerConfig{NATS: kittest.NATSConn(t, url)}))
			stop := kittest.Run(t, "first relay", relayOf(t, log, url).Run)
			waitForStreamAt(t, js, log, 0)
			putMany(log, 30)
			waitForStreamAt(t, js, log, 30)
			stop()

			if err := damage(t, js, log); err != nil {
				t.Fatal(err)
			}
			log.Put(service("after", 1))
			log.Delete(serviceKey("s1.example"))
			kittest.Run(t, "second relay", relayOf(t, log, url).Run)
			waitForStreamAt(t, js, log, log.Revision())
			log.Put(service("later", 1))
			waitForStreamAt(t, js, log, log.Revision())
			compareStream(t, js, log)
			waitForView(t, log, f)
		})
	}
}

// foreignStream creates a stream that looks like a relay's but has other messages than the log.
func foreignStream(t *testing.T, js jetstream.JetStream, epoch string, messages int) error {
	t.Helper()
	kittest.Eventually(t, "a foreign stream", func() error { // the server may still remove files of the deleted one
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: changestest.Stream, Subjects: []string{"test.chg.>"}, Metadata: map[string]string{"epoch": epoch}, DenyDelete: true,
			RePublish: &jetstream.RePublish{Source: "test.chg.>", Destination: "test.rep.chg.>"},
		})
		return err
	})
	for range messages {
		if _, err := js.Publish(t.Context(), "test.chg.Service.default.foreign", []byte("foreign")); err != nil {
			return err
		}
	}
	return nil
}

// TestStreamThatTakesNothing checks that a stream that answers questions but refuses every message
// is recreated.
func TestStreamThatTakesNothing(t *testing.T) {
	_, url := kittest.NATS(t)
	log := changestest.New(t)
	js := jetStream(t, url)
	kittest.Run(t, "relay", relayOf(t, log, url, func(cfg *changes.RelayConfig) { cfg.StuckAfter = 100 * time.Millisecond }).Run)
	waitForStreamAt(t, js, log, 0)
	putMany(log, 5)
	waitForStreamAt(t, js, log, 5)
	// On a busy machine the relay may be recreating the stream already.
	kittest.Eventually(t, "the stream to refuse everything", func() error {
		stream, err := js.Stream(t.Context(), changestest.Stream)
		if err != nil {
			return err
		}
		cfg := stream.CachedInfo().Config
		cfg.MaxMsgSize = 1
		_, err = js.UpdateStream(t.Context(), cfg)
		return err
	})
	putMany(log, 5)
	waitForStreamAt(t, js, log, 10)
}

// TestChangeTooLargeForAMessage checks that the stream continues after a change that is too large
// for a message, and that followers read that change from the log.
func TestChangeTooLargeForAMessage(t *testing.T) {
	log := changestest.New(t)
	f := log.Follow(changes.FollowerConfig{NATS: log.NATS()})
	log.WaitFor(f)
	large := &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: "large", Annotations: map[string]string{
		"text": strings.Repeat("x", 2<<20),
	}}}
	log.Put(service("a", 1), large, service("b", 1))
	log.WaitFor(f)
	waitForView(t, log, f)
	waitForStreamAt(t, jetStream(t, log.URL()), log, 3)
}

// brokenLog is a log for which the store is away, at first or for ever.
type brokenLog struct {
	*changestest.Log
	away chan struct{} // closed when the store is back
}

var errAway = errors.New("store is away")

func (l brokenLog) Head(ctx context.Context) (string, uint64, uint64, error) {
	select {
	case <-l.away:
		return l.Log.Head(ctx)
	default:
		return "", 0, 0, errAway
	}
}

// TestAQuestionThatNobodyAnsweredIsAskedAgainSoon checks that the relay repeats an unanswered
// question soon. JetStream never answers questions that it receives while it starts or has no
// leader. In this test a client that never replies takes its place.
func TestAQuestionThatNobodyAnsweredIsAskedAgainSoon(t *testing.T) {
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	defer kittest.StopNATS(srv)
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("the server does not start")
	}
	silent := kittest.NATSConn(t, srv.ClientURL())
	asked := make(chan *nats.Msg, 100)
	deaf, err := silent.ChanSubscribe("$JS.API.>", asked)
	if err == nil {
		err = silent.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	log := changestest.New(t)
	relay := relayOf(t, log, srv.ClientURL(), func(cfg *changes.RelayConfig) { cfg.AckTimeout = time.Hour })
	kittest.Run(t, "relay", relay.Run)
	kittest.Receive(t, "the first question", asked)
	if err := deaf.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	if err := srv.EnableJetStream(&server.JetStreamConfig{StoreDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	waitForStreamAt(t, jetStream(t, srv.ClientURL()), log, 0)
}

func TestRelayWaitsForTheStore(t *testing.T) {
	_, url := kittest.NATS(t)
	log := brokenLog{Log: changestest.New(t), away: make(chan struct{})}
	kittest.Run(t, "relay", relayOf(t, log, url).Run)
	js := jetStream(t, url)
	if _, err := js.Stream(t.Context(), changestest.Stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatalf("stream without a log: %v", err)
	}
	close(log.away)
	waitForStreamAt(t, js, log.Log, 0)
	putMany(log.Log, 3)
	waitForStreamAt(t, js, log.Log, 3)
}

// stumblingLog is a log that fails to read its head once, right after the stream was created.
type stumblingLog struct {
	*changestest.Log
	stumbles atomic.Bool
	stumbled chan struct{}
}

func (l *stumblingLog) Lock(ctx context.Context, fn func(ctx context.Context) error) error {
	defer l.stumbles.Store(true)
	return l.Log.Lock(ctx, fn)
}

func (l *stumblingLog) Head(ctx context.Context) (string, uint64, uint64, error) {
	if !l.stumbles.CompareAndSwap(true, false) {
		return l.Log.Head(ctx)
	}
	l.stumbled <- struct{}{}
	return "", 0, 0, errAway
}

// TestNothingIsPublishedWithoutAnEpoch checks that a relay that cannot read the log's head does not
// feed the stream that it has just created.
func TestNothingIsPublishedWithoutAnEpoch(t *testing.T) {
	_, url := kittest.NATS(t)
	log := &stumblingLog{Log: changestest.New(t), stumbled: make(chan struct{}, 10)}
	kittest.Run(t, "relay", relayOf(t, log, url, func(cfg *changes.RelayConfig) {
		// The periods are long, so that only the creation of the stream reads the head.
		cfg.BookmarkEvery, cfg.CheckEvery = time.Hour, time.Hour
	}).Run)
	kittest.Receive(t, "the failure", log.stumbled)
	putMany(log.Log, 3)
	js := jetStream(t, url)
	waitForStreamAt(t, js, log.Log, 3)
	compareStream(t, js, log.Log)
}

func TestRefusesPrefix(t *testing.T) {
	for _, prefix := range []string{"a b", "a..b", "a.>", "*", "a_b", "."} {
		if _, err := changes.NewRelay(changes.RelayConfig{NATS: &nats.Conn{}, Prefix: prefix}); err == nil {
			t.Errorf("prefix %q is accepted", prefix)
		}
	}
}

// TestABatchHasOneAcknowledgement counts the messages that a relay receives while it publishes many
// changes. An acknowledgement of each change would be a message each.
func TestABatchHasOneAcknowledgement(t *testing.T) {
	const total = 20_000
	_, url := kittest.NATS(t)
	log := changestest.New(t)
	conn := impatient(t, url)
	kittest.Run(t, "relay", relayOf(t, log, url, func(cfg *changes.RelayConfig) { cfg.NATS = conn }).Run)
	js := jetStream(t, url)
	waitForStreamAt(t, js, log, 0)
	putMany(log, total)
	waitForStreamAt(t, js, log, total)
	if n := conn.Stats().InMsgs; n > total/4 {
		t.Errorf("%d messages for %d changes", n, total)
	}
	compareStream(t, js, log)
}
