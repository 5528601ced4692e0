package pool

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Resized returns a pool of another range with the values of p that are in use or at rest. Values at
// rest outside the range are dropped. A value in use outside the range is an error. The values are copied
// in their order. For a million values that takes a tenth of the time of adding each by itself.
func (p *Pool) Resized(space Space, band uint64) (*Pool, error) {
	fresh := New(space, band, p.rest)
	fresh.random = p.random
	move := newShift(p.space, space)
	resting := slices.Collect(maps.Keys(p.resting))
	slices.SortFunc(resting, func(a, b uint64) int { return cmp.Or(p.resting[a].Compare(p.resting[b]), cmp.Compare(a, b)) })
	for _, i := range resting {
		if at, ok := move.index(i); ok {
			fresh.blocked.add(at)
			fresh.startRest(at, p.resting[i])
		}
	}
	var outside error
	p.blocked.each(func(i uint64) bool {
		if _, rests := p.resting[i]; rests {
			return true
		}
		at, ok := move.index(i)
		if !ok {
			outside = fmt.Errorf("%s: %w", p.space.Value(i), ErrNotInRange)
			return false
		}
		fresh.blocked.add(at)
		fresh.beginUse(at)
		return true
	})
	return fresh, outside
}

// LeftOutBy returns the first value in use that is not in a range, and the number of such values.
func (p *Pool) LeftOutBy(space Space) (first Value, n uint64) {
	if space.Contains(p.space) {
		return Value{}, 0
	}
	move := newShift(p.space, space)
	p.blocked.each(func(i uint64) bool {
		if _, rests := p.resting[i]; rests {
			return true
		}
		if _, in := move.index(i); !in {
			if n++; n == 1 {
				first = p.space.Value(i)
			}
		}
		return true
	})
	return first, n
}

// shift converts the indexes of one range to the indexes of another. Both ranges have values per
// protocol, or neither has.
type shift struct {
	from, to Space
	apart    bool // the ranges have no values in common
}

func newShift(from, to Space) shift { return shift{from, to, !from.Overlaps(to)} }

// index returns the index in the second range of the value with index i in the first one, and
// whether the second range has the value.
func (s shift) index(i uint64) (uint64, bool) {
	section := uint64(0)
	if s.from.IsPerProtocol() {
		section, i = i/s.from.Span(), i%s.from.Span()
	}
	n := s.from.first + i
	if s.apart || n < s.to.first || n-s.to.first >= s.to.Span() {
		return 0, false
	}
	return section*s.to.Span() + n - s.to.first, true
}
