package storetest

import (
	"bytes"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"testing"

	"portolan.dev/registry/store"
)

// BenchmarkCommit creates objects of 600 bytes: from 1, 8, 64 and 256 concurrent writers into an
// empty store, and from 64 into a store with many objects. An operation is one create.
func BenchmarkCommit(b *testing.B, newStore func(b *testing.B) store.Store) {
	for _, run := range []struct{ writers, beside int }{{1, 0}, {8, 0}, {64, 0}, {256, 0}, {64, 1_000}, {64, 100_000}} {
		b.Run(fmt.Sprintf("c=%d/beside=%d", run.writers, run.beside), func(b *testing.B) {
			s := newStore(b)
			if err := s.Restore(b.Context(), 0, uint64(run.beside), manyRows(run.beside)); err != nil {
				b.Fatal(err)
			}
			benchmarkCreates(b, s, run.writers)
		})
	}
}

var benchData = bytes.Repeat([]byte("x"), 600)

func manyRows(n int) iter.Seq2[store.Row, error] {
	return func(yield func(store.Row, error) bool) {
		for i := range n {
			name := fmt.Sprintf("other-%08d", i)
			if !yield(store.Row{Key: key(name), UID: name, Revision: uint64(i + 1), Data: benchData}, nil) {
				return
			}
		}
	}
}

func benchmarkCreates(b *testing.B, s store.Store, writers int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range writers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				name := fmt.Sprintf("object-%08d", i)
				if _, err := s.Submit(b.Context(), store.Op{Action: store.Create, Key: key(name), UID: name, Data: benchData}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
}
