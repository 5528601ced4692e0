package pool

import (
	"errors"
	"math/rand/v2"
	"time"
)

// Errors of Pick and Take.
var (
	ErrFull       = errors.New("range is full")
	ErrNotInRange = errors.New("value is not in range")
	ErrAllocated  = errors.New("value is already allocated")
)

// Pool is a space with the sets of its values that are in use or at rest. It is not safe for
// concurrent use.
type Pool struct {
	space  Space
	band   uint64
	rest   time.Duration
	random func(n uint64) uint64 // in [0, n)

	blocked      *set // in use or at rest
	resting      map[uint64]time.Time
	lowerUsed    uint64   // values of the lower band that are in use
	avoidedUsed  uint64   // values that are in use and would not be picked
	upperResting uint64   // values of the upper band that are at rest
	next         uint64   // where the next pick begins, while left > 0
	picksLeft    int      // remaining picks of the run
	queues       [3]queue // of the upper band, of the lower band, and of values that are not picked; of all protocols
}

// queue holds values at rest in the order of release. Entries that no longer match resting are
// void.
type queue []restingEntry

type restingEntry struct {
	index uint64
	since time.Time
}

// New returns a pool with all values free. The first band values are left to explicit requests
// while others are free. A released value rests for the duration rest.
func New(space Space, band uint64, rest time.Duration) *Pool {
	return &Pool{
		space: space, band: min(band, space.Span()), rest: rest, random: rand.Uint64N,
		blocked: newSet(space.Size()), resting: map[uint64]time.Time{},
	}
}

// Space returns the pool's values.
func (p *Pool) Space() Space { return p.space }

// Band returns the size of the lower band, of each protocol if the values are per protocol.
func (p *Pool) Band() uint64 { return p.band }

// isLower reports whether a value is of the lower band.
func (p *Pool) isLower(index uint64) bool {
	if p.space.IsPerProtocol() {
		index %= p.space.Span()
	}
	return index < p.band
}

// Used returns the number of values in use.
func (p *Pool) Used() uint64 { return p.blocked.count - uint64(len(p.resting)) }

// LowerUsed returns the number of values of the lower band that are in use.
func (p *Pool) LowerUsed() uint64 { return p.lowerUsed }

// UpperFree returns the number of values of the upper band that are neither in use nor at rest.
func (p *Pool) UpperFree(now time.Time) uint64 {
	p.endRests(now)
	return p.space.Size() - p.band - (p.Used() - p.lowerUsed) - p.upperResting
}

// Resting returns the number of values at rest.
func (p *Pool) Resting(now time.Time) uint64 {
	p.endRests(now)
	return uint64(len(p.resting))
}

// picksPerStart is the number of picks after one random start. Each continues where the previous pick
// ended. Neighbouring values are neighbours on disk, so a batch writes few pages.
const picksPerStart = 256

// Class is the class of a picked value. A smaller class is preferred. The lower band is left to
// explicit requests while any value of the upper band is not in use, even if it is at rest.
type Class int

// Classes of values.
const (
	Upper        Class = iota // free, of the upper band
	UpperResting              // at rest, of the upper band
	Lower                     // free, of the lower band
	LowerResting              // at rest, of the lower band
)

// Pick returns a value that is not in use, of the best available class. It does not take the value.
// Free values are picked from a random start, and the following picks, up to a few hundred,
// continue where the last one ended. Rest is a preference and not a lock: among values at rest Pick
// returns the value that has rested longest. The error is ErrFull if all values that may be picked are in
// use. A pool with values for each protocol needs PickFor.
func (p *Pool) Pick(now time.Time) (Value, Class, error) {
	p.endRests(now)
	if i, ok := p.scan(p.band, p.space.Size()); ok {
		return p.space.Value(i), Upper, nil
	}
	if resting := p.queues[0]; len(resting) > 0 {
		return p.space.Value(resting[0].index), UpperResting, nil
	}
	if i, ok := p.scan(0, p.band); ok {
		return p.space.Value(i), Lower, nil
	}
	if resting := p.queues[1]; len(resting) > 0 {
		return p.space.Value(resting[0].index), LowerResting, nil
	}
	return Value{}, 0, ErrFull
}

// queueOf returns the queue that a value is in while it rests.
func (p *Pool) queueOf(index uint64) *queue {
	if p.space.isAvoided(index) {
		return &p.queues[2]
	}
	if p.isLower(index) {
		return &p.queues[1]
	}
	return &p.queues[0]
}

// scan returns the next free index in [from, to) that may be picked. It wraps around at the end.
func (p *Pool) scan(from, to uint64) (uint64, bool) {
	if from >= to {
		return 0, false
	}
	start := p.start(from, to)
	i, ok := p.nextFree(start, to)
	if !ok {
		i, ok = p.nextFree(from, start)
	}
	p.next = i
	return i, ok
}

// start returns the index in [from, to) at which to begin: where the last pick ended, or a random
// index if the run is over or was in another band.
func (p *Pool) start(from, to uint64) uint64 {
	if p.picksLeft > 0 && p.next >= from && p.next < to {
		p.picksLeft--
		return p.next
	}
	p.picksLeft = picksPerStart - 1
	return from + p.random(to-from)
}

// Allocate marks a value as in use. A value at rest may be allocated at once. Errors:
// ErrNotInRange, ErrAllocated.
func (p *Pool) Allocate(v Value) error {
	i, ok := p.space.Index(v)
	if !ok {
		return ErrNotInRange
	}
	if !p.blocked.add(i) {
		if _, ok := p.resting[i]; !ok {
			return ErrAllocated
		}
		p.endRest(i)
		p.dropVoidEntries()
	}
	p.beginUse(i)
	return nil
}

// Release ends the use of a value, which rests from since on. It returns false, and changes
// nothing, if the value is not in use.
func (p *Pool) Release(v Value, since time.Time) bool {
	i, ok := p.space.Index(v)
	if !ok || !p.blocked.contains(i) {
		return false
	}
	if _, ok := p.resting[i]; ok {
		return false
	}
	p.startRest(i, since)
	p.endUse(i)
	return true
}

// beginUse counts a value that is in use from now on.
func (p *Pool) beginUse(index uint64) {
	if p.isLower(index) {
		p.lowerUsed++
	}
	if p.space.isAvoided(index) {
		p.avoidedUsed++
	}
}

// endUse counts a value that is no longer in use.
func (p *Pool) endUse(index uint64) {
	if p.isLower(index) {
		p.lowerUsed--
	}
	if p.space.isAvoided(index) {
		p.avoidedUsed--
	}
}

// startRest adds a value to those at rest.
func (p *Pool) startRest(index uint64, since time.Time) {
	p.resting[index] = since
	if index >= p.band {
		p.upperResting++
	}
	p.queueOf(index).push(restingEntry{index, since})
}

// push adds an entry at its place in the order of release.
func (q *queue) push(e restingEntry) {
	*q = append(*q, e)
	for at := len(*q) - 1; at > 0 && (*q)[at-1].since.After(e.since); at-- {
		(*q)[at-1], (*q)[at] = (*q)[at], (*q)[at-1] // the clock went back
	}
}

// RestingSince returns since when a value rests, and whether it does.
func (p *Pool) RestingSince(v Value) (time.Time, bool) {
	i, ok := p.space.Index(v)
	if !ok {
		return time.Time{}, false
	}
	since, ok := p.resting[i]
	return since, ok
}

// Free ends use and rest of a value at once, as if it had never been taken.
func (p *Pool) Free(v Value) {
	i, ok := p.space.Index(v)
	if !ok || !p.blocked.remove(i) {
		return
	}
	if _, rests := p.resting[i]; rests {
		p.endRest(i)
		p.dropVoidEntries()
	} else {
		p.endUse(i)
	}
}

// endRest removes a value from those at rest.
func (p *Pool) endRest(index uint64) {
	delete(p.resting, index)
	if index >= p.band {
		p.upperResting--
	}
}

// endRests frees the values that have rested long enough.
func (p *Pool) endRests(now time.Time) {
	for n := range p.queues {
		q := &p.queues[n]
		for len(*q) > 0 && now.Sub((*q)[0].since) >= p.rest {
			p.endRest((*q)[0].index)
			p.blocked.remove((*q)[0].index)
			*q = (*q)[1:]
			p.dropVoidEntries()
		}
	}
}

// dropVoidEntries drops void entries, so that each queue begins with a value at rest.
func (p *Pool) dropVoidEntries() {
	for n := range p.queues {
		q := &p.queues[n]
		for len(*q) > 0 {
			since, ok := p.resting[(*q)[0].index]
			if ok && since.Equal((*q)[0].since) {
				break
			}
			*q = (*q)[1:]
		}
	}
}
