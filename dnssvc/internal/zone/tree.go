package zone

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// tree is a persistent map from names to nodes: a hash array mapped trie with 32 ways per level. A
// published tree never changes. An edit copies the branches on the path to a change, once per
// generation.
type tree struct {
	root *branch
	size int
}

// branch has a bit in nodeMap or subMap for each way in use. nodes and subs are in the order of
// these bits.
type branch struct {
	nodeMap, subMap uint32
	// gen is the generation of the edit that made the branch and may change it.
	gen   uint64
	nodes []*Node
	subs  []*branch
}

const (
	wayBits = 5
	wayMask = 1<<wayBits - 1
	// maxShift is the shift beyond which the hash is used up. Nodes that still collide are kept in
	// one list.
	maxShift = 60
)

// seed makes the hashes of names differ between processes, so that clients cannot choose names that
// collide.
var seed = maphash.MakeSeed()

func (t tree) get(name []byte) *Node {
	h := maphash.Bytes(seed, name)
	b := t.root
	for shift := 0; b != nil; shift += wayBits {
		if shift > maxShift {
			return b.findCollided(name)
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

func (b *branch) findCollided(name []byte) *Node {
	for _, n := range b.nodes {
		if n.name == string(name) {
			return n
		}
	}
	return nil
}

func index(bitmap, bit uint32) int { return bits.OnesCount32(bitmap & (bit - 1)) }

// all yields every node in no particular order.
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
