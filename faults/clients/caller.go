package clients

import (
	"context"
	"fmt"
	"time"

	"portolan.dev/faults/history"
	"portolan.dev/services/object"
)

// caller makes the calls of one client and records them.
type caller struct {
	name     string
	runID    string // distinguishes its marks from those that a caller of the same name writes in other runs
	recorder *history.Recorder
	writes   int
}

// mark returns the mark for the next write.
func (c *caller) nextWriteID() string {
	c.writes++
	return fmt.Sprintf("%s%s-%d", c.runID, c.name, c.writes)
}

// do has fn make a call. The call outlasts ctx, because a call that is given up says nothing.
func (c *caller) recordCall(
	ctx context.Context, r registry, call history.Call, timeout time.Duration, fn func(context.Context) (object.Object, error),
) (object.Object, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	call.Client, call.Registry = c.name, r.address
	end := c.recorder.BeginCall(call)
	result, err := fn(ctx)
	end(func(call *history.Call) { call.SetOutcome(result, err) })
	return result, err
}

// marked sets the mark of a write on its object.
func setWriteID(o object.Object, id string) {
	meta := object.MetaOf(o)
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[history.WriteIDAnnotation] = id
}
