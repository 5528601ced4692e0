package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Open returns an empty store that is closed when the test ends.
type Open func(t *testing.T) store.Store

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, store.Store)
	}{
		{"pools", testPools},
		{"a value has one owner", testOneOwner},
		{"claims", testClaims},
		{"all or nothing", testAtomic},
		{"one of many takers", testRace},
		{"list", testList},
		{"forget", testDeleteExpired},
		{"reserves", testReserves},
		{"reserves and values together", testReservesAtomic},
		{"positions", testPositions},
		{"restore", testRestore},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

var (
	t0   = time.UnixMilli(1_700_000_000_000)
	a, b = store.Owner{UID: "a", Kind: "Service", Namespace: "ns", Name: "x"}, store.Owner{UID: "b"}
	v1   = pool.PortValue(30001)
	v2   = pool.PortValue(30002)
)

func ports(name string) store.Pool {
	return store.Pool{Name: name, Use: allocatorv1.Use_USE_NODE_PORT, Range: "30000-30099", State: allocatorv1.PoolState_POOL_STATE_ACTIVE, Band: 16}
}

// allocate returns a Write that gives a free value to an owner.
func allocate(v pool.Value, o store.Owner, claims ...store.Claim) store.Write {
	return store.Write{Allocation: store.Allocation{Value: v, Pool: "ports", Owner: o, Claims: claims}}
}

// keep returns a Write that changes the claims of the owner that has the value.
func keep(v pool.Value, o store.Owner, claims ...store.Claim) store.Write {
	p := allocate(v, o, claims...)
	p.ExpectedOwner = o.UID
	return p
}

// rest returns a Write that ends the use of a value by its owner.
func rest(v pool.Value, o store.Owner, at time.Time) store.Write {
	p := keep(v, o)
	p.Released = at
	return p
}

func claim(slot string, confirmed bool, since time.Time) store.Claim {
	return store.Claim{Slot: slot, Confirmed: confirmed, Since: since}
}

// position returns the present position of a store.
func position(t *testing.T, s store.Store) (at store.Position) {
	t.Helper()
	if err := s.Snapshot(t.Context(), func(content store.Snapshot) error {
		at = content.Position
		return nil
	}); err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	return at
}

// try stores a batch without regard to the present state.
func try(t *testing.T, s store.Store, b store.Batch) error {
	t.Helper()
	_, err := s.Transact(t.Context(), position(t, s), func(store.News) (store.Batch, error) { return b, nil })
	return err
}

func applyBatch(t *testing.T, s store.Store, b store.Batch) {
	t.Helper()
	if err := try(t, s, b); err != nil {
		t.Fatalf("Transact: %v", err)
	}
}

func apply(t *testing.T, s store.Store, puts ...store.Write) {
	t.Helper()
	applyBatch(t, s, store.Batch{Writes: puts})
}

func putPool(p store.Pool) store.Batch {
	return store.Batch{Pools: []store.PoolWrite{{Pool: p}}}
}

func removePool(name string) store.Batch {
	return store.Batch{Pools: []store.PoolWrite{{Pool: store.Pool{Name: name}, Removed: true}}}
}

// want checks all allocations in text form.
func want(t *testing.T, s store.Store, lines ...string) {
	t.Helper()
	var got []string
	err := s.Snapshot(t.Context(), func(content store.Snapshot) error {
		for h, err := range content.Allocations {
			if err != nil {
				return err
			}
			got = append(got, text(h))
		}
		return nil
	})
	slices.Sort(got)
	if err != nil || !slices.Equal(got, lines) {
		t.Errorf("holdings %q (%v), want %q", got, err, lines)
	}
}

func text(h store.Allocation) string {
	line := fmt.Sprint(h.Value, " ", h.Pool, " ", h.Owner.UID)
	if !h.Released.IsZero() {
		line += fmt.Sprint(" released+", h.Released.Sub(t0).Milliseconds())
	}
	for _, c := range h.Claims {
		line += fmt.Sprint(" ", c.Slot, "=", c.Confirmed, "+", c.Since.Sub(t0).Milliseconds())
	}
	return line
}

func wantPools(t *testing.T, s store.Store, want ...store.Pool) {
	t.Helper()
	var got []store.Pool
	err := s.Snapshot(t.Context(), func(content store.Snapshot) error {
		got = content.Pools
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("pools %v (%v), want %v", got, err, want)
	}
}

func testPools(t *testing.T, s store.Store) {
	large := store.Pool{Name: "a-large", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "fd00::/64", State: allocatorv1.PoolState_POOL_STATE_DRAINING, Band: 256}
	split := ports("split")
	split.PerProtocol = true
	careful := store.Pool{Name: "b-careful", Use: allocatorv1.Use_USE_LOAD_BALANCER_IP, Range: "198.18.0.0/16", State: allocatorv1.PoolState_POOL_STATE_ACTIVE, AvoidBuggyIPs: true}
	applyBatch(t, s, putPool(ports("ports")))
	applyBatch(t, s, putPool(split))
	applyBatch(t, s, putPool(careful))
	applyBatch(t, s, putPool(large))
	large.State = allocatorv1.PoolState_POOL_STATE_RETIRED
	applyBatch(t, s, putPool(large))
	wantPools(t, s, large, careful, ports("ports"), split)
	apply(t, s, allocate(v1, a))
	if err := try(t, s, removePool("ports")); !errors.Is(err, store.ErrPoolInUse) {
		t.Errorf("remove a pool in use: %v", err)
	}
	want(t, s, "30001 ports a")
	apply(t, s, rest(v1, a, t0))
	applyBatch(t, s, removePool("ports"))
	if err := try(t, s, removePool("ports")); !errors.Is(err, store.ErrPoolInUse) {
		t.Errorf("remove a pool that does not exist: %v", err)
	}
	wantPools(t, s, large, careful, split)
	want(t, s)
}

func testOneOwner(t *testing.T, s store.Store) {
	prepare(t, s)
	apply(t, s, allocate(v1, a))
	apply(t, s, keep(v1, a))
	for what, p := range map[string]store.Write{
		"take of what another has": allocate(v1, b), "take of what it has": allocate(v1, a), "claim on what another has": keep(v1, b, claim("x", true, t0)),
		"release of what another has": rest(v1, b, t0),
	} {
		var conflict *store.ConflictError
		if err := try(t, s, store.Batch{Writes: []store.Write{p}}); !errors.As(err, &conflict) || conflict.Value != v1 {
			t.Errorf("%s: %v", what, err)
		}
	}
	want(t, s, "30001 ports a")
	apply(t, s, rest(v1, a, t0.Add(time.Second)))
	want(t, s, "30001 ports a released+1000")
	apply(t, s, allocate(v1, b))
	want(t, s, "30001 ports b")
	handed := allocate(v1, a)
	handed.ExpectedOwner = b.UID
	apply(t, s, handed)
	want(t, s, "30001 ports a")
}

func testClaims(t *testing.T, s store.Store) {
	prepare(t, s)
	apply(t, s, allocate(v1, a, claim("x", false, t0), claim("y", false, t0)), allocate(v2, b, claim(`"<ü>`, true, t0)))
	want(t, s, "30001 ports a x=false+0 y=false+0", `30002 ports b "<ü>=true+0`)
	apply(t, s, keep(v1, a, claim("x", true, t0.Add(time.Millisecond))))
	want(t, s, "30001 ports a x=true+1", `30002 ports b "<ü>=true+0`)
	apply(t, s, rest(v1, a, t0))
	want(t, s, "30001 ports a released+0", `30002 ports b "<ü>=true+0`)
}

func testAtomic(t *testing.T, s store.Store) {
	prepare(t, s)
	apply(t, s, allocate(v2, b))
	if err := try(t, s, store.Batch{Writes: []store.Write{allocate(v1, a, claim("x", false, t0)), allocate(v2, a)}}); err == nil {
		t.Error("a conflict was applied")
	}
	want(t, s, "30002 ports b")
	at := position(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := s.Transact(ctx, at, func(store.News) (store.Batch, error) {
		cancel()
		return store.Batch{Writes: []store.Write{allocate(v1, a)}}, nil
	})
	if err == nil {
		t.Error("applied although canceled")
	}
	want(t, s, "30002 ports b")
	refused := errors.New("no")
	if _, err := s.Transact(t.Context(), position(t, s), func(store.News) (store.Batch, error) {
		return store.Batch{Writes: []store.Write{allocate(v1, a)}}, refused
	}); !errors.Is(err, refused) {
		t.Errorf("the decision's error became %v", err)
	}
	want(t, s, "30002 ports b")
	apply(t, s)
}

func testRace(t *testing.T, s store.Store) {
	prepare(t, s)
	var (
		wg  sync.WaitGroup
		won atomic.Int32
	)
	for i := range 8 {
		wg.Go(func() {
			var conflict *store.ConflictError
			err := store.ErrOutdated
			for errors.Is(err, store.ErrOutdated) {
				err = try(t, s, store.Batch{Writes: []store.Write{allocate(v1, store.Owner{UID: fmt.Sprint(i)})}})
			}
			switch {
			case err == nil:
				won.Add(1)
			case !errors.As(err, &conflict):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d owners of one value", won.Load())
	}
}

func testList(t *testing.T, s store.Store) {
	prepare(t, s)
	applyBatch(t, s, putPool(store.Pool{Name: "ips", Use: allocatorv1.Use_USE_CLUSTER_IP, Range: "10.0.0.0/16"}))
	for i, ip := range []string{"10.0.0.200", "10.0.1.1", "10.0.0.3"} {
		v, _ := pool.ParseAddr(ip)
		o := []store.Owner{a, b}[i%2]
		p := allocate(v, o, claim("one", false, t0), claim("two", false, t0))
		p.Pool = "ips"
		apply(t, s, p)
	}
	apply(t, s, allocate(v1, a))
	const three, far, more = "10.0.0.3 ips a one=false+0 two=false+0", "10.0.0.200 ips a one=false+0 two=false+0", "10.0.1.1 ips b one=false+0 two=false+0"
	middle, _ := pool.ParseAddr("10.0.0.100")
	for _, c := range []struct {
		query store.Query
		want  []string
	}{
		{store.Query{Limit: 9}, []string{three, far, more, "30001 ports a"}},
		{store.Query{Limit: 2}, []string{three, far}},
		{store.Query{Limit: 9, AfterPool: "ips", AfterValue: middle}, []string{far, more, "30001 ports a"}},
		{store.Query{Limit: 9, Pool: "ips", AfterPool: "ips", AfterValue: middle}, []string{far, more}},
		{store.Query{Limit: 9, Pool: "none"}, nil},
	} {
		found, err := s.List(t.Context(), c.query)
		var got []string
		for _, h := range found {
			got = append(got, text(h))
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("List(%+v) = %q, %v; want %q", c.query, got, err, c.want)
		}
	}
}

func testDeleteExpired(t *testing.T, s store.Store) {
	prepare(t, s)
	apply(t, s, allocate(v1, a), allocate(v2, a), allocate(pool.PortValue(30003), a))
	apply(t, s, rest(v1, a, t0), rest(v2, a, t0.Add(time.Minute)))
	if err := s.DeleteExpired(t.Context(), t0.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	want(t, s, "30002 ports a released+60000", "30003 ports a")
}

func prepare(t *testing.T, s store.Store) {
	t.Helper()
	applyBatch(t, s, putPool(ports("ports")))
}
