package changes_test

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/kittest"
)

func TestHeartbeats(t *testing.T) {
	_, url := kittest.NATS(t)
	listener, sender := kittest.NATSConn(t, url), kittest.NATSConn(t, url)
	heard := make(chan *nodeagentv1.Heartbeat, 10)
	stop, err := changes.SubscribeHeartbeats(listener, "test", func(beat *nodeagentv1.Heartbeat) { heard <- beat })
	if err != nil {
		t.Fatal(err)
	}
	if err := listener.Flush(); err != nil {
		t.Fatal(err)
	}
	want := &nodeagentv1.Heartbeat{Node: "n1.example", AppliedRevision: 7, Synced: true}

	// A heartbeat that names another node than its subject, and an undecodable one, come first.
	forged, err := (&nodeagentv1.Heartbeat{Node: want.GetNode(), AppliedRevision: 99}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	for subject, data := range map[string][]byte{"test.hb.n2": forged, "test.hb.n3": {0xff}} {
		if err := sender.Publish(subject, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := changes.PublishHeartbeat(sender, "test", want); err != nil {
		t.Fatal(err)
	}
	if got := kittest.Receive(t, "heartbeat", heard); !proto.Equal(got, want) {
		t.Errorf("heard %v, want %v", got, want)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestHeartbeatWithoutNATS(t *testing.T) {
	_, url := kittest.NATS(t)
	nc := kittest.NATSConn(t, url)
	nc.Close()
	if err := changes.PublishHeartbeat(nc, "test", &nodeagentv1.Heartbeat{Node: "n1"}); !errors.Is(err, nats.ErrDisconnected) {
		t.Errorf("err = %v; what cannot be sent now is not to be kept", err)
	}
	if _, err := changes.SubscribeHeartbeats(nc, "a b", nil); err == nil {
		t.Error("prefix \"a b\" is accepted")
	}
}
