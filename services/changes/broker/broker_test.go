package broker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"portolan.dev/services/changes/broker"
	"portolan.dev/services/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Main(m) }

// TestAsServer checks that the broker and a real server behave alike in everything that the relay
// and the followers use.
func TestAsServer(t *testing.T) {
	t.Run("server", func(t *testing.T) {
		_, url := kittest.NATS(t)
		testStream(t, url)
	})
	t.Run("broker", func(t *testing.T) {
		b := broker.New(broker.Options{})
		t.Cleanup(b.Close)
		testStream(t, "", nats.InProcessServer(b.Dialer("test")))
	})
}

func testStream(t *testing.T, url string, options ...nats.Option) {
	nc, err := nats.Connect(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Stream(t.Context(), "s"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatalf("a stream that does not exist: %v", err)
	}
	config := jetstream.StreamConfig{
		Name: "s", Subjects: []string{"in.>"}, MaxMsgs: 3, AllowDirect: true, DenyDelete: true, FirstSeq: 11,
		RePublish: &jetstream.RePublish{Source: "in.>", Destination: "out.>"}, Metadata: map[string]string{"epoch": "e"},
	}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	republished, err := nc.SubscribeSync("out.*.x")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		sequence := uint64(11 + n)
		ack, err := js.Publish(t.Context(), "in.a.x", fmt.Append(nil, n), jetstream.WithExpectLastSequence(sequence-1))
		if err != nil || ack.Sequence != sequence {
			t.Fatalf("message %d: %v, %v", n, ack, err)
		}
		m, err := republished.NextMsg(time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject != "out.a.x" || string(m.Data) != fmt.Sprint(n) || m.Header.Get("Nats-Stream") != "s" ||
			m.Header.Get("Nats-Subject") != "in.a.x" || m.Header.Get("Nats-Sequence") != fmt.Sprint(sequence) {
			t.Errorf("message %d was republished as %+v", n, m)
		}
	}
	var refused *jetstream.APIError
	if _, err := js.Publish(t.Context(), "in.a.x", nil, jetstream.WithExpectLastSequence(14)); !errors.As(err, &refused) ||
		refused.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		t.Errorf("a message after another than the last one: %v", err)
	}
	stream, err := js.Stream(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	testState(t, stream, 13, 15, 3)
	if got := stream.CachedInfo().Config; got.Metadata["epoch"] != "e" || got.RePublish == nil || got.RePublish.Destination != "out.>" {
		t.Errorf("configuration %+v", got)
	}
	if m, err := stream.GetMsg(t.Context(), 14); err != nil || string(m.Data) != "3" || m.Subject != "in.a.x" {
		t.Errorf("message 14: %v, %v", m, err)
	}
	if _, err := stream.GetMsg(t.Context(), 12); !errors.Is(err, jetstream.ErrMsgNotFound) {
		t.Errorf("a message beyond the limit: %v", err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSequence(21)); err != nil {
		t.Fatal(err)
	}
	testState(t, stream, 21, 20, 0)
	if err := js.DeleteStream(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "s"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a stream that was deleted: %v", err)
	}
}

func testState(t *testing.T, stream jetstream.Stream, first, last, messages uint64) {
	t.Helper()
	info, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := info.State; s.FirstSeq != first || s.LastSeq != last || s.Msgs != messages {
		t.Errorf("the stream has %d messages from %d to %d, want %d from %d to %d", s.Msgs, s.FirstSeq, s.LastSeq, messages, first, last)
	}
}

// TestLimit checks that the broker's own limit holds for a stream that asks for more.
func TestLimit(t *testing.T) {
	b := broker.New(broker.Options{MaxMsgs: 2})
	defer b.Close()
	nc, err := nats.Connect("", nats.InProcessServer(b.Dialer("test")))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	config := jetstream.StreamConfig{
		Name: "s", Subjects: []string{"in.>"}, MaxMsgs: 100, RePublish: &jetstream.RePublish{Source: "in.>", Destination: "out.>"},
	}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := js.Publish(t.Context(), "in.a", []byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	if first, data := b.Stored(); first != 4 || len(data) != 2 {
		t.Errorf("%d messages from %d", len(data), first)
	}
}
