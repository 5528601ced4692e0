package storetest

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"portolan.dev/registry/store"
)

// BenchmarkCommit creates objects of 600 bytes from 1, 8, 64 and 256 writers at once. An operation is one create.
func BenchmarkCommit(b *testing.B, newStore func(b *testing.B) store.Store) {
	data := bytes.Repeat([]byte("x"), 600)
	for _, writers := range []int{1, 8, 64, 256} {
		b.Run(fmt.Sprintf("c=%d", writers), func(b *testing.B) {
			s := newStore(b)
			var next atomic.Int64
			var wg sync.WaitGroup
			b.ResetTimer()
			for range writers {
				wg.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						name := fmt.Sprintf("object-%08d", i)
						if _, err := s.Submit(b.Context(), store.Op{Action: store.Create, Key: key(name), UID: name, Data: data}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
		})
	}
}
