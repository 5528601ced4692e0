package allocation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

const (
	ipv4 = corev1.IPFamily_IP_FAMILY_IPV4
	ipv6 = corev1.IPFamily_IP_FAMILY_IPV6
)

// bench is a table with a pool of 254 addresses, of which 238 are of the upper band, so that a reserve
// has 14 at most. Each step is stored in rows, as in a store.
type bench struct {
	*testing.T
	table *Table
	now   time.Time
}

func newBench(t *testing.T, pools ...store.Pool) *bench {
	t.Helper()
	if pools == nil {
		pools = []store.Pool{{Name: "ips", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "10.96.0.0/24", State: allocatorv1.PoolState_POOL_STATE_ACTIVE, Band: 16}}
	}
	table, err := New(pools, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{T: t, table: table, now: time.UnixMilli(1_700_000_000_000)}
}

// call serves a call of a holder that must be served.
func (b *bench) call(req ReserveRequest) ReserveResult {
	b.Helper()
	req.Begin = true
	var c Change
	res, err := b.table.Reserve(b.now, req, &c)
	if err != nil {
		b.Fatalf("Reserve: %v", err)
	}
	return res
}

// wish asks for a number of IPv4 addresses.
func (b *bench) wish(holder string, count uint64) ReserveResult {
	b.Helper()
	return b.call(ReserveRequest{Holder: holder, Wishes: []ReserveCount{{ipv4, count}}})
}

func (b *bench) status() PoolStatus {
	b.Helper()
	return b.table.Pools(b.now)[0]
}

// allocate serves a claim of an owner and returns its value and its failure.
func (b *bench) allocate(uid, value string) (string, *Failure) {
	b.Helper()
	var c Change
	got, failures := b.table.Allocate(b.now, store.Owner{UID: uid, Kind: "Service"}, []ClaimRequest{{Slot: "ip", Use: allocatorv1.Use_USE_CLUSTER_IP, Value: value}}, &c)
	if len(failures) > 0 {
		return "", &failures[0]
	}
	return got[0].Value.String(), nil
}

// fill allocates so many addresses.
func (b *bench) fill(n int) {
	b.Helper()
	for i := range n {
		if _, f := b.allocate(fmt.Sprint("filled", i), ""); f != nil {
			b.Fatalf("address %d: %v", i, f)
		}
	}
}

func (b *bench) wantStatus(used, reserved, resting uint64) {
	b.Helper()
	if s := b.status(); s.Used != used || s.Reserved != reserved || s.Resting != resting {
		b.Errorf("%d used, %d reserved, %d resting; want %d, %d, %d", s.Used, s.Reserved, s.Resting, used, reserved, resting)
	}
}

// settlement returns the settlement of a value for an object.
func settlement(v ReservedValue, uid string, confirmed bool) Settlement {
	return Settlement{ReservedValue: v, Owner: store.Owner{UID: uid, Kind: "Service"}, Slot: "ip", Confirmed: confirmed}
}

// owner returns the owner of a value as text, with "?" if it is not confirmed.
func (b *bench) owner(v pool.Value) string {
	h := b.table.values[v]
	switch {
	case h == nil:
		return ""
	case h.reserved != nil:
		return h.reserved.reserve.Holder
	case !h.claims[0].confirmed:
		return h.owner.UID + "?"
	default:
		return h.owner.UID
	}
}

func TestAReserveHasItsShareOfTheUpperBand(t *testing.T) {
	b := newBench(t)
	res := b.wish("r1", 5)
	if len(res.Granted) != 5 || len(res.Limits) != 1 || res.Limits[0] != (ReserveCount{ipv4, 14}) {
		t.Fatalf("granted %v, limits %v; want 5 and 14", res.Granted, res.Limits)
	}
	for _, v := range res.Granted {
		if i, ok := b.table.pools[0].values.Space().Index(v.Value); !ok || i < 16 || v.Grant != 1 {
			t.Errorf("granted %v, want a value of the upper band under grant 1", v)
		}
	}
	if res := b.wish("r1", 5); len(res.Granted) != 0 {
		t.Errorf("granted %v to a holder that has what it wishes", res.Granted)
	}
	if res := b.wish("r1", 500); len(res.Granted) != 9 || res.Granted[0].Grant != 2 {
		t.Errorf("granted %v, want 9 more under grant 2", res.Granted)
	}
	b.wantStatus(0, 14, 0)
	if res := b.call(ReserveRequest{Holder: "r2", Wishes: []ReserveCount{{ipv6, 5}}}); len(res.Granted) != 0 || res.Limits[0].Count != 0 {
		t.Errorf("granted %v of a family without a pool", res)
	}
}

func TestTheLargestShare(t *testing.T) {
	b := newBench(t, store.Pool{Name: "six", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "fd00::/64", State: allocatorv1.PoolState_POOL_STATE_ACTIVE, Band: 256})
	res := b.call(ReserveRequest{Holder: "r1", Wishes: []ReserveCount{{ipv6, 4096}}})
	if len(res.Granted) != maxPoolShare || res.Limits[0].Count != maxPoolShare {
		t.Errorf("granted %d of %d, want %d", len(res.Granted), res.Limits[0].Count, maxPoolShare)
	}
}

// TestAScarcePoolHasNoReserves fills a pool. When at most twice as many values are left as the reserves
// may have, all reserved values are recalled, and returned values are not granted again.
func TestAScarcePoolHasNoReserves(t *testing.T) {
	b := newBench(t)
	granted := b.wish("r1", 10).Granted
	b.fill(238 - 10 - 19) // 19 are free and 10 reserved, one more than 2 × 14
	if res := b.wish("r1", 10); len(res.Recalled) != 0 || res.Limits[0].Count != 14 {
		t.Errorf("recalled %v, limits %v, want that all stay", res.Recalled, res.Limits)
	}
	b.fill(238 - 10 - 18)
	res := b.wish("r1", 10)
	slices.SortFunc(granted, compareReserved)
	if !slices.Equal(res.Recalled, granted) || res.Limits[0].Count != 0 {
		t.Errorf("recalled %v, limits %v; want all of %v", res.Recalled, res.Limits, granted)
	}
	res = b.call(ReserveRequest{Holder: "r1", Wishes: []ReserveCount{{ipv4, 10}}, Returned: granted})
	if len(res.Granted)+len(res.Recalled) != 0 || res.Ignored != 0 {
		t.Errorf("after the return %+v", res)
	}
	b.wantStatus(210, 0, 0)
	if res := b.wish("r2", 10); len(res.Granted) != 0 {
		t.Errorf("granted %v of a scarce pool", res.Granted)
	}
}

func TestOnlyFreeValuesAreGranted(t *testing.T) {
	b := newBench(t)
	b.fill(238 - 29)
	var c Change
	for i := range 150 {
		b.table.Release(b.now, fmt.Sprint("filled", i), nil, &c)
	}
	for range 4 { // resting values make no room, too
		if res := b.wish("r1", 14); len(res.Recalled) != 0 {
			t.Fatalf("recalled %v", res.Recalled)
		}
	}
	b.wantStatus(59, 14, 150)
}

func TestSettlementsAndReturns(t *testing.T) {
	b := newBench(t)
	v := b.wish("r1", 4).Granted
	other := ReservedValue{v[3].Value, v[3].Grant + 1}
	free, _ := pool.ParseAddr("10.96.0.1")
	res := b.call(ReserveRequest{
		Holder:   "r1",
		Settled:  []Settlement{settlement(v[0], "a", true), settlement(v[1], "b", false), settlement(v[0], "z", true), settlement(other, "z", true)},
		Returned: []ReservedValue{v[2], v[2], other, {free, 1}},
	})
	if res.Settled != 2 || res.Ignored != 5 {
		t.Errorf("%d settled, %d ignored; want 2 and 5", res.Settled, res.Ignored)
	}
	for i, want := range []string{"a", "b?", "", "r1"} {
		if got := b.owner(v[i].Value); got != want {
			t.Errorf("value %d belongs to %q, want %q", i, got, want)
		}
	}
	b.wantStatus(2, 1, 0)
	if res := b.call(ReserveRequest{Holder: "r2", Settled: []Settlement{settlement(v[3], "z", true)}, Returned: v[3:]}); res.Ignored != 2 {
		t.Errorf("values of another reserve: %+v", res)
	}
	if got := b.owner(v[3].Value); got != "r1" {
		t.Errorf("the value of r1 belongs to %q", got)
	}
	var c Change
	if n, _ := b.table.Confirm(b.now, "b", nil, &c); n != 1 || b.owner(v[1].Value) != "b" {
		t.Errorf("confirmed %d", n)
	}
}

// TestADeletedServicesValueRests deletes services before the holder has settled their values. The late
// settlement of a deleted service lets its value rest. A value that the holder has for another service,
// because the release was late, goes to that service.
func TestADeletedServicesValueRests(t *testing.T) {
	b := newBench(t)
	granted := b.wish("r1", 3).Granted
	gone, kept, unused := granted[0], granted[1], granted[2]
	var c Change
	release := func(uid string, v ReservedValue, want int) {
		t.Helper()
		if released := b.table.ReleaseReserved(b.now, uid, []pool.Value{v.Value, v.Value}, &c); len(released) != want {
			t.Errorf("released %v of %s, want %d", released, uid, want)
		}
	}
	release("a", gone, 1)
	release("b", kept, 1)
	release("c", unused, 1)
	b.wantStatus(0, 3, 0)
	res := b.call(ReserveRequest{Holder: "r1", Settled: []Settlement{settlement(gone, "a", true), settlement(kept, "another", true)}})
	if res.Ignored != 0 || len(res.Recalled) != 1 || b.owner(gone.Value) != "" || b.owner(kept.Value) != "another" {
		t.Errorf("settled: %+v; owners %q and %q", res, b.owner(gone.Value), b.owner(kept.Value))
	}
	b.wantStatus(1, 1, 1)
	b.call(ReserveRequest{Holder: "r1", Returned: res.Recalled})
	b.wantStatus(1, 0, 2)
	if got, f := b.allocate("b", gone.Value.String()); f != nil || got != gone.Value.String() {
		t.Fatalf("the resting value: %q, %v", got, f)
	}
	release("b", gone, 0) // in use, and in no reserve
}

// TestReleasedValuesAreStored releases a value of a reserve and reads a new table from the stored operations.
func TestReleasedValuesAreStored(t *testing.T) {
	b := newBench(t)
	v := b.wish("r1", 1).Granted[0]
	var c Change
	b.table.ReleaseReserved(b.now, "a", []pool.Value{v.Value}, &c)
	fresh := newBench(t)
	fresh.table.RestoreReserve(b.table.Reserves()[0])
	if err := fresh.table.Restore(b.table.values[v.Value].toStore(time.Time{})); err != nil {
		t.Fatal(err)
	}
	fresh.call(ReserveRequest{Holder: "r1", Settled: []Settlement{settlement(v, "a", true)}})
	fresh.wantStatus(0, 0, 1)
}

// TestLostAnswers loses the answer of a call, and then delivers a call after a later one.
func TestLostAnswers(t *testing.T) {
	b := newBench(t)
	wishes := []ReserveCount{{ipv4, 3}}
	first := b.call(ReserveRequest{Holder: "r1", Call: 1, Wishes: wishes}).Granted
	lost := b.call(ReserveRequest{Holder: "r1", Call: 2, Received: 1, Wishes: []ReserveCount{{ipv4, 5}}}).Granted
	if len(first) != 3 || len(lost) != 2 || lost[0].Grant != 2 {
		t.Fatalf("granted %v and %v", first, lost)
	}
	again := b.call(ReserveRequest{Holder: "r1", Call: 3, Received: 1, Wishes: []ReserveCount{{ipv4, 5}}}).Granted
	if len(again) != 2 || again[0].Grant != 3 {
		t.Errorf("granted %v after a lost answer, want 2 under grant 3", again)
	}
	b.wantStatus(0, 5, 0)
	var c Change
	for _, late := range []uint64{2, 3} {
		_, err := b.table.Reserve(b.now, ReserveRequest{Holder: "r1", Call: late, Received: 1, Returned: first, Wishes: wishes}, &c)
		if !errors.Is(err, ErrOvertaken) {
			t.Errorf("call %d after call 3: %v", late, err)
		}
	}
	if len(c.steps) != 0 {
		t.Errorf("calls that were refused changed %v", c.steps)
	}
	if res := b.call(ReserveRequest{Holder: "r1", Call: 4, Received: 3}); len(res.Granted)+len(res.Recalled) != 0 {
		t.Errorf("a call without wishes: %+v", res)
	}
	b.wantStatus(0, 5, 0)
}

// TestARequestedValueIsRecalled requests exactly a value that is in a reserve.
func TestARequestedValueIsRecalled(t *testing.T) {
	b := newBench(t)
	v := b.wish("r1", 3).Granted
	text := v[1].Value.String()
	_, f := b.allocate("a", text)
	if f == nil || !f.IsAtHand() || f.Recall != v[1].Value || !strings.Contains(f.Message, text+" is at hand at a registry") {
		t.Fatalf("failure %+v, want that it is at hand", f)
	}
	var c Change
	b.table.Recall(b.now, f.Recall, &c)
	b.table.Recall(b.now, f.Recall, &c)
	b.table.Recall(b.now, pool.PortValue(80), &c)
	if len(c.Batch().Writes) != 1 {
		t.Errorf("recalled by %v, want one write", c.Batch().Writes)
	}
	for range 2 {
		if res := b.wish("r1", 3); !slices.Equal(res.Recalled, v[1:2]) {
			t.Fatalf("recalled %v, want %v", res.Recalled, v[1:2])
		}
	}
	res := b.call(ReserveRequest{Holder: "r1", Returned: v[1:2], Wishes: []ReserveCount{{ipv4, 14}}})
	if slices.ContainsFunc(res.Granted, func(g ReservedValue) bool { return g.Value == v[1].Value }) || len(res.Granted) != 12 {
		t.Errorf("granted %v, want 12 without the recalled one", res.Granted)
	}
	if got, f := b.allocate("a", text); f != nil || got != text {
		t.Errorf("after the return: %q, %v", got, f)
	}
}

// TestFullOrAtHand fills a pool: as long as values are in a reserve it is not full.
func TestFullOrAtHand(t *testing.T) {
	b := newBench(t)
	v := b.wish("r1", 2).Granted
	b.fill(252)
	_, f := b.allocate("late", "")
	if f == nil || !f.IsAtHand() || f.Message != `no value is free, and registries that have not returned them have 2 at hand: pool "ips" (10.96.0.0/24): 252 of 254 values are in use and 2 at hand; try again` {
		t.Fatalf("failure %+v", f)
	}
	b.call(ReserveRequest{Holder: "r1", Returned: v[:1], Settled: []Settlement{settlement(v[1], "a", true)}})
	if got, f := b.allocate("late", ""); f != nil || got != v[0].Value.String() {
		t.Fatalf("got %q, %v; want the returned value", got, f)
	}
	_, f = b.allocate("later", "")
	const want = `range is full: pool "ips" (10.96.0.0/24): all 254 values are in use, 16 of the static band and 238 of the dynamic band`
	if f == nil || f.Reason != allocatorv1.FailureReason_FAILURE_REASON_FULL || f.Message != want {
		t.Errorf("failure %+v, want %q", f, want)
	}
}

func TestOtherFailuresComeBeforeValuesAtHand(t *testing.T) {
	b := newBench(t)
	v := b.wish("r1", 1).Granted[0]
	var c Change
	_, failures := b.table.Allocate(b.now, store.Owner{UID: "a"}, []ClaimRequest{
		{Slot: "one", Use: allocatorv1.Use_USE_CLUSTER_IP, Value: v.Value.String()},
		{Slot: "two", Use: allocatorv1.Use_USE_CLUSTER_IP, Value: "192.0.2.1"},
	}, &c)
	if len(failures) != 1 || failures[0].Slot != "two" {
		t.Errorf("failures %v, want that of slot two only", failures)
	}
}

func TestClosing(t *testing.T) {
	b := newBench(t)
	v := b.wish("r1", 4).Granted
	var c Change
	ownerOf := func(value pool.Value) (store.Owner, string, bool) {
		return store.Owner{UID: "a", Kind: "Service"}, "ip", value == v[2].Value
	}
	if !b.table.CloseReserve(b.now, "r1", ownerOf, &c) || b.table.CloseReserve(b.now, "r1", ownerOf, &c) {
		t.Error("a reserve is closed once")
	}
	for i, want := range []string{"", "", "a", ""} {
		if got := b.owner(v[i].Value); got != want {
			t.Errorf("value %d belongs to %q, want %q", i, got, want)
		}
	}
	b.wantStatus(1, 0, 3)
	if _, err := b.table.Reserve(b.now, ReserveRequest{Holder: "r1"}, &c); !errors.Is(err, ErrNoReserve) {
		t.Errorf("a call of a closed reserve: %v", err)
	}
	res, err := b.table.Reserve(b.now, ReserveRequest{Holder: "r1", Close: true, Returned: v[:1], Settled: []Settlement{settlement(v[1], "z", true)}}, &c)
	if err != nil || res.Ignored != 2 {
		t.Errorf("closed again: %+v, %v", res, err)
	}

	w := b.wish("r2", 3).Granted
	b.call(ReserveRequest{Holder: "r2", Close: true, Returned: w[:1], Settled: []Settlement{settlement(w[1], "b", true)}})
	if got := b.table.Reserves(); len(got) != 0 || b.owner(w[1].Value) != "b" {
		t.Errorf("after a clean end there are the reserves %v, and the settled value belongs to %q", got, b.owner(w[1].Value))
	}
	b.wantStatus(2, 0, 4) // the value that was neither settled nor returned rests
}

func TestRenewalIsWrittenSeldom(t *testing.T) {
	b := newBench(t)
	b.wish("r1", 1)
	begun := b.now
	for _, c := range []struct {
		after time.Duration
		want  time.Duration
	}{{Lease/3 - time.Millisecond, 0}, {Lease / 3, Lease / 3}, {-time.Hour, -time.Hour}} { // the clock may go back
		b.now = begun.Add(c.after)
		b.wish("r1", 1)
		if got := b.table.Reserves()[0].Renewed.Sub(begun); got != c.want {
			t.Errorf("called after %s, renewed after %s, want %s", c.after, got, c.want)
		}
	}
}

// TestDrainingPoolsGetTheirValuesBack checks that reserves return the values of a draining pool.
func TestDrainingPoolsGetTheirValuesBack(t *testing.T) {
	b := newBench(t,
		store.Pool{Name: "new", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "10.97.0.0/24", State: allocatorv1.PoolState_POOL_STATE_DRAINING, Band: 16},
		store.Pool{Name: "old", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "10.96.0.0/24", State: allocatorv1.PoolState_POOL_STATE_ACTIVE, Band: 16},
	)
	old := b.wish("r1", 3).Granted
	setState := func(name string, state allocatorv1.PoolState) {
		p := b.table.pool(name).Pool
		p.State = state
		if err := b.table.PutPool(p, b.now); err != nil {
			t.Fatal(err)
		}
	}
	setState("new", allocatorv1.PoolState_POOL_STATE_ACTIVE)
	setState("old", allocatorv1.PoolState_POOL_STATE_DRAINING)
	res := b.wish("r1", 2)
	slices.SortFunc(old, compareReserved)
	if !slices.Equal(res.Recalled, old) || len(res.Granted) != 2 || b.table.values[res.Granted[0].Value].pool != "new" {
		t.Errorf("recalled %v, granted %v; want the old ones recalled, and 2 of the new pool", res.Recalled, res.Granted)
	}
	small, _ := pool.Parse("10.96.0.0/30")
	if got := b.table.ReservedOutside("old", small); len(got) != 3 {
		t.Errorf("outside of %s are %v", small, got)
	}
	if got := b.table.ReservedOutside("old", b.table.pool("old").values.Space()); len(got) != 0 {
		t.Errorf("outside of the pool's range are %v", got)
	}
	if got := b.table.ReservedOutside("old", pool.Space{}); len(got) != 3 {
		t.Errorf("outside of nothing are %v", got)
	}
}

// TestOneGrantForBothFamilies checks that a call which wishes values of two families has one grant, so
// that the next call of the holder is not taken for a late one.
func TestOneGrantForBothFamilies(t *testing.T) {
	pool := func(name, text string) store.Pool {
		return store.Pool{Name: name, Use: allocatorv1.Use_USE_CLUSTER_IP, Range: text, State: allocatorv1.PoolState_POOL_STATE_ACTIVE}
	}
	b := newBench(t, pool("four", "10.96.0.0/24"), pool("six", "fd00::/112"))
	wishes := []ReserveCount{{ipv4, 3}, {ipv6, 3}}
	for call := range uint64(3) {
		for i := range wishes {
			wishes[i].Count++
		}
		granted := b.call(ReserveRequest{Holder: "r1", Call: call + 1, Received: call, Wishes: wishes}).Granted
		for _, v := range granted {
			if v.Grant != call+1 {
				t.Errorf("call %d: %v", call+1, granted)
			}
		}
	}
}
