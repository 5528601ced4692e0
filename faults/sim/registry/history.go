package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

// Committed is a committed change of the log. The history keeps it after the log is pruned.
type Committed struct {
	Change *registryv1.Change
	At     time.Time
}

// History returns the changes of the current log, including the pruned ones. The change of revision
// n has index n-1.
func (r *Registry) History() []Committed {
	all := r.Histories()
	return all[len(all)-1]
}

// Histories returns the histories that ended with each call of RestoreBackup, followed by the
// current history.
func (r *Registry) Histories() [][]Committed {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recordCommits()
	all := slices.Clone(r.histories)
	all[len(all)-1] = slices.Clip(r.current())
	return all
}

// current returns the current history. The caller holds mu.
func (r *Registry) current() []Committed { return r.histories[len(r.histories)-1] }

// recordCommits adds the changes since its last call to the current history. The caller holds mu.
func (r *Registry) recordCommits() {
	const limit = 1 << 20
	current := &r.histories[len(r.histories)-1]
	added, err := r.Log.After(context.Background(), uint64(len(*current)), limit)
	if err != nil {
		panic(fmt.Sprintf("the log was pruned before its changes were recorded: %v", err))
	}
	for _, change := range added {
		*current = append(*current, Committed{change.Change, time.Now()})
	}
}

// HeadAt returns the head of the log at the given time.
func HeadAt(history []Committed, at time.Time) uint64 {
	i, _ := slices.BinarySearchFunc(history, at, func(c Committed, at time.Time) int { return c.At.Compare(at) })
	return uint64(i)
}

// Versions maps each existing object to its version.
type Versions map[object.Key]uint64

// Apply applies a change.
func (v Versions) Apply(c *registryv1.Change) {
	o := object.Unwrap(c.GetObject())
	if c.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE {
		delete(v, object.KeyOf(o))
		return
	}
	v[object.KeyOf(o)] = o.GetMetadata().GetResourceVersion()
}
