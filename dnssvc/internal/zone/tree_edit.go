package zone

import (
	"hash/maphash"
	"slices"
)

// edit changes a tree without changing published trees: it changes branches of its own generation
// in place, and copies all others.
type edit struct {
	tree
	gen uint64
	// undo has the nodes that were replaced since begin, so that rollback can put them back. The branches cannot be
	// used for that, because this edit changes them in place.
	undo []replaced
}

// replaced is the former node of a name, or nil if the name did not exist.
type replaced struct {
	name   string
	before *Node
}

// begin begins changes that rollback takes back.
func (e *edit) begin() { e.undo = e.undo[:0] }

// release returns the memory of undo for another edit, without the nodes.
func (e *edit) release() []replaced {
	clear(e.undo[:cap(e.undo)])
	return e.undo[:0]
}

// rollback takes back the changes since begin.
func (e *edit) rollback() {
	undo := e.undo
	e.undo = nil
	for _, r := range slices.Backward(undo) {
		if r.before == nil {
			e.delete(r.name)
		} else {
			e.put(r.before)
		}
	}
	e.begin()
}

func (e *edit) get(name string) *Node { return e.tree.get([]byte(name)) }

// put adds the node or replaces the node of the same name.
func (e *edit) put(n *Node) {
	var before *Node
	e.root, before = e.putAt(e.root, n, maphash.String(seed, n.name), 0)
	if before == nil {
		e.size++
	}
	e.undo = append(e.undo, replaced{n.name, before})
}

// delete removes the node of that name, if there is one.
func (e *edit) delete(name string) {
	before := e.get(name)
	if before == nil {
		return
	}
	e.root = e.deleteAt(e.root, name, maphash.String(seed, name), 0)
	e.size--
	e.undo = append(e.undo, replaced{name, before})
}

// mutable returns the branch, or a copy of it, that this edit may change.
func (e *edit) mutable(b *branch) *branch {
	if b == nil {
		return &branch{gen: e.gen}
	}
	if b.gen == e.gen {
		return b
	}
	return &branch{
		nodeMap: b.nodeMap, subMap: b.subMap, gen: e.gen,
		nodes: slices.Clone(b.nodes), subs: slices.Clone(b.subs),
	}
}

// putAt puts a node into a branch. It returns the branch, and the node of the same name that it replaces, or nil.
func (e *edit) putAt(b *branch, n *Node, h uint64, shift int) (_ *branch, before *Node) {
	b = e.mutable(b)
	if shift > maxShift {
		for i, have := range b.nodes {
			if have.name == n.name {
				b.nodes[i] = n
				return b, have
			}
		}
		b.nodes = append(b.nodes, n)
		return b, nil
	}
	bit := uint32(1) << (h >> shift & wayMask)
	switch {
	case b.subMap&bit != 0:
		i := index(b.subMap, bit)
		b.subs[i], before = e.putAt(b.subs[i], n, h, shift+wayBits)
		return b, before
	case b.nodeMap&bit == 0:
		b.nodes = insertAt(b.nodes, index(b.nodeMap, bit), n)
		b.nodeMap |= bit
		return b, nil
	}
	i := index(b.nodeMap, bit)
	have := b.nodes[i]
	if have.name == n.name {
		b.nodes[i] = n
		return b, have
	}
	// Two names share the way, so both move a level down.
	sub, _ := e.putAt(nil, have, maphash.String(seed, have.name), shift+wayBits)
	sub, _ = e.putAt(sub, n, h, shift+wayBits)
	b.nodes = slices.Delete(b.nodes, i, i+1)
	b.nodeMap &^= bit
	b.subs = insertAt(b.subs, index(b.subMap, bit), sub)
	b.subMap |= bit
	return b, nil
}

// insertAt inserts v without spare capacity, because there are many branches and few of them grow
// again.
func insertAt[T any](s []T, i int, v T) []T {
	grown := make([]T, len(s)+1)
	copy(grown, s[:i])
	grown[i] = v
	copy(grown[i+1:], s[i:])
	return grown
}

// deleteAt deletes a name that exists. It removes a branch that becomes empty. A branch with a
// single node left stays, because the next name on its path would need it again.
func (e *edit) deleteAt(b *branch, name string, h uint64, shift int) *branch {
	b = e.mutable(b)
	if shift > maxShift {
		b.nodes = slices.DeleteFunc(b.nodes, func(n *Node) bool { return n.name == name })
		return b.nilIfEmpty()
	}
	bit := uint32(1) << (h >> shift & wayMask)
	if b.nodeMap&bit != 0 {
		i := index(b.nodeMap, bit)
		b.nodes = slices.Delete(b.nodes, i, i+1)
		b.nodeMap &^= bit
		return b.nilIfEmpty()
	}
	i := index(b.subMap, bit)
	if b.subs[i] = e.deleteAt(b.subs[i], name, h, shift+wayBits); b.subs[i] == nil {
		b.subs = slices.Delete(b.subs, i, i+1)
		b.subMap &^= bit
	}
	return b.nilIfEmpty()
}

func (b *branch) nilIfEmpty() *branch {
	if len(b.nodes)+len(b.subs) == 0 {
		return nil
	}
	return b
}
