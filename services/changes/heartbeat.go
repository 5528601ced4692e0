package changes

import (
	"fmt"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
)

// ErrDisconnected is the error of PublishHeartbeat while NATS is not connected.
var ErrDisconnected = nats.ErrDisconnected

// PublishHeartbeat publishes the state of a node. It does not wait for receivers, and buffers
// nothing while NATS is not connected.
func PublishHeartbeat(nc *nats.Conn, prefix string, beat *nodeagentv1.Heartbeat) error {
	names, err := NewSubjects(prefix)
	if err != nil {
		return err
	}
	if !nc.IsConnected() {
		return ErrDisconnected
	}
	payload, err := beat.MarshalVT()
	if err != nil {
		return fmt.Errorf("encode heartbeat: %w", err)
	}
	return nc.Publish(names.Heartbeat(beat.GetNode()), payload)
}

// SubscribeHeartbeats calls fn with every heartbeat, one at a time, until stop is called. A node
// may publish only on its own subject, because permissions are given per subject. A heartbeat that
// names another node than its subject is dropped, and so is one with text that is not UTF-8,
// because an answer of the registry with such text could not be encoded.
func SubscribeHeartbeats(nc *nats.Conn, prefix string, fn func(*nodeagentv1.Heartbeat)) (stop func() error, err error) {
	names, err := NewSubjects(prefix)
	if err != nil {
		return nil, err
	}
	sub, err := nc.Subscribe(names.Heartbeats(), func(m *nats.Msg) {
		beat := &nodeagentv1.Heartbeat{}
		if proto.Unmarshal(m.Data, beat) != nil || m.Subject != names.Heartbeat(beat.GetNode()) {
			return
		}
		fn(beat)
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to heartbeats: %w", err)
	}
	return sub.Unsubscribe, nil
}
