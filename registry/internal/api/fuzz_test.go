package api

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"
)

// FuzzMetadata reads the metadata of a write. A refused fence has a short error. An accepted one
// means the same as its text, and the store gets only UTF-8.
func FuzzMetadata(f *testing.F) {
	const traceparent = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"
	f.Add("default/leader=7", traceparent)
	f.Add("", "")
	f.Add("a/b=0", strings.ToUpper(traceparent))
	f.Add("=/", traceparent[1:])
	f.Add("a/b/c=1", strings.Repeat("\xff", len(traceparent)))
	f.Add("a/\xff=18446744073709551616", "ff"+traceparent[2:])
	f.Add("a/"+strings.Repeat("x", 1000)+"=1", "")
	f.Fuzz(func(t *testing.T, fence, trace string) {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.MD{fenceHeader: {fence}, "traceparent": {trace}})
		written, err := options(ctx, nil)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Fatalf("%q is refused with %d bytes", fence, len(err.Error()))
			}
			return
		}
		if written.Traceparent != "" && written.Traceparent != trace || !utf8.ValidString(written.Traceparent) {
			t.Fatalf("%q became %q", trace, written.Traceparent)
		}
		lease := written.Fence.Lease
		if !utf8.ValidString(lease.Namespace+lease.Name) || written.Fence.Epoch == 0 {
			t.Fatalf("%q became %+v", fence, written.Fence)
		}
		text := fmt.Sprintf("%s/%s=%d", lease.Namespace, lease.Name, written.Fence.Epoch)
		if again, err := parseFence(text); err != nil || *again != *written.Fence {
			t.Fatalf("%q became %q, and then %+v, %v", fence, text, again, err)
		}
	})
}
