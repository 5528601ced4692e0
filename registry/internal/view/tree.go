package view

import (
	"hash/maphash"
	"iter"
	"strings"

	"portolan.dev/services/object"
)

// tree is an immutable ordered map from namespace and name to items. It is a treap: the priority of
// a node is a hash of its key, so the shape of the tree depends only on its keys. The zero value is
// empty.
type tree struct{ root *node }

type node struct {
	item        *Item
	priority    uint64
	size        int // number of items of the node and below it
	left, right *node
}

func sizeOf(n *node) int {
	if n == nil {
		return 0
	}
	return n.size
}

// resized sets the size of n from the sizes of its children and returns n. n is not shared yet.
func (n *node) resized() *node {
	n.size = 1 + sizeOf(n.left) + sizeOf(n.right)
	return n
}

var prioritySeed = maphash.MakeSeed()

func priorityOf(key object.Key) uint64 {
	var h maphash.Hash
	h.SetSeed(prioritySeed)
	h.WriteString(key.Namespace)
	h.WriteByte(0)
	h.WriteString(key.Name)
	return h.Sum64()
}

// order compares keys within one kind.
func order(namespaceA, nameA string, b object.Key) int {
	if c := strings.Compare(namespaceA, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(nameA, b.Name)
}

// count returns the number of items.
func (t tree) count() int { return sizeOf(t.root) }

// countFrom returns the number of items from the given key on.
func (t tree) countFrom(namespace, name string) int {
	found := 0
	for n := t.root; n != nil; {
		if order(namespace, name, n.item.Key) > 0 {
			n = n.right
			continue
		}
		found += 1 + sizeOf(n.right)
		n = n.left
	}
	return found
}

func (t tree) get(namespace, name string) *Item {
	for n := t.root; n != nil; {
		switch c := order(namespace, name, n.item.Key); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.item
		}
	}
	return nil
}

// put returns the tree with item, and the item that it replaces.
func (t tree) put(item *Item) (tree, *Item) {
	root, old := insert(t.root, &node{item: item, priority: priorityOf(item.Key), size: 1})
	return tree{root}, old
}

func insert(n, fresh *node) (*node, *Item) {
	if n == nil {
		return fresh, nil
	}
	copied := *n
	var old *Item
	switch c := order(fresh.item.Key.Namespace, fresh.item.Key.Name, n.item.Key); {
	case c == 0:
		copied.item = fresh.item
		return &copied, n.item
	case c < 0:
		copied.left, old = insert(n.left, fresh)
		if copied.left.priority > n.priority {
			return rotateRight(&copied), old
		}
	default:
		copied.right, old = insert(n.right, fresh)
		if copied.right.priority > n.priority {
			return rotateLeft(&copied), old
		}
	}
	return copied.resized(), old
}

// rotateRight lifts the left child of n. Both were copied by insert.
func rotateRight(n *node) *node {
	up := n.left
	n.left, up.right = up.right, n
	n.resized()
	return up.resized()
}

func rotateLeft(n *node) *node {
	up := n.right
	n.right, up.left = up.left, n
	n.resized()
	return up.resized()
}

// remove returns the tree without the item of this name, and that item.
func (t tree) remove(namespace, name string) (tree, *Item) {
	root, old := removeFrom(t.root, namespace, name)
	return tree{root}, old
}

func removeFrom(n *node, namespace, name string) (*node, *Item) {
	if n == nil {
		return nil, nil
	}
	c := order(namespace, name, n.item.Key)
	if c == 0 {
		return merge(n.left, n.right), n.item
	}
	child := n.right
	if c < 0 {
		child = n.left
	}
	child, old := removeFrom(child, namespace, name)
	if old == nil {
		return n, nil
	}
	copied := *n
	if c < 0 {
		copied.left = child
	} else {
		copied.right = child
	}
	return copied.resized(), old
}

// merge joins two trees. All keys of a must come before those in b.
func merge(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority > b.priority:
		copied := *a
		copied.right = merge(a.right, b)
		return copied.resized()
	default:
		copied := *b
		copied.left = merge(a, b.left)
		return copied.resized()
	}
}

// from returns the items from the given key on, in order. The item with that key is included if it
// exists.
func (t tree) from(namespace, name string) iter.Seq[*Item] {
	return func(yield func(*Item) bool) { walk(t.root, namespace, name, yield) }
}

func walk(n *node, namespace, name string, yield func(*Item) bool) bool {
	for ; n != nil; n = n.right {
		if order(namespace, name, n.item.Key) <= 0 {
			return walk(n.left, namespace, name, yield) && yield(n.item) && walkAll(n.right, yield)
		}
	}
	return true
}

// walkAll yields all items of a subtree without comparing keys.
func walkAll(n *node, yield func(*Item) bool) bool {
	for ; n != nil; n = n.right {
		if !walkAll(n.left, yield) || !yield(n.item) {
			return false
		}
	}
	return true
}
