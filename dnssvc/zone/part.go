package zone

import "iter"

// Part yields the positions of n records of the set, at most all of them. Spare records come after
// all others. Which record of either kind is the first depends on rotate, so that one question
// after the other gets all records.
func (s *Set) Part(rotate uint32, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		left := n
		for from, to := range s.kinds() {
			some := min(left, to-from)
			for i := range some {
				if !yield(from + (i+Turn(rotate, to-from))%(to-from)) {
					return
				}
			}
			left -= some
		}
	}
}

// kinds yields the ranges of the records that come first and of the spare ones, if there are any.
func (s *Set) kinds() iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		split, all := s.Lead(), int(s.Count)
		if yield(0, split) && split < all {
			yield(split, all)
		}
	}
}

// Lead is how many records come before the spare ones.
func (s *Set) Lead() int { return int(s.Count - s.Spare) }

// Turn is the position that a rotation of count records starts at.
func Turn(rotate uint32, count int) int { return int(rotate % uint32(count)) }

// SRVPart yields n records of an SRV set, those that Part says. It reads the set from its start for
// each run of records, which takes far less than writing them: use SRVs where all are wanted.
func (s *Set) SRVPart(rotate uint32, n int) iter.Seq[SRV] {
	return func(yield func(SRV) bool) {
		left := n
		for from, to := range s.kinds() {
			some := min(left, to-from)
			start := from + Turn(rotate, to-from)
			if !s.srvs(start, min(start+some, to), yield) || !s.srvs(from, from+some-min(some, to-start), yield) {
				return
			}
			left -= some
		}
	}
}

// srvs yields the records at the positions from (included) to to (excluded).
func (s *Set) srvs(from, to int, yield func(SRV) bool) bool {
	rest := s.Data[1:]
	for i := range to {
		var r SRV
		if r, rest = firstSRV(rest); i >= from && !yield(r) {
			return false
		}
	}
	return true
}

// SRVSize is the size of the data of all records of an SRV set whose targets end in base, in bytes:
// priority, weight, port and target, which is not compressed.
func (s *Set) SRVSize(base string) int {
	count := int(s.Count)
	const own = 1 // of Data, for Strip
	labels := len(s.Data) - own - count*srvHeader
	if s.Data[own+srvHeader] == 0 {
		labels = 0 // the records of a cluster IP have none
	}
	return labels + count*(6+len(base))
}
