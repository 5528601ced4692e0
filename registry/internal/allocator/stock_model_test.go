package allocator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
)

// values and grants are small, so that values often come back under another grant.
const modelValues = 12

// stockModel drives a stock as the client and the allocator do, and has the state of the allocator.
type stockModel struct {
	stock   *stock
	holder  *holder
	holders int
	grant   uint64            // newest grant of the holder
	granted map[string]uint64 // values in the reserve of the holder, as the allocator has them
	sent    *exchange         // the call that is under way
	taken   []*taken
	settled map[string]bool // "holder/value/grant" that the allocator was told of
	stored  map[string]bool // "value/grant" of the holder that the allocator was not told of
	limit   int
}

func (m *stockModel) value(n int) string { return fmt.Sprintf("10.0.0.%d", n) }

func (m *stockModel) begin() {
	m.holders++
	m.holder, m.grant, m.granted, m.sent = &holder{name: fmt.Sprint("h", m.holders)}, 0, map[string]uint64{}, nil
	m.limit, m.stored = modelValues, map[string]bool{}
	m.stock.begin(m.holder)
}

// Take takes one or two values for a write.
func (m *stockModel) Take(t *rapid.T) {
	claims := []*allocatorv1.Claim{{Slot: "a", Family: corev1.IPFamily_IP_FAMILY_IPV4}}
	switch rapid.IntRange(0, 3).Draw(t, "claims") {
	case 0:
		claims = append(claims, &allocatorv1.Claim{Slot: "b", Family: corev1.IPFamily_IP_FAMILY_IPV4})
	case 1:
		claims[0].Value = m.value(rapid.IntRange(0, modelValues-1).Draw(t, "wish"))
	}
	foreign := m.value(rapid.IntRange(0, 5*modelValues).Draw(t, "address of a backend"))
	got := m.stock.take(claims, func(address string) bool { return address == foreign })
	if got == nil {
		return
	}
	if got.holder != m.holder {
		t.Fatalf("values of a holder that has ended were taken")
	}
	for i, value := range got.values {
		if m.granted[value.value] != value.grant {
			t.Fatalf("%s of grant %d was taken, the reserve has it under %d", value.value, value.grant, m.granted[value.value])
		}
		if m.isTaken(value.value) {
			t.Fatalf("%s was taken twice", value.value)
		}
		if wish := claims[i].GetValue(); wish != "" && wish != value.value || wish == "" && value.value == foreign {
			t.Fatalf("a claim of %q got %s", wish, value.value)
		}
	}
	m.taken = append(m.taken, got)
}

func (m *stockModel) isTaken(value string) bool {
	return slices.ContainsFunc(m.taken, func(t *taken) bool {
		return t.holder == m.holder && slices.ContainsFunc(t.values, func(v *stocked) bool { return v.value == value })
	})
}

// Finish ends a write that has taken values, in one of three ways.
func (m *stockModel) Finish(t *rapid.T) {
	if len(m.taken) == 0 {
		t.Skip("nothing is taken")
	}
	i := rapid.IntRange(0, len(m.taken)-1).Draw(t, "write")
	done := m.taken[i]
	m.taken = slices.Delete(m.taken, i, i+1)
	if rapid.Bool().Draw(t, "stored") {
		for _, v := range done.values {
			if done.holder == m.holder {
				m.stored[fmt.Sprintf("%s/%d", v.value, v.grant)] = true
			}
		}
		m.stock.settle(done, &allocatorv1.Owner{Uid: "u"}, []string{"a", "b"}, rapid.Bool().Draw(t, "confirmed"))
	} else {
		m.stock.putBack(done)
	}
}

// Send begins a call, unless one is under way.
func (m *stockModel) Send(t *rapid.T) {
	if m.sent != nil {
		t.Skip("a call is under way")
	}
	if m.sent = m.stock.next(time.Now()); m.sent == nil {
		t.Fatal("there is no call though there is a holder")
	}
}

// Lose ends a call without an answer. The allocator may have executed it.
func (m *stockModel) Lose(t *rapid.T) {
	if m.sent == nil {
		t.Skip("no call is under way")
	}
	if rapid.Bool().Draw(t, "executed") {
		m.execute(t)
	}
	m.stock.unanswered(m.sent, time.Now())
	m.sent = nil
}

// Answer ends a call with an answer.
func (m *stockModel) Answer(t *rapid.T) {
	if m.sent == nil {
		t.Skip("no call is under way")
	}
	answer := m.execute(t)
	if err := m.stock.answered(m.sent, answer, time.Now()); err != nil {
		t.Fatal(err)
	}
	m.sent = nil
	m.checkKnown(t)
}

// checkKnown checks that the stock knows every value that the allocator has in the reserve. Values of a
// lost answer must have been taken back.
func (m *stockModel) checkKnown(t *rapid.T) {
	known := map[string]uint64{}
	for _, v := range m.stock.values {
		known[v.value] = v.grant
	}
	for _, s := range m.stock.settling {
		known[s.GetValue()] = max(known[s.GetValue()], s.GetGrant())
	}
	for _, v := range m.stock.returning {
		known[v.GetValue()] = max(known[v.GetValue()], v.GetGrant())
	}
	for value, grant := range m.granted {
		if known[value] != grant {
			t.Fatalf("%s of grant %d is in the reserve, the stock knows grant %d of it", value, grant, known[value])
		}
	}
}

// execute handles a call like the allocator.
func (m *stockModel) execute(t *rapid.T) *allocatorv1.ReserveResponse {
	request := m.sent.request
	for value, grant := range m.granted {
		if grant > request.GetReceived() {
			delete(m.granted, value) // its answer was lost
		}
	}
	for _, s := range request.GetSettled() {
		delete(m.stored, fmt.Sprintf("%s/%d", s.GetValue(), s.GetGrant()))
		if m.granted[s.GetValue()] != s.GetGrant() {
			continue // settled by an earlier call that was not answered, or released
		}
		id := fmt.Sprintf("%s/%s/%d", m.holder.name, s.GetValue(), s.GetGrant())
		if m.settled[id] {
			t.Fatalf("%s is settled twice", id)
		}
		m.settled[id] = true
		delete(m.granted, s.GetValue())
	}
	for _, v := range request.GetReturned() {
		if m.granted[v.GetValue()] == v.GetGrant() {
			delete(m.granted, v.GetValue())
		}
	}
	return m.respond(t, request)
}

func (m *stockModel) respond(t *rapid.T, request *allocatorv1.ReserveRequest) *allocatorv1.ReserveResponse {
	answer := &allocatorv1.ReserveResponse{}
	m.limit = rapid.SampledFrom([]int{0, 3, modelValues, modelValues}).Draw(t, "limit")
	answer.Limits = []*allocatorv1.ReserveLimit{{Family: corev1.IPFamily_IP_FAMILY_IPV4, Count: uint32(m.limit)}}
	m.grant++
	for n := range modelValues {
		value := m.value(n)
		if _, has := m.granted[value]; !has && len(request.GetWishes()) > 0 && len(m.granted) < min(m.limit, int(request.GetWishes()[0].GetCount())) && rapid.Bool().Draw(t, "granted") {
			m.granted[value] = m.grant
			answer.Granted = append(answer.Granted, &allocatorv1.ReservedValue{Value: value, Grant: m.grant})
		}
	}
	wanted := m.value(rapid.IntRange(0, 3*modelValues).Draw(t, "recalled"))
	if grant, has := m.granted[wanted]; has {
		answer.Recalled = []*allocatorv1.ReservedValue{{Value: wanted, Grant: grant}}
	}
	return answer
}

// Release makes the allocator release a value that a service has got, which another process deleted.
func (m *stockModel) Release(t *rapid.T) {
	m.stock.mu.Lock()
	defer m.stock.mu.Unlock()
	if len(m.stock.settling) == 0 {
		t.Skip("nothing settles")
	}
	s := rapid.SampledFrom(m.stock.settling).Draw(t, "settling")
	if m.granted[s.GetValue()] == s.GetGrant() {
		delete(m.granted, s.GetValue())
	}
}

// End ends the reserve, and another one begins.
func (m *stockModel) End(t *rapid.T) {
	ended := m.holder
	if !m.stock.end(ended) || m.stock.end(ended) || m.stock.current() != nil {
		t.Fatal("a holder does not end once")
	}
	if got := m.stock.take([]*allocatorv1.Claim{{Family: corev1.IPFamily_IP_FAMILY_IPV4}}, func(string) bool { return false }); got != nil {
		t.Fatalf("%s was taken after the end", got.values[0].value)
	}
	late := m.sent
	m.begin()
	if late != nil { // its answer comes after the end
		err := m.stock.answered(late, &allocatorv1.ReserveResponse{Granted: []*allocatorv1.ReservedValue{{Value: m.value(0), Grant: 99}}}, time.Now())
		if err != nil || len(m.stock.values) != 0 {
			t.Fatalf("the answer to a former holder left %d values, %v", len(m.stock.values), err)
		}
	}
}

// check compares the places of all values.
func (m *stockModel) check(t *rapid.T) {
	m.stock.mu.Lock()
	defer m.stock.mu.Unlock()
	places := map[string]string{}
	put := func(value, place string) {
		if other := places[value]; other != "" {
			t.Fatalf("%s is %s and %s", value, other, place)
		}
		places[value] = place
	}
	free := 0
	for _, shelf := range m.stock.shelves {
		for _, v := range shelf.free {
			put(v.value, "free")
			free++
		}
		if shelf.taken < 0 {
			t.Fatalf("%d values are taken", shelf.taken)
		}
		free += shelf.taken
	}
	for _, write := range m.taken {
		for _, v := range write.values {
			if write.holder == m.holder {
				put(v.value, "taken")
			}
		}
	}
	if len(places) != len(m.stock.values) || len(places) != free {
		t.Fatalf("%d values are free or taken, the stock has %d and counts %d", len(places), len(m.stock.values), free)
	}
	// A value that was released may be granted anew while the settlement of its former grant waits.
	waiting := map[string]bool{}
	for _, s := range m.stock.settling {
		waiting[fmt.Sprintf("%s/%d", s.GetValue(), s.GetGrant())] = true
		m.checkWaiting(t, s.GetValue(), s.GetGrant())
		put(fmt.Sprint(s.GetValue(), " of grant ", s.GetGrant()), "settling")
	}
	for id := range m.stored {
		if !waiting[id] {
			t.Fatalf("the settlement of %s is lost", id)
		}
	}
	for _, v := range m.stock.returning {
		m.checkWaiting(t, v.GetValue(), v.GetGrant())
		put(fmt.Sprint(v.GetValue(), " of grant ", v.GetGrant()), "returning")
	}
}

// checkWaiting checks that a value that waits for a call is not at hand under the same grant.
func (m *stockModel) checkWaiting(t *rapid.T, value string, grant uint64) {
	if other := m.stock.values[value]; other != nil && other.grant == grant {
		t.Fatalf("%s of grant %d is at hand and waits for a call", value, grant)
	}
}

// TestStockKeepsItsRules runs random sequences of all events of a stock. A value must
// be in one place only, be settled at most once for each grant, and not be taken after its holder has
// ended.
func TestStockKeepsItsRules(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &stockModel{stock: newStock(), settled: map[string]bool{}}
		m.begin()
		rt.Repeat(map[string]func(*rapid.T){
			"take": m.Take, "take again": m.Take, "finish": m.Finish, "send": m.Send, "send again": m.Send, "answer": m.Answer, "answer again": m.Answer,
			"lose": m.Lose, "release": m.Release, "end": m.End, "": m.check,
		})
	})
}
