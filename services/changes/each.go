package changes

import "portolan.dev/services/kit/guard"

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
		g.Run(StepView, guard.Object(c.Key), func() { apply(c) })
	}
}
