package api

import (
	"testing"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// FuzzToken checks that a page token is either refused, or that the position in the list that it
// names is still the same after it was written as a token and read again.
func FuzzToken(f *testing.F) {
	for _, text := range []string{"10.96.0.7", "fd00::7"} {
		value, err := pool.ParseAddr(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(writeToken(store.Allocation{Pool: "cluster", Value: value}))
	}
	for _, token := range []string{"", "AA", "!", "Y2x1c3Rlci8", "Lw"} {
		f.Add(token)
	}
	f.Fuzz(func(t *testing.T, token string) {
		var q, again store.Query
		if err := readToken(token, &q); err != nil || token == "" {
			return
		}
		text := writeToken(store.Allocation{Pool: q.AfterPool, Value: q.AfterValue})
		if err := readToken(text, &again); err != nil || again.AfterPool != q.AfterPool || again.AfterValue != q.AfterValue {
			t.Fatalf("%q became %q, and then %+v, %v", token, text, again, err)
		}
	})
}
