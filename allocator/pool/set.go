package pool

import "math/bits"

// A word of the tree stands for 64 members or 64 branches.
const (
	fanoutBits = 6
	slotMask   = 1<<fanoutBits - 1
)

// set is a set of numbers below size. Make it with newSet; the zero value is not ready.
type set struct {
	root  *node
	size  uint64
	shift uint // of the root's slots
	count uint64
}

// node is one word of the tree. At the lowest level present holds the members. Above it, present
// marks the branches that exist, full marks those without room, and children holds the existing
// branches in order.
type node struct {
	present  uint64
	full     uint64
	children []*node
}

func newSet(size uint64) *set {
	s := &set{root: &node{}, size: size}
	for s.shift+fanoutBits < 64 && (size-1)>>(s.shift+fanoutBits) != 0 {
		s.shift += fanoutBits
	}
	return s
}

// add adds v and reports whether it was new.
func (s *set) add(v uint64) bool {
	if !s.root.add(v, s.shift) {
		return false
	}
	s.count++
	return true
}

// remove removes v and reports whether it was in the set.
func (s *set) remove(v uint64) bool {
	if !s.root.remove(v, s.shift) {
		return false
	}
	s.count--
	return true
}

// each calls fn for the members in ascending order until fn returns false.
func (s *set) each(fn func(v uint64) bool) { s.root.each(0, s.shift, fn) }

// each calls fn for the members of n. Their upper bits are the bits of base. It reports whether fn has
// returned true for all of them.
func (n *node) each(base uint64, shift uint, fn func(v uint64) bool) bool {
	child := 0
	for left := n.present; left != 0; left &= left - 1 {
		v := base | uint64(bits.TrailingZeros64(left))<<shift
		if shift == 0 {
			if !fn(v) {
				return false
			}
			continue
		}
		if !n.children[child].each(v, shift-fanoutBits, fn) {
			return false
		}
		child++
	}
	return true
}

func (s *set) contains(v uint64) bool {
	n := s.root
	for shift := s.shift; ; shift -= fanoutBits {
		slot := v >> shift & slotMask
		if n.present>>slot&1 == 0 {
			return false
		}
		if shift == 0 {
			return true
		}
		n = n.children[n.rank(slot)]
	}
}

// nextAbsent returns the smallest number in [from, end) that is not in the set.
func (s *set) nextAbsent(from, end uint64) (uint64, bool) {
	if from >= end {
		return 0, false
	}
	slots := (s.size-1)>>s.shift + 1 // the root may have fewer than 64
	v, ok := s.root.nextAbsent(from, s.shift, slots)
	return v, ok && v < end
}

// rank returns the index of slot's branch among the existing branches.
func (n *node) rank(slot uint64) int {
	return bits.OnesCount64(n.present & (1<<slot - 1))
}

// allFull reports whether the subtree has no free number.
func (n *node) allFull(shift uint) bool {
	if shift == 0 {
		return n.present == ^uint64(0)
	}
	return n.full == ^uint64(0)
}

func (n *node) add(v uint64, shift uint) bool {
	slot := v >> shift & slotMask
	bit := uint64(1) << slot
	if shift == 0 {
		added := n.present&bit == 0
		n.present |= bit
		return added
	}
	at := n.rank(slot)
	if n.present&bit == 0 {
		n.present |= bit
		n.children = append(n.children, nil)
		copy(n.children[at+1:], n.children[at:])
		n.children[at] = &node{}
	}
	added := n.children[at].add(v, shift-fanoutBits)
	if n.children[at].allFull(shift - fanoutBits) {
		n.full |= bit
	}
	return added
}

func (n *node) remove(v uint64, shift uint) bool {
	slot := v >> shift & slotMask
	bit := uint64(1) << slot
	if n.present&bit == 0 {
		return false
	}
	if shift == 0 {
		n.present &^= bit
		return true
	}
	at := n.rank(slot)
	if !n.children[at].remove(v, shift-fanoutBits) {
		return false
	}
	n.full &^= bit
	if n.children[at].present == 0 {
		n.present &^= bit
		n.children = append(n.children[:at], n.children[at+1:]...)
	}
	return true
}

// nextAbsent searches the first slots branches of n. The lower bits of from are the position in the
// subtree at which to begin; its upper bits identify the subtree.
func (n *node) nextAbsent(from uint64, shift uint, slots uint64) (uint64, bool) {
	slot := from >> shift & slotMask
	if shift > 0 && n.present>>slot&1 == 1 && n.full>>slot&1 == 0 {
		if v, ok := n.children[n.rank(slot)].nextAbsent(from, shift-fanoutBits, 64); ok {
			return v, true
		}
		slot++ // the free numbers of this branch lie before from
	} else if n.present>>slot&1 == 0 {
		return from, true
	}
	if slot >= slots {
		return 0, false
	}
	blocked := n.full
	if shift == 0 {
		blocked = n.present
	}
	slot += uint64(bits.TrailingZeros64(^(blocked >> slot)))
	if slot >= slots {
		return 0, false
	}
	start := from>>shift>>fanoutBits<<fanoutBits<<shift | slot<<shift
	if shift == 0 || n.present>>slot&1 == 0 {
		return start, true
	}
	return n.children[n.rank(slot)].nextAbsent(start, shift-fanoutBits, 64)
}
