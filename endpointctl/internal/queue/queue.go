package queue

import (
	"container/heap"
	"context"
	"sync"
	"time"
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

	mu    sync.Mutex
	items map[K]*item[K] // guarded by mu: all keys that wait or are worked on
	due   dueHeap[K]     // guarded by mu: keys that wait
	wake  chan struct{}
}

type item[K comparable] struct {
	key            K
	added          time.Time // when it began to wait
	at             time.Time // when it is due
	heapIndex      int       // index in due; -1 while it is worked on
	addedMeanwhile bool      // added while it was worked on
	failures       int
}

// New returns an empty queue.
func New[K comparable](o Options) *Queue[K] {
	return &Queue[K]{options: o, items: map[K]*item[K]{}, wake: make(chan struct{}, 1)}
}

// Add makes a key due after the quiet time.
func (q *Queue[K]) Add(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	it := q.items[key]
	switch {
	case it == nil:
		it = &item[K]{key: key, added: now, at: now.Add(q.options.Quiet)}
		q.items[key] = it
		heap.Push(&q.due, it)
	case it.heapIndex < 0:
		it.addedMeanwhile = true
		return
	case it.failures > 0: // the change may cure the failure
		it.at = earliest(it.at, now.Add(q.options.Longest))
		heap.Fix(&q.due, it.heapIndex)
	default:
		it.at = earliest(now.Add(q.options.Quiet), it.added.Add(q.options.Longest))
		heap.Fix(&q.due, it.heapIndex)
	}
	q.wakeOne()
}

func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// wakeOne wakes one goroutine that waits in Get.
func (q *Queue[K]) wakeOne() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Get waits for a due key and reserves it until Done. added is the time of its first Add. Get
// returns false when ctx is done.
func (q *Queue[K]) Get(ctx context.Context) (key K, added time.Time, ok bool) {
	for {
		it, pause := q.next()
		if it != nil {
			return it.key, it.added, true
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return key, added, false
		case <-q.wake:
			timer.Stop()
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return key, added, false
		}
	}
}

// next returns a due key, or the time for which there will be none.
func (q *Queue[K]) next() (*item[K], time.Duration) {
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
		q.wakeOne() // for another worker
	}
	return it, 0
}

// Done ends the work on a key. The key becomes due again after a failure, or if it was added in the
// meantime.
func (q *Queue[K]) Done(key K, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items[key]
	now := time.Now()
	switch {
	case err != nil:
		it.at = now.Add(min(q.options.RetryMin<<min(it.failures, 20), q.options.RetryMax))
		it.failures++
	case it.addedMeanwhile:
		it.failures = 0
		it.at = now.Add(q.options.Quiet)
	default:
		delete(q.items, key)
		return
	}
	it.addedMeanwhile, it.added = false, now
	heap.Push(&q.due, it)
	q.wakeOne()
}

// Len returns the number of keys that wait or are worked on.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
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
