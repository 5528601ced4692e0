package view

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"portolan.dev/services/object"
)

// TestIndex compares an index with a list of all objects. Objects have up to two of three keys, so that
// keys have none, one and several objects, and lose and gain some.
func TestIndex(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		keys := map[*Item][]string{}
		index := NewIndex(func(item *Item) []string { return keys[item] })
		present := map[object.Key]*Item{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			name := object.Key{Kind: "Service", Name: fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "object"))}
			var item *Item
			if rapid.Bool().Draw(t, "put") {
				item = &Item{Key: name}
				keys[item] = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2, rapid.ID).Draw(t, "keys")
			}
			index.replace(present[name], item)
			if present[name] = item; item == nil {
				delete(present, name)
			}
			for _, key := range []string{"a", "b", "c"} {
				var want []*Item
				for _, o := range slices.SortedFunc(maps.Values(present), func(a, b *Item) int { return object.Compare(a.Key, b.Key) }) {
					if slices.Contains(keys[o], key) {
						want = append(want, o)
					}
				}
				if got := index.Lookup(key); !slices.Equal(got, want) || index.Has(key) != (len(want) > 0) {
					t.Fatalf("key %s: %v, has %v, want %v", key, got, index.Has(key), want)
				}
			}
		}
	})
}
