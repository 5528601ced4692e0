package server

import (
	"strconv"

	"k8s.io/apimachinery/pkg/watch"

	"portolan.dev/kubeapi/internal/watchcache"
	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/kube"
	"portolan.dev/services/object"
)

// objectEncoder encodes the objects of a watch.
type objectEncoder struct {
	format wire.Format
	codec  *kube.Codec
	rows   wire.Rows
	// names has a name for the frames of each event type. Watches share frames with the same name.
	names map[watch.EventType]string
}

// newObjectEncoder returns the encoder of a format. Without a codec it encodes bookmarks only.
func newObjectEncoder(format wire.Format, codec *kube.Codec, rows wire.Rows) objectEncoder {
	e := objectEncoder{format: format, codec: codec, rows: rows}
	if codec == nil {
		return e
	}
	name := " " + codec.GroupVersionKind.Group + " " + format.MediaType + " " + string(format.As) + format.Version + string(rows)
	e.names = map[watch.EventType]string{watch.Added: "a" + name, watch.Modified: "m" + name, watch.Deleted: "d" + name}
	return e
}

// frame returns the frame of an event. eventType is the type of the event for the client.
func (e *objectEncoder) frame(event *watchcache.Event, eventType watch.EventType) ([]byte, error) {
	return event.Encoded(e.names[eventType], func() ([]byte, error) {
		o, revision := event.New, uint64(0)
		if eventType == watch.Deleted {
			o, revision = event.Old, event.Revision
		}
		body, err := e.encode(o, revision)
		if err != nil {
			return nil, err
		}
		return e.format.Frame(string(eventType), body)
	})
}

// encode returns an object in the format of the watch. revision is the revision of its deletion, and 0 if
// it exists.
func (e *objectEncoder) encode(o object.Object, revision uint64) ([]byte, error) {
	converted := e.codec.Write(o)
	if revision != 0 {
		converted.SetResourceVersion(strconv.FormatUint(revision, 10))
	}
	out, err := e.format.Object(e.codec.GroupVersionKind, converted, e.rows)
	if err != nil {
		return nil, err
	}
	return e.format.Encode(out)
}
