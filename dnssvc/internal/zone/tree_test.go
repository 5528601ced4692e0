package zone

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// TestTreeIsAPersistentMap checks that a tree is a map, and that a published tree does not change.
func TestTreeIsAPersistentMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type handedOut struct {
			tree
			want map[string]*Node
		}
		var kept []handedOut
		want := map[string]*Node{}
		var current tree
		for gen := range uint64(rapid.IntRange(1, 6).Draw(t, "edits")) {
			e := &edit{tree: current, gen: gen + 1}
			for range rapid.IntRange(0, 200).Draw(t, "steps") {
				name := fmt.Sprintf("\x05%05d\x00", rapid.IntRange(0, 300).Draw(t, "name"))
				if rapid.Bool().Draw(t, "put") {
					n := &Node{name: name}
					e.put(n)
					want[name] = n
				} else {
					e.delete(name)
					delete(want, name)
				}
			}
			current = e.tree
			kept = append(kept, handedOut{current, maps.Clone(want)})
		}
		for _, k := range kept {
			if k.size != len(k.want) {
				t.Fatalf("size %d, want %d", k.size, len(k.want))
			}
			for i := range 301 {
				name := fmt.Sprintf("\x05%05d\x00", i)
				if got := k.get([]byte(name)); got != k.want[name] {
					t.Fatalf("%q: got %v, want %v", name, got, k.want[name])
				}
			}
			seen := 0
			for n := range k.all() {
				if seen++; k.want[n.name] != n {
					t.Fatalf("all yields %v", n)
				}
			}
			if seen != len(k.want) {
				t.Fatalf("all yields %d nodes, want %d", seen, len(k.want))
			}
		}
	})
}

// TestTreeCollisions checks that names with equal hashes are kept in a list.
func TestTreeCollisions(t *testing.T) {
	e := &edit{gen: 1}
	names := []string{"\x01a\x00", "\x01b\x00", "\x01c\x00"}
	for range 2 { // add, then replace
		for _, name := range names {
			e.root, _ = e.putAt(e.root, &Node{name: name}, 0, maxShift+wayBits)
		}
	}
	if len(e.root.nodes) != 3 {
		t.Fatalf("%d nodes", len(e.root.nodes))
	}
	for i, name := range names {
		if e.root.findCollided([]byte(name)) == nil {
			t.Errorf("%q is not there", name)
		}
		e.root = e.deleteAt(e.root, name, 0, maxShift+wayBits)
		if last := i == len(names)-1; (e.root == nil) != last {
			t.Errorf("after %q: %v", name, e.root)
		}
	}
}
