package changes_test

import (
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/kittest"
)

// FuzzHeartbeat publishes any bytes on the subject of a node. A heartbeat is heard only if it names
// that node, and can then be part of an answer of the registry. The next one is heard in any case.
func FuzzHeartbeat(f *testing.F) {
	for _, beat := range []*nodeagentv1.Heartbeat{{}, {Node: "n1.example", AppliedRevision: 7}, {Node: "n2"}, {Node: "n1.example", NodeFailure: "a\xffb"}} {
		data, err := beat.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add("n1.example", data)
	}
	f.Add("", []byte{})
	f.Add("n1", []byte{0xff})
	f.Add("*", []byte{0x0a, 0x01, '*'})
	_, url := kittest.NATS(f)
	listener, sender := kittest.NATSConn(f, url), kittest.NATSConn(f, url)
	heard := make(chan *nodeagentv1.Heartbeat, 10)
	if _, err := changes.SubscribeHeartbeats(listener, "test", func(beat *nodeagentv1.Heartbeat) { heard <- beat }); err != nil {
		f.Fatal(err)
	}
	if err := listener.Flush(); err != nil {
		f.Fatal(err)
	}
	subjects, err := changes.NewSubjects("test")
	if err != nil {
		f.Fatal(err)
	}
	const last = "the last one"
	f.Fuzz(func(t *testing.T, node string, data []byte) {
		if node == last {
			return
		}
		if err := sender.PublishMsg(&nats.Msg{Subject: subjects.Heartbeat(node), Data: data}); err != nil {
			return // a subject that is too long
		}
		if err := changes.PublishHeartbeat(sender, "test", &nodeagentv1.Heartbeat{Node: last}); err != nil {
			t.Fatal(err)
		}
		beat := kittest.Receive(t, "heartbeat", heard)
		if beat.GetNode() == last {
			return
		}
		if beat.GetNode() != node {
			t.Fatalf("%x on the subject of %q is a heartbeat of %q", data, node, beat.GetNode())
		}
		if answer, err := proto.Marshal(beat); err != nil || proto.Unmarshal(answer, &nodeagentv1.Heartbeat{}) != nil {
			t.Fatalf("%x is heard and cannot be encoded: %v", data, err)
		}
		if beat = kittest.Receive(t, "next heartbeat", heard); beat.GetNode() != last {
			t.Fatalf("%x is heard twice", data)
		}
	})
}
