package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

// Committed is a change of the log, which the history keeps when the log is pruned.
type Committed struct {
	Change *registryv1.Change
	At     time.Time
}

// History is everything that was committed: the change of revision n is at n-1. It only grows until
// the log is set back.
func (r *Registry) History() []Committed {
	all := r.Histories()
	return all[len(all)-1]
}

// Histories are the histories before each time that the log was set back, and at last the present
// one.
func (r *Registry) Histories() [][]Committed {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recordCommits()
	all := slices.Clone(r.histories)
	all[len(all)-1] = slices.Clip(r.current())
	return all
}

// current returns the history of the log as it is. The caller holds mu.
func (r *Registry) current() []Committed { return r.histories[len(r.histories)-1] }

// recordCommits adds the changes that were committed since the last call to the history. The caller
// holds mu.
func (r *Registry) recordCommits() {
	const limit = 1 << 20
	current := &r.histories[len(r.histories)-1]
	added, err := r.Log.After(context.Background(), uint64(len(*current)), limit)
	if err != nil {
		panic(fmt.Sprintf("the log was pruned before its history was noted: %v", err))
	}
	for _, change := range added {
		*current = append(*current, Committed{change, time.Now()})
	}
}

// HeadAt returns the newest revision that there was at a time.
func HeadAt(history []Committed, at time.Time) uint64 {
	i, _ := slices.BinarySearchFunc(history, at, func(c Committed, at time.Time) int { return c.At.Compare(at) })
	return uint64(i)
}

// Versions are objects by key, of which only the version counts.
type Versions map[object.Key]uint64

// Take enters a change.
func (v Versions) Apply(c *registryv1.Change) {
	o := object.Unwrap(c.GetObject())
	if c.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE {
		delete(v, object.KeyOf(o))
		return
	}
	v[object.KeyOf(o)] = o.GetMetadata().GetResourceVersion()
}
