package view

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"portolan.dev/services/object"
)

// TestTree compares the tree with a sorted slice, and every former version of the tree with its
// content at that time.
func TestTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			tree tree
			want []object.Key
		}
		word := rapid.StringMatching(`[a-c]{0,2}`)
		history := []version{{}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			last := history[len(history)-1]
			key := object.Key{Kind: "Pod", Namespace: word.Draw(t, "namespace"), Name: word.Draw(t, "name")}
			at, found := slices.BinarySearchFunc(last.want, key, object.Compare)
			next := version{want: slices.Clone(last.want)}
			var old *Item
			if rapid.Bool().Draw(t, "put") {
				next.tree, old = last.tree.put(&Item{Key: key})
				if !found {
					next.want = slices.Insert(next.want, at, key)
				}
			} else {
				next.tree, old = last.tree.remove(key.Namespace, key.Name)
				if found {
					next.want = slices.Delete(next.want, at, at+1)
				}
			}
			if (old != nil) != found {
				t.Fatalf("replaced %v, but found = %v", old, found)
			}
			history = append(history, next)
		}
		start := object.Key{Kind: "Pod", Namespace: word.Draw(t, "namespace"), Name: word.Draw(t, "name")}
		within := word.Draw(t, "within")
		for _, v := range history {
			state := &State{kinds: map[string]tree{"Pod": v.tree}}
			if got, want := state.Count(start, within), len(slices.Collect(state.From(start, within))); got != want {
				t.Fatalf("count from %v in %q = %d, want %d", start, within, got, want)
			}
			if v.tree.count() != len(v.want) {
				t.Fatalf("count = %d, want %d", v.tree.count(), len(v.want))
			}
			at, found := slices.BinarySearchFunc(v.want, start, object.Compare)
			if got := v.tree.countFrom(start.Namespace, start.Name); got != len(v.want[at:]) {
				t.Fatalf("count from %v = %d, want %d", start, got, len(v.want[at:]))
			}
			if got := keysFrom(v.tree, start); !slices.Equal(got, v.want[at:]) {
				t.Fatalf("from %v: %v, want %v", start, got, v.want[at:])
			}
			if item := v.tree.get(start.Namespace, start.Name); (item != nil) != found {
				t.Fatalf("get %v = %v, want found = %v", start, item, found)
			}
		}
	})
}

func keysFrom(t tree, start object.Key) []object.Key {
	keys := []object.Key{}
	for item := range t.from(start.Namespace, start.Name) {
		keys = append(keys, item.Key)
	}
	return keys
}
