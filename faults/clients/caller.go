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
	runID    string // part of each write ID, so that no other run has the same ID
	recorder *history.Recorder
	writes   int
}

// nextWriteID returns the ID of the next write.
func (c *caller) nextWriteID() string {
	c.writes++
	return fmt.Sprintf("%s%s-%d", c.runID, c.name, c.writes)
}

// recordCall makes a call with fn and records it. The call continues after ctx is done, because a
// canceled call has an unknown outcome.
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

// setWriteID sets the WriteID annotation of an object.
func setWriteID(o object.Object, id string) {
	meta := object.MetaOf(o)
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[history.WriteIDAnnotation] = id
}
