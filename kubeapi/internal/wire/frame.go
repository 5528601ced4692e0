package wire

import (
	"encoding/binary"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Frame returns the frame of one event of a watch. object is the encoded object, in the same format.
func (f *Format) Frame(eventType string, object []byte) ([]byte, error) {
	if f.MediaType == Protobuf {
		return lengthDelimited(eventType, object)
	}
	frame := make([]byte, 0, len(object)+len(eventType)+len(`{"type":"","object":}`)+1)
	frame = append(frame, `{"type":"`...)
	frame = append(frame, eventType...)
	frame = append(frame, `","object":`...)
	frame = append(frame, trimNewline(object)...)
	return append(frame, '}', '\n'), nil
}

func trimNewline(text []byte) []byte {
	if n := len(text); n > 0 && text[n-1] == '\n' {
		return text[:n-1]
	}
	return text
}

// lengthDelimited returns a frame of protobuf: the length in four bytes, and the event.
func lengthDelimited(eventType string, object []byte) ([]byte, error) {
	event := metav1.WatchEvent{Type: eventType, Object: runtime.RawExtension{Raw: object}}
	message, err := event.Marshal()
	if err != nil {
		return nil, err
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, len(message)+4), uint32(len(message))) // #nosec G115 -- objects are small
	return append(frame, message...), nil
}

// Streamed returns the format of the objects in a watch. A watch in YAML does not exist, so it is JSON
// instead, and objects in frames have no line breaks.
func (f *Format) Streamed() Format {
	streamed := *f
	streamed.Pretty = false
	if f.MediaType == YAML {
		streamed.MediaType = JSON
	}
	return streamed
}
