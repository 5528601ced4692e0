package pool

import (
	"errors"
	"math/rand/v2"
	"time"
)

// What can stand in the way of a value.
var (
	ErrFull       = errors.New("range is full")
	ErrNotInRange = errors.New("value is not in range")
	ErrAllocated  = errors.New("value is already allocated")
)

// Pool is a space and which of its values are in use or at rest. It is not safe
// for concurrent use.
type Pool struct {
	space  Space
	band   uint64
	rest   time.Duration
	random func(n uint64) uint64 // in [0, n)

	blocked *set // in use, or at rest
	resting map[uint64]time.Time
	next    uint64   // where the next pick begins, while left > 0
	left    int      // of the run of picks
	queue   []rested // in the order of release; entries that no longer match resting are void
}

type rested struct {
	index uint64
	since time.Time
}

// New returns a pool with all values free. The first band values are left to
// explicit requests while others are free; a released value rests for rest.
func New(space Space, band uint64, rest time.Duration) *Pool {
	return &Pool{
		space: space, band: min(band, space.Size()), rest: rest, random: rand.Uint64N,
		blocked: newSet(space.Size()), resting: map[uint64]time.Time{},
	}
}

// Space returns the pool's values.
func (p *Pool) Space() Space { return p.space }

// Band returns the size of the lower band.
func (p *Pool) Band() uint64 { return p.band }

// Used is the number of values in use.
func (p *Pool) Used() uint64 { return p.blocked.count - uint64(len(p.resting)) }

// Resting is the number of values at rest.
func (p *Pool) Resting(now time.Time) uint64 {
	p.wake(now)
	return uint64(len(p.resting))
}

// run is how many picks follow a random start, each from where the one before
// ended. Neighbours are neighbours on disk, where a batch then writes few pages.
const run = 256

// Pick returns a free value, which it does not take: one of the upper band from
// a random start, then one of the lower band. So do the picks after it, up to a
// few hundred, from where it ended. Rest is a preference and not a
// lock: when nothing else is left it is the value that has rested longest, and
// rested says so. ErrFull means that all values are in use.
func (p *Pool) Pick(now time.Time) (v Value, rested bool, err error) {
	p.wake(now)
	if i, ok := p.scan(p.band, p.space.Size()); ok {
		return p.space.Value(i), false, nil
	}
	if i, ok := p.scan(0, p.band); ok {
		return p.space.Value(i), false, nil
	}
	if len(p.queue) > 0 {
		return p.space.Value(p.queue[0].index), true, nil
	}
	return Value{}, false, ErrFull
}

// scan returns the next free index in [from, to), round.
func (p *Pool) scan(from, to uint64) (uint64, bool) {
	if from >= to {
		return 0, false
	}
	start := p.start(from, to)
	i, ok := p.blocked.nextAbsent(start, to)
	if !ok {
		i, ok = p.blocked.nextAbsent(from, start)
	}
	p.next = i
	return i, ok
}

// start returns where to look in [from, to): where the last pick ended, or
// anywhere when its run is over or was of another band.
func (p *Pool) start(from, to uint64) uint64 {
	if p.left > 0 && p.next >= from && p.next < to {
		p.left--
		return p.next
	}
	p.left = run - 1
	return from + p.random(to-from)
}

// Take marks a value as in use; one at rest may be taken at once.
func (p *Pool) Take(v Value) error {
	i, ok := p.space.Index(v)
	if !ok {
		return ErrNotInRange
	}
	if p.blocked.add(i) {
		return nil
	}
	if _, ok := p.resting[i]; !ok {
		return ErrAllocated
	}
	delete(p.resting, i)
	p.trim()
	return nil
}

// Release ends the use of a value, which rests from since on. A value that is
// not in use stays as it is, and the answer is false.
func (p *Pool) Release(v Value, since time.Time) bool {
	i, ok := p.space.Index(v)
	if !ok || !p.blocked.contains(i) {
		return false
	}
	if _, ok := p.resting[i]; ok {
		return false
	}
	p.resting[i] = since
	p.queue = append(p.queue, rested{i, since})
	for at := len(p.queue) - 1; at > 0 && p.queue[at-1].since.After(since); at-- {
		p.queue[at-1], p.queue[at] = p.queue[at], p.queue[at-1] // a clock that went back
	}
	return true
}

// RestsSince says since when a value rests, if it does.
func (p *Pool) RestsSince(v Value) (time.Time, bool) {
	i, ok := p.space.Index(v)
	if !ok {
		return time.Time{}, false
	}
	since, ok := p.resting[i]
	return since, ok
}

// EachResting calls fn for every value at rest.
func (p *Pool) EachResting(fn func(v Value, since time.Time)) {
	for i, since := range p.resting {
		fn(p.space.Value(i), since)
	}
}

// Free ends use and rest of a value at once, as if it had never been taken.
func (p *Pool) Free(v Value) {
	if i, ok := p.space.Index(v); ok && p.blocked.remove(i) {
		delete(p.resting, i)
		p.trim()
	}
}

// wake frees what has rested long enough.
func (p *Pool) wake(now time.Time) {
	for len(p.queue) > 0 && now.Sub(p.queue[0].since) >= p.rest {
		delete(p.resting, p.queue[0].index)
		p.blocked.remove(p.queue[0].index)
		p.queue = p.queue[1:]
		p.trim()
	}
}

// trim drops void entries, so that the queue begins with a value at rest.
func (p *Pool) trim() {
	for len(p.queue) > 0 {
		since, ok := p.resting[p.queue[0].index]
		if ok && since.Equal(p.queue[0].since) {
			return
		}
		p.queue = p.queue[1:]
	}
}
