package allocator

import (
	"errors"
	"slices"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
)

const (
	settleAfter  = 50 * time.Millisecond // how long a settlement may wait for others
	settleAtOnce = 500                   // settlements that do not wait any longer
	mostSettled  = 1000                  // settlements in one call, as the API allows
	mostReturned = 5000                  // returned values in one call, as the API allows
	mostWished   = 4096                  // values that may be wished, as the API allows
	heartbeat    = time.Second           // longest time between two calls
)

// exchange is one call to the allocator, with the settlements and returns to remove from the stock when
// the allocator has answered.
type exchange struct {
	holder            *holder
	request           *allocatorv1.ReserveRequest
	settled, returned int
	had               map[corev1.IPFamily]int // values in the reserve after the call's settlements and returns
}

// due returns the time until the next call. It returns false if there is no reserve.
func (s *stock) due(now time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == nil {
		return 0, false
	}
	next := s.called.Add(heartbeat)
	if !s.failed && s.called.IsZero() || !s.failed && s.hasReasonToCall() {
		next = now
	}
	if !s.failed && len(s.settling) > 0 && s.settlingSince.Add(settleAfter).Before(next) {
		next = s.settlingSince.Add(settleAfter)
	}
	return max(0, next.Sub(now)), true
}

func (s *stock) hasReasonToCall() bool {
	if len(s.settling) >= settleAtOnce || s.urgent {
		return true
	}
	for _, shelf := range s.shelves {
		if shelf.isLow() {
			return true
		}
	}
	return false
}

// next returns the next call, or nil if there is no reserve. Another call must not be made before
// the outcome of this one was passed to answered or unanswered.
func (s *stock) next(now time.Time) *exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == nil {
		return nil
	}
	for _, shelf := range s.shelves {
		shelf.demand.measure(now)
		s.returnSurplus(shelf)
	}
	x := s.carry()
	for _, family := range s.families() {
		shelf := s.shelves[family]
		x.had[family] += len(shelf.free) + shelf.taken
		count := x.had[family] + max(0, shelf.demand.wanted()-len(shelf.free))
		x.request.Wishes = append(x.request.Wishes, &allocatorv1.ReserveWish{
			Use: allocatorv1.Use_USE_CLUSTER_IP, Family: family, Count: uint32(min(count, mostWished)), // #nosec G115 -- within 0 and 4096
		})
	}
	return x
}

// carry returns a call with as many settlements and returns as fit into it.
func (s *stock) carry() *exchange {
	x := &exchange{
		holder: s.holder, settled: min(len(s.settling), mostSettled), returned: min(len(s.returning), mostReturned),
		had: map[corev1.IPFamily]int{},
	}
	s.calls++
	x.request = &allocatorv1.ReserveRequest{
		Holder: s.holder.name, Call: s.calls, Received: s.received, Settled: s.settling[:x.settled:x.settled], Returned: s.returning[:x.returned:x.returned],
	}
	for _, settlement := range s.settling[x.settled:] {
		x.had[familyOf(settlement.GetValue())]++
	}
	for _, value := range s.returning[x.returned:] {
		x.had[familyOf(value.GetValue())]++
	}
	return x
}

// returnSurplus returns the values beyond the allocator's limit, and the values that only a past burst
// needed.
func (s *stock) returnSurplus(shelf *shelf) {
	keep := max(0, shelf.limit-shelf.taken)
	if wanted := shelf.demand.wanted(); len(shelf.free) > 2*wanted {
		keep = min(keep, wanted)
	}
	for len(shelf.free) > keep {
		last := len(shelf.free) - 1
		s.giveBack(shelf.free[last])
		shelf.free = shelf.free[:last]
	}
}

// errOtherLog is returned by answered if the allocator now answers for another log than before.
var errOtherLog = errors.New("the allocator answers for a log of another epoch")

// answered applies the allocator's answer to the stock. It returns the reason why the reserve must
// end, or nil. If the holder has ended meanwhile, the answer is dropped.
func (s *stock) answered(x *exchange, answer *allocatorv1.ReserveResponse, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder != x.holder {
		return nil
	}
	if s.epoch != "" && s.epoch != answer.GetLogEpoch() {
		return errOtherLog
	}
	s.epoch, s.called, s.failed = answer.GetLogEpoch(), now, false
	s.settling, s.returning = s.settling[x.settled:], s.returning[x.returned:]
	s.urgent = s.urgent && len(s.returning) > 0
	s.settlingSince = now
	granted := s.grant(answer.GetGranted())
	s.limit(answer.GetLimits())
	s.compare(x, granted)
	s.recall(answer.GetRecalled())
	return nil
}

// unanswered notes that the allocator did not answer. The next call carries the same settlements and
// returns.
func (s *stock) unanswered(x *exchange, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == x.holder {
		s.called, s.failed = now, true
	}
}

// refused drops the settlements and returns of a call that the allocator refused, because it would refuse
// them again. They are left to the allocator's verifier.
func (s *stock) refused(x *exchange, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == x.holder {
		s.called, s.failed = now, true
		s.settling, s.returning = s.settling[x.settled:], s.returning[x.returned:]
	}
}

// grant adds values to the stock and returns their number by family.
func (s *stock) grant(values []*allocatorv1.ReservedValue) map[corev1.IPFamily]int {
	granted := map[corev1.IPFamily]int{}
	for _, v := range values {
		s.received = max(s.received, v.GetGrant())
		if s.values[v.GetValue()] != nil {
			continue // it is at hand already
		}
		value := &stocked{value: v.GetValue(), grant: v.GetGrant(), family: familyOf(v.GetValue())}
		s.values[value.value] = value
		granted[value.family]++
		s.free(value)
	}
	return granted
}

// limit sets the allocator's limits, and makes values beyond them return at once, because another
// registry may wait for them.
func (s *stock) limit(limits []*allocatorv1.ReserveLimit) {
	for _, limit := range limits {
		shelf := s.shelf(limit.GetFamily())
		shelf.limit = int(min(limit.GetCount(), mostWished))
		if shelf.limit < len(shelf.free)+shelf.taken && len(shelf.free) > 0 {
			s.returnSurplus(shelf)
			s.urgent = true
			s.rouse()
		}
	}
}

// compare notes which families got fewer values than were wished.
func (s *stock) compare(x *exchange, granted map[corev1.IPFamily]int) {
	for _, wish := range x.request.GetWishes() {
		family := wish.GetFamily()
		s.shelf(family).short = x.had[family]+granted[family] < int(wish.GetCount())
	}
}

// recall returns the values that the allocator recalls. A value that a write has taken is returned if the
// write is not stored.
func (s *stock) recall(values []*allocatorv1.ReservedValue) {
	for _, v := range values {
		value := s.values[v.GetValue()]
		if value == nil || value.grant != v.GetGrant() {
			continue
		}
		value.recalled = true
		if value.taken {
			continue
		}
		shelf := s.shelfOf(value)
		i := slices.Index(shelf.free, value)
		shelf.free = slices.Delete(shelf.free, i, i+1)
		s.giveBack(value)
		s.urgent = true
		s.rouse()
	}
}

// last returns the call that ends the reserve, and true. If not everything fits into one call, it returns
// a call that must come before, and false. It returns nil if there is no reserve, or if a write with values is still under way.
func (s *stock) last() (x *exchange, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holder == nil {
		return nil, false
	}
	for _, shelf := range s.shelves {
		if shelf.taken > 0 {
			return nil, false
		}
		for _, value := range shelf.free {
			s.giveBack(value)
		}
		shelf.free = nil
	}
	x = s.carry()
	complete = x.settled == len(s.settling) && x.returned == len(s.returning)
	x.request.Close = complete
	return x, complete
}
