package changes

import (
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
)

// Steps of the work for an object that are the same in all daemons. Panics of them are reported with these names.
const (
	// StepView puts an object into the daemon's view.
	StepView = "view"
	// stepRead decides whether the follower keeps an object, and trims it.
	stepRead = "read"
	// stepRevoke applies a Revocation.
	stepRevoke = "revoke"
)

// Each calls apply for each change of a batch. A panic of apply is reported for the object of the change, and the
// other changes are applied. apply should read the objects of a change before it changes a structure that other
// objects share.
func Each(g *guard.Guard, batch []Change, apply func(c *Change)) {
	for i := range batch {
		c := &batch[i]
		if g.Do(StepView, guard.Object(c.Key), func() error { apply(c); return nil }) != nil {
			correctNext(batch[i+1:], c)
		}
	}
}

// correctNext sets Old of the next change of an object to the version before a change that was not applied.
func correctNext(batch []Change, failed *Change) {
	for i := range batch {
		if c := &batch[i]; c.Key == failed.Key {
			c.setOld(failed.Old)
			return
		}
	}
}

// setOld sets Old to the version that the daemon has. The deletion of an object of which it has no version keeps
// the object, because a change has at least one.
func (c *Change) setOld(applied object.Object) {
	if applied != nil || c.New != nil {
		c.Old = applied
	}
}

// formerVersions has the objects with a version that the daemon could not apply, each with the version that it
// applied before, or nil. Daemons drop by Old what they have of an object, so Old has to be that version.
type formerVersions map[object.Key]object.Object

// note records the changes of a batch that the daemon could not apply.
func (f formerVersions) note(g *guard.Guard, batch []Change) {
	for i := range batch {
		if c := &batch[i]; g.Failed(StepView, guard.Object(c.Key)) {
			f[c.Key] = c.Old
		}
	}
}

// correct sets Old to the version that the daemon has.
func (f formerVersions) correct(c *Change) {
	if former, ok := f[c.Key]; ok {
		delete(f, c.Key)
		c.setOld(former)
	}
}
