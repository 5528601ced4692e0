package gc

import (
	"sync"

	"portolan.dev/services/kit/wake"
	"portolan.dev/services/object"
)

// queue holds the keys of objects to look at, each once.
type queue struct {
	mu       sync.Mutex
	keys     map[object.Key]uint64 // value: the revision at which the object's service was deleted, or 0
	nonEmpty wake.Signal           // sent when the queue may not be empty
}

func newQueue() *queue {
	return &queue{keys: map[object.Key]uint64{}, nonEmpty: wake.New()}
}

func (q *queue) add(keys ...object.Key) {
	for _, key := range keys {
		q.addOrphan(key, 0)
	}
}

// addOrphan adds an object that may be left behind by the deleted service of the same name.
func (q *queue) addOrphan(key object.Key, goneAt uint64) {
	q.mu.Lock()
	q.keys[key] = max(q.keys[key], goneAt)
	q.mu.Unlock()
	q.signal()
}

func (q *queue) signal() {
	q.nonEmpty.Send()
}

// next returns one key, and wakes another worker if there are more.
func (q *queue) next() (key object.Key, goneAt uint64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for key, goneAt = range q.keys {
		delete(q.keys, key)
		if len(q.keys) > 0 {
			q.signal()
		}
		return key, goneAt, true
	}
	return object.Key{}, 0, false
}
