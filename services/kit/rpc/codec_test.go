package rpc_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"portolan.dev/services/kit/rpc"
)

// TestBytesAreThoseOfTheStockCodec compares the encodings in both directions, for sizes below and
// above the threshold of buffer pooling.
func TestBytesAreThoseOfTheStockCodec(t *testing.T) {
	ours, stock := rpc.NewCodec(), encoding.GetCodecV2("proto")
	if ours.Name() != stock.Name() {
		t.Errorf("name %q, want %q", ours.Name(), stock.Name())
	}
	for _, size := range []int{0, 1, 100, 1023, 1024, 1025, 100_000} {
		want := strings.Repeat("ö", size/2) + strings.Repeat("o", size%2)
		data, err := ours.Marshal(newText(want))
		if err != nil {
			t.Fatal(err)
		}
		var read wrapperspb.StringValue
		if err := stock.Unmarshal(data, &read); err != nil || read.GetValue() != want {
			t.Errorf("%d bytes: the stock codec reads %d, %v", size, len(read.GetValue()), err)
		}
		data.Free()

		data, err = stock.Marshal(wrapperspb.String(want))
		if err != nil {
			t.Fatal(err)
		}
		got := newText("left over")
		if err := ours.Unmarshal(split(data), got); err != nil || got.Value != want {
			t.Errorf("%d bytes: ours reads %d, %v", size, len(got.Value), err)
		}
		data.Free()
	}
}

// split splits data into buffers at random places, as the network does.
func split(data mem.BufferSlice) mem.BufferSlice {
	var out mem.BufferSlice
	for rest := data.Materialize(); len(rest) > 0; {
		n := 1 + rand.IntN(len(rest))
		out = append(out, mem.SliceBuffer(rest[:n]))
		rest = rest[n:]
	}
	return out
}

// TestReadMessagesOwnTheirBytes checks that a decoded message does not change when its buffer is
// reused for the next message.
func TestReadMessagesOwnTheirBytes(t *testing.T) {
	codec := rpc.NewCodec()
	data, err := codec.Marshal(newText(strings.Repeat("a", 5000)))
	if err != nil {
		t.Fatal(err)
	}
	var got [10]*text
	for i := range got {
		got[i] = newText("")
		if err := codec.Unmarshal(split(data), got[i]); err != nil {
			t.Fatal(err)
		}
		buf := mem.DefaultBufferPool().Get(5004)
		clear(*buf)
		mem.DefaultBufferPool().Put(buf)
	}
	for i := range got {
		if got[i].Value != strings.Repeat("a", 5000) {
			t.Fatalf("message %d changed after it was read", i)
		}
	}
}

func TestMessagesWithoutFastMethodsAndOtherTypes(t *testing.T) {
	codec := rpc.NewCodec()
	data, err := codec.Marshal(wrapperspb.String("x"))
	if err != nil {
		t.Fatal(err)
	}
	var got wrapperspb.StringValue
	if err := codec.Unmarshal(data, &got); err != nil || got.GetValue() != "x" {
		t.Errorf("got %q %v", got.GetValue(), err)
	}
	if _, err := codec.Marshal(42); err == nil {
		t.Error("an int was marshalled")
	}
	if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer("\x0a\x05x")}, newText("")); err == nil {
		t.Error("a truncated message was read")
	}
}

func TestMarshalFailureIsTheServersFault(t *testing.T) {
	f := serve(t, &echo{unary: func(context.Context, *text) (*text, error) { return newText("fail"), nil }}, nil)
	if _, err := f.call(t.Context(), "x"); status.Code(err) != codes.Internal {
		t.Errorf("got %v", err)
	}
}
