package allocator

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/services/kit/wake"
)

// stock holds the values of this process's reserve. A value is in one of four places: free, taken
// for a write that is under way, settling, or returning. Settling and returning values wait for the next
// call to the allocator. A stock belongs to one holder. When the holder ends, all its values are
// gone, also those that writes have taken: the fence of the holder keeps these writes from being
// stored, and the allocator finds out which were stored before.
//
// The methods may be called concurrently. None of them waits.
type stock struct {
	wake wake.Signal // sent when the next call may be due earlier

	mu      sync.Mutex
	holder  *holder // nil: there is no reserve
	epoch   string  // epoch of the log that the values are for; empty: any
	shelves map[corev1.IPFamily]*shelf
	values  map[string]*stocked // free and taken values

	settling      []*allocatorv1.Settlement // oldest first
	settlingSince time.Time                 // time of the oldest
	returning     []*allocatorv1.ReservedValue
	urgent        bool // the allocator waits for values that are returning

	calls    uint64    // number of the last call of the holder
	received uint64    // number of the newest grant of the holder
	called   time.Time // end of the last call
	failed   bool      // the last call was not answered
}

// shelf is the part of a stock that has the values of one family.
type shelf struct {
	free   []*stocked // the next one to take comes first
	taken  int
	limit  int  // most values that may be in the reserve
	short  bool // the last answer had fewer values than were wished
	demand demand
}

// stocked is a value at hand.
type stocked struct {
	value    string
	grant    uint64
	family   corev1.IPFamily
	taken    bool
	recalled bool // goes back to the allocator when it is put back
}

// taken are values that a write has taken from the stock.
type taken struct {
	holder *holder
	epoch  string // epoch of the log that the values may be stored in; empty: any
	values []*stocked
}

func newStock() *stock {
	return &stock{wake: wake.New(), shelves: map[corev1.IPFamily]*shelf{}, values: map[string]*stocked{}}
}

// rouse wakes the loop that calls the allocator, so that it computes anew when the next call is due.
func (s *stock) rouse() {
	s.wake.Send()
}

// begin makes h the holder of the stock, which is empty then.
func (s *stock) begin(h *holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clear()
	s.holder, s.calls, s.received, s.failed, s.called = h, 0, 0, false, time.Time{}
	s.rouse()
}

// current returns the holder, or nil.
func (s *stock) current() *holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder
}

// end drops everything if h is the holder, and reports whether it is.
func (s *stock) end(h *holder) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h == nil || s.holder != h {
		return false
	}
	s.clear()
	s.rouse()
	return true
}

// endOtherLog drops everything if the values are for a log of another epoch. It returns the holder
// that ended, or nil.
func (s *stock) endOtherLog(epoch string) *holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == nil || s.epoch == "" || s.epoch == epoch {
		return nil
	}
	ended := s.holder
	s.clear()
	s.rouse()
	return ended
}

// clear empties the stock. The demand stays known.
func (s *stock) clear() {
	s.holder, s.epoch = nil, ""
	for _, shelf := range s.shelves {
		shelf.free, shelf.taken, shelf.limit, shelf.short = nil, 0, mostWished, false
	}
	clear(s.values)
	s.settling, s.returning, s.urgent = nil, nil, false
}

func (s *stock) shelf(family corev1.IPFamily) *shelf {
	if s.shelves[family] == nil {
		s.shelves[family] = &shelf{limit: mostWished, demand: demand{since: time.Now()}}
	}
	return s.shelves[family]
}

// take takes a value for each claim. If there are too few, it takes none and returns nil. A claim of a
// certain value gets it if it is at hand. Values that backends have as addresses are passed over and
// returned to the allocator.
func (s *stock) take(claims []*allocatorv1.Claim, inUse func(address string) bool) *taken {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &taken{holder: s.holder, epoch: s.epoch}
	for _, claim := range claims {
		shelf := s.shelf(claim.GetFamily())
		shelf.demand.count++
		if value := s.pick(shelf, claim, inUse); value != nil {
			value.taken = true
			shelf.taken++
			t.values = append(t.values, value)
		}
	}
	if len(t.values) == len(claims) {
		return t
	}
	for _, value := range t.values {
		s.shelfOf(value).taken--
		s.free(value)
	}
	s.rouse()
	return nil
}

// pick removes a value for a claim from the free ones. It returns nil if there is none.
func (s *stock) pick(shelf *shelf, claim *allocatorv1.Claim, inUse func(address string) bool) *stocked {
	if wanted := claim.GetValue(); wanted != "" {
		i := slices.IndexFunc(shelf.free, func(v *stocked) bool { return v.value == wanted })
		if i < 0 {
			return nil
		}
		value := shelf.free[i]
		shelf.free = slices.Delete(shelf.free, i, i+1)
		return value
	}
	for len(shelf.free) > 0 {
		value := shelf.free[0]
		shelf.free = shelf.free[1:]
		if shelf.isLow() {
			s.rouse()
		}
		if !inUse(value.value) {
			return value
		}
		s.giveBack(value)
	}
	return nil
}

// isLow reports whether more values should be fetched at once.
func (s *shelf) isLow() bool {
	return !s.short && len(s.free) < min(s.demand.wanted(), s.limit-s.taken)/2
}

func (s *stock) shelfOf(value *stocked) *shelf { return s.shelf(value.family) }

// free makes a value available, unless the allocator wants it back.
func (s *stock) free(value *stocked) {
	value.taken = false
	if value.recalled {
		s.giveBack(value)
		s.urgent = true
		s.rouse()
		return
	}
	shelf := s.shelfOf(value)
	shelf.free = append(shelf.free, value)
}

// giveBack has the next call return a value to the allocator. The caller has removed the value from its
// shelf.
func (s *stock) giveBack(value *stocked) {
	delete(s.values, value.value)
	s.returning = append(s.returning, &allocatorv1.ReservedValue{Value: value.value, Grant: value.grant, Family: value.family})
}

// putBack makes the values of a write that was certainly not stored available again.
func (s *stock) putBack(t *taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.holder != s.holder {
		return
	}
	for _, value := range t.values {
		if value.taken {
			s.shelfOf(value).taken--
			s.free(value)
		}
	}
}

// settle reports to the allocator, with the next call, that the owner has got the values in the
// slots. confirmed is false if it is not known whether the owner was stored.
func (s *stock) settle(t *taken, owner *allocatorv1.Owner, slots []string, confirmed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.holder != s.holder {
		return
	}
	if len(s.settling) == 0 {
		s.settlingSince = time.Now()
		s.rouse()
	}
	for i, value := range t.values {
		if !value.taken {
			continue
		}
		value.taken = false
		s.shelfOf(value).taken--
		delete(s.values, value.value)
		s.settling = append(s.settling, &allocatorv1.Settlement{
			Value: value.value, Grant: value.grant, Owner: owner, Slot: slots[i], Confirmed: confirmed,
		})
		if len(s.settling) == settleAtOnce {
			s.rouse()
		}
	}
}

// atHand returns the number of free values by family.
func (s *stock) atHand() map[corev1.IPFamily]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := make(map[corev1.IPFamily]int, len(s.shelves))
	for family, shelf := range s.shelves {
		count[family] = len(shelf.free)
	}
	return count
}

// unsettled returns the number of settlements that wait.
func (s *stock) unsettled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.settling)
}

// lasts returns the time for which the values of every family last at the present mean rate. It returns
// false if none are needed at present.
func (s *stock) lasts() (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	least, needed := time.Duration(0), false
	for _, shelf := range s.shelves {
		if shelf.demand.mean < leastRate {
			continue
		}
		lasts := time.Duration(float64(len(shelf.free)) / shelf.demand.mean * float64(time.Second))
		if !needed || lasts < least {
			least, needed = lasts, true
		}
	}
	return least, needed
}

// leastRate is the number of values per second below which there is no forecast.
const leastRate = 0.1

// families returns the families of values that were needed so far, in order.
func (s *stock) families() []corev1.IPFamily { return slices.Sorted(maps.Keys(s.shelves)) }

// familyOf returns the family of an address.
func familyOf(address string) corev1.IPFamily {
	if strings.Contains(address, ":") {
		return corev1.IPFamily_IP_FAMILY_IPV6
	}
	return corev1.IPFamily_IP_FAMILY_IPV4
}
