package history

import (
	"iter"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/object"
)

// Log is the registry's log of changes after a revision. It decides which changes were committed.
type Log struct {
	// Base is the revision after which the log begins. Objects are the objects at that revision.
	Base    uint64
	Objects []object.Object
	Changes []*registryv1.Change
	// ReadAt is the time at which the last reading of the log began. Changes has all changes that
	// were acknowledged before. It is zero if the log was not read.
	ReadAt time.Time
}

// Step is a change, with the object before and after it. Old is nil for a creation, New is nil for
// a deletion.
type Step struct {
	Revision uint64
	Time     time.Time
	Key      object.Key
	Old, New object.Object
}

// Head returns the newest revision of the log.
func (l *Log) Head() uint64 {
	if n := len(l.Changes); n > 0 {
		return l.Changes[n-1].GetRevision()
	}
	return l.Base
}

// Initial returns the objects at Base.
func (l *Log) Initial() map[object.Key]object.Object {
	state := map[object.Key]object.Object{}
	for _, o := range l.Objects {
		state[object.KeyOf(o)] = o
	}
	return state
}

// Steps yields the changes in order. It leaves out changes of unknown kinds.
func (l *Log) Steps() iter.Seq[Step] {
	return func(yield func(Step) bool) {
		state := l.Initial()
		for _, c := range l.Changes {
			o := object.Unwrap(c.GetObject())
			if o == nil {
				continue // unknown kind
			}
			s := Step{Revision: c.GetRevision(), Time: c.GetTime().AsTime(), Key: object.KeyOf(o), New: o}
			s.Old = state[s.Key]
			if c.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE {
				s.New = nil
				delete(state, s.Key)
			} else {
				state[s.Key] = o
			}
			if !yield(s) {
				return
			}
		}
	}
}

// Final returns the objects at the log's head.
func (l *Log) Final() map[object.Key]object.Object {
	state := l.Initial()
	for s := range l.Steps() {
		if s.New == nil {
			delete(state, s.Key)
			continue
		}
		state[s.Key] = s.New
	}
	return state
}
