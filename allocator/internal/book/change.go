package book

import (
	"time"

	"portolan.dev/allocator/store"
)

// Change collects what was decided: operations for the store, and how to take
// the decision back in memory. The zero value is ready to use.
type Change struct {
	Ops  []store.Op
	undo []func()
}

func (c *Change) add(op store.Op, undo func()) {
	c.Ops = append(c.Ops, op)
	c.undo = append(c.undo, undo)
}

// Mark is a place to roll back to.
func (c *Change) Mark() int { return len(c.undo) }

// Rollback takes back what was decided after the mark.
func (c *Change) Rollback(mark int) {
	for i := len(c.undo) - 1; i >= mark; i-- {
		c.undo[i]()
	}
	c.undo, c.Ops = c.undo[:mark], c.Ops[:mark]
}

// Forget has the store remove what has been at rest since before t; in memory
// it has woken already.
func (c *Change) Forget(t time.Time) {
	c.add(store.Op{Verb: store.Forget, Time: t}, func() {})
}
