package queue

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"portolan.dev/services/kit/wake"
)

// Options are the delays of a queue.
type Options struct {
	// Quiet is the time without an Add after which a key is due. Longest is the longest time for
	// which further Adds delay a key.
	Quiet, Longest time.Duration
	// RetryMin is the pause before the first retry. It doubles up to RetryMax. A key that is added
	// during a pause is retried after Longest at the latest.
	RetryMin, RetryMax time.Duration
}

// Queue is safe for concurrent use.
type Queue[K comparable] struct {
	options Options

	mu      sync.Mutex
	items   map[K]*item[K] // guarded by mu: all keys that wait or are worked on
	due     dueHeap[K]     // guarded by mu: keys that wait
	resting int            // guarded by mu: keys that wait without changes, see Done
	wake    wake.Signal
}

type item[K comparable] struct {
	key       K
	added     time.Time // time of the first of changes
	changes   int       // changes since the work on it began
	at        time.Time // when it is due
	heapIndex int       // index in due; -1 while it is worked on
	resting   bool      // it waits without changes
	failures  int
}

// Due is a key that is due.
type Due[K comparable] struct {
	Key K
	// Changes is the number of changes for which it was added. 0: it was only to be worked on again,
	// see Done.
	Changes int
	// Added is the time of the first of these changes.
	Added time.Time
}

// New returns an empty queue.
func New[K comparable](o Options) *Queue[K] {
	return &Queue[K]{options: o, items: map[K]*item[K]{}, wake: wake.New()}
}

// Add makes a key due after the quiet time because of a number of changes, at least 1.
func (q *Queue[K]) Add(key K, changes int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	it := q.items[key]
	if it == nil {
		it = &item[K]{key: key, at: now}
		q.items[key] = it
		heap.Push(&q.due, it)
	}
	if it.changes == 0 {
		it.added = now
	}
	q.setResting(it, false)
	it.changes += changes
	switch {
	case it.heapIndex < 0:
		return
	case it.failures > 0: // the change may cure the failure
		it.at = earliest(it.at, now.Add(q.options.Longest))
	default:
		it.at = earliest(now.Add(q.options.Quiet), it.added.Add(q.options.Longest))
	}
	heap.Fix(&q.due, it.heapIndex)
	q.wake.Send()
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Get waits for a due key and reserves it until Done. It returns false when ctx is done, also if keys
// are due.
func (q *Queue[K]) Get(ctx context.Context) (Due[K], bool) {
	for ctx.Err() == nil {
		due, pause := q.next()
		if due != nil {
			return *due, true
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return Due[K]{}, false
		case <-q.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
	return Due[K]{}, false
}

// next returns a due key, or the time for which there will be none.
func (q *Queue[K]) next() (*Due[K], time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.due) == 0 {
		return nil, time.Minute // Add wakes Get
	}
	if pause := time.Until(q.due[0].at); pause > 0 {
		return nil, pause
	}
	it, _ := heap.Pop(&q.due).(*item[K])
	if len(q.due) > 0 {
		q.wake.Send() // for another worker
	}
	q.setResting(it, false)
	due := &Due[K]{Key: it.key, Changes: it.changes, Added: it.added}
	it.changes = 0
	return due, 0
}

// Done ends the work on a key. The key becomes due again after a failure, if it was added in the
// meantime, or after the time again if that is not 0. A change in that time makes it due as Add
// says.
func (q *Queue[K]) Done(key K, err error, again time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items[key]
	now := time.Now()
	switch {
	case err != nil:
		it.at = now.Add(min(q.options.RetryMin<<min(it.failures, 20), q.options.RetryMax))
		it.failures++
		it.added, it.changes = now, max(1, it.changes)
	case it.changes > 0:
		it.failures = 0
		it.at = earliest(now.Add(q.options.Quiet), it.added.Add(q.options.Longest))
	case again > 0:
		it.failures = 0
		it.at = now.Add(again)
		q.setResting(it, true)
	default:
		delete(q.items, key)
		return
	}
	heap.Push(&q.due, it)
	q.wake.Send()
}

// Clear removes all keys. None may be worked on.
func (q *Queue[K]) Clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.items)
	q.due, q.resting = nil, 0
}

// setResting records whether a key waits without changes.
func (q *Queue[K]) setResting(it *item[K], resting bool) {
	if it.resting == resting {
		return
	}
	it.resting = resting
	if resting {
		q.resting++
	} else {
		q.resting--
	}
}

// Len returns the number of keys that wait because of changes or failures, or are worked on. Keys
// that only wait to be worked on again, see Done, are not counted.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) - q.resting
}

// dueHeap is a heap with the earliest due key at the front.
type dueHeap[K comparable] []*item[K]

func (h dueHeap[K]) Len() int           { return len(h) }
func (h dueHeap[K]) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap[K]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (h *dueHeap[K]) Push(x any) {
	it, _ := x.(*item[K])
	it.heapIndex = len(*h)
	*h = append(*h, it)
}

// Pop implements heap.Interface.
func (h *dueHeap[K]) Pop() any {
	old := *h
	it := old[len(old)-1]
	old[len(old)-1] = nil
	it.heapIndex = -1
	*h = old[:len(old)-1]
	return it
}
