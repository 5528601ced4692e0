package rpc

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that ours falls back to
	"google.golang.org/grpc/mem"
)

// vtCodec uses the generated MarshalVT and UnmarshalVT methods of messages that have them, and the
// stock codec for all others, such as the messages of the health service. The encoding is the same.
// vtCodec has the stock codec's name, and is passed to servers and clients explicitly, so that
// nothing global changes.
//
// Unlike the stock codec it does not check that strings are UTF-8. Servers check the strings of
// requests with checkUTF8.
type vtCodec struct{ encoding.CodecV2 }

// vtMessage has the methods that protoc-gen-go-vtproto adds to a message.
type vtMessage interface {
	Reset()
	SizeVT() int
	MarshalToSizedBufferVT(buf []byte) (int, error)
	UnmarshalVT(data []byte) error
}

func newCodec() encoding.CodecV2 { return vtCodec{encoding.GetCodecV2("proto")} }

// Marshal implements encoding.CodecV2.
func (c vtCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(vtMessage)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	size := m.SizeVT()
	if mem.IsBelowBufferPoolingThreshold(size) {
		buf := make([]byte, size)
		if err := marshalInto(m, buf); err != nil {
			return nil, err
		}
		return mem.BufferSlice{mem.SliceBuffer(buf)}, nil
	}
	pool := mem.DefaultBufferPool()
	buf := pool.Get(size)
	if err := marshalInto(m, *buf); err != nil {
		pool.Put(buf)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(buf, pool)}, nil
}

// marshalInto encodes m into buf, which has the length of the encoded message. If the caller changes m
// meanwhile, which is a bug, the result would be truncated. Then marshalInto returns an error.
func marshalInto(m vtMessage, buf []byte) error {
	n, err := m.MarshalToSizedBufferVT(buf)
	if err != nil {
		return err
	}
	if n != len(buf) {
		return fmt.Errorf("marshal %T: %d bytes instead of %d: changed while it was sent", m, n, len(buf))
	}
	return nil
}

// Unmarshal implements encoding.CodecV2. UnmarshalVT copies the data that it keeps, so the buffer
// can be returned to its pool.
func (c vtCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if r, ok := v.(*request); ok {
		if r.size = data.Len(); r.size > r.limit {
			return nil // the server answers with request.err
		}
		v = r.message
	}
	m, ok := v.(vtMessage)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	m.Reset()
	return m.UnmarshalVT(buf.ReadOnlyData())
}
