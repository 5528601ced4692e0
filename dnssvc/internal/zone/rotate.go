package zone

import "iter"

// Rotated yields the positions of n records of the set, or of all if it has fewer. Fallback records
// come after all others. The first record of either kind depends on rotate, so that successive
// questions get all records.
func (s *Set) Rotated(rotate uint32, n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		left := n
		for from, to := range s.preferenceRanges() {
			some := min(left, to-from)
			for i := range some {
				if !yield(from + (i+RotationStart(rotate, to-from))%(to-from)) {
					return
				}
			}
			left -= some
		}
	}
}

// preferenceRanges yields the range of the preferred records and the range of the fallback records,
// if there are any.
func (s *Set) preferenceRanges() iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		split, all := s.Preferred(), int(s.Count)
		if yield(0, split) && split < all {
			yield(split, all)
		}
	}
}

// Preferred returns the number of records before the fallback ones.
func (s *Set) Preferred() int { return int(s.Count - s.Fallback) }

// RotationStart returns the position at which a rotation of count records starts.
func RotationStart(rotate uint32, count int) int { return int(rotate % uint32(count)) }

// RotatedSRVs yields n records of an SRV set, at the positions that Rotated yields. It reads the
// set from its start for each run of records, which is far cheaper than writing them. For all
// records use SRVs.
func (s *Set) RotatedSRVs(rotate uint32, n int) iter.Seq[SRV] {
	return func(yield func(SRV) bool) {
		left := n
		for from, to := range s.preferenceRanges() {
			some := min(left, to-from)
			start := from + RotationStart(rotate, to-from)
			if !s.srvs(start, min(start+some, to), yield) || !s.srvs(from, from+some-min(some, to-start), yield) {
				return
			}
			left -= some
		}
	}
}

// srvs yields the records at the positions from (inclusive) to to (exclusive).
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

// SRVSize returns the sum of the sizes of the records' data in an SRV set, in bytes. The data of a
// record are priority, weight, port and the uncompressed target, which ends in base.
func (s *Set) SRVSize(base string) int {
	count := int(s.Count)
	const own = 1 // size of Strip in Data
	labels := len(s.Data) - own - count*srvHeader
	if s.Data[own+srvHeader] == 0 {
		labels = 0 // records of a cluster IP have no labels
	}
	return labels + count*(6+len(base))
}
