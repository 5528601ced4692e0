package zone

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// tree is a persistent map from names to nodes: a hash array mapped trie with 32 ways per level. A tree that was handed out never changes;
// an edit copies the branches on the way to what it changes, once per generation.
type tree struct {
	root *branch
	size int
}

// branch has a bit in nodeMap or subMap for each way that is taken, and the nodes and branches in the order of their bits.
type branch struct {
	nodeMap, subMap uint32
	gen             uint64 // of the edit that made it, and may change it
	nodes           []*Node
	subs            []*branch
}

const (
	wayBits  = 5
	wayMask  = 1<<wayBits - 1
	lastTurn = 60 // beyond it the hash is used up: nodes that still collide stand in one list
)

// seed makes the hashes of names differ between processes, so that nobody can choose names that collide.
var seed = maphash.MakeSeed()

func (t tree) get(name []byte) *Node {
	h := maphash.Bytes(seed, name)
	b := t.root
	for shift := 0; b != nil; shift += wayBits {
		if shift > lastTurn {
			return b.listed(name)
		}
		bit := uint32(1) << (h >> shift & wayMask)
		if b.nodeMap&bit != 0 {
			n := b.nodes[index(b.nodeMap, bit)]
			if n.name == string(name) {
				return n
			}
			return nil
		}
		if b.subMap&bit == 0 {
			return nil
		}
		b = b.subs[index(b.subMap, bit)]
	}
	return nil
}

func (b *branch) listed(name []byte) *Node {
	for _, n := range b.nodes {
		if n.name == string(name) {
			return n
		}
	}
	return nil
}

func index(bitmap, bit uint32) int { return bits.OnesCount32(bitmap & (bit - 1)) }

// all yields every node, in no order that means anything.
func (t tree) all() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		if t.root != nil {
			t.root.walk(yield)
		}
	}
}

func (b *branch) walk(yield func(*Node) bool) bool {
	for _, n := range b.nodes {
		if !yield(n) {
			return false
		}
	}
	for _, sub := range b.subs {
		if !sub.walk(yield) {
			return false
		}
	}
	return true
}
