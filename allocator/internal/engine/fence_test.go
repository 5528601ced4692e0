package engine

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/kittest"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/sqlite"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// log is a model of the registry: its objects with their values, its Leases, and the epoch of its log.
type log struct {
	objects map[string]pool.Value // by UID
	leases  map[string]bool
	epoch   int
}

func (l log) clone() log {
	return log{maps.Clone(l.objects), maps.Clone(l.leases), l.epoch}
}

// commit is a write of an object that may still land.
type commit struct {
	uid   string
	value pool.Value
	lease string
	epoch int
}

// process is a model of a registry process.
type process struct {
	holder         string
	call, received uint64
	epoch          int // of the log, as the allocator told it last
	stock          []allocation.ReservedValue
	returned       []allocation.ReservedValue // not to be used any more
	settled        []allocation.Settlement    // not acknowledged yet
	last           allocation.ReserveRequest  // the last call, which may arrive again
}

// world is an allocator with registries around it.
type world struct {
	*rapid.T
	t        *testing.T
	dir      string
	now      time.Time
	engine   *Engine
	store    store.Store
	adopted  int // epoch of the log for which values are adopted
	log      log
	backup   *log
	flying   []commit
	running  []*process
	ended    []string // holders without Lease
	names    int
	copied   bool // there is a copy of the store
	refusals int  // commits that the fence or the epoch refused
}

const useIP = allocatorv1.Use_USE_CLUSTER_IP

func (w *world) file() string { return filepath.Join(w.dir, "a.db") }

// open opens the store and adopts, as every start does.
func (w *world) open() {
	st, err := sqlite.Open(w.t.Context(), w.file())
	if err != nil {
		w.Fatal(err)
	}
	e, err := New(w.t.Context(), Config{
		Store: st, Log: kittest.Logger(w.t), Metrics: prometheus.NewRegistry(), Rest: 20 * time.Second, Now: func() time.Time { return w.now },
	})
	if err != nil {
		w.Fatal(err)
	}
	w.engine, w.store = e, st
}

func (w *world) close() {
	w.engine.Close()
	if err := w.store.Close(); err != nil {
		w.Fatal(err)
	}
}

// ownerOf is the OwnerOf of the registry's objects.
func (w *world) ownerOf(value pool.Value) (store.Owner, string, bool) {
	for uid, has := range w.log.objects {
		if has == value {
			return owner(uid), "ip", true
		}
	}
	return store.Owner{}, "", false
}

func owner(uid string) store.Owner { return store.Owner{UID: uid, Kind: "Service", Name: uid} }

// adopt closes all reserves and allocates the values of the objects to them, as the verifier does.
func (w *world) adopt() {
	holders := slices.Collect(maps.Keys(w.log.leases))
	for _, r := range w.engine.Reserves() {
		holders = append(holders, r.Holder)
	}
	for _, h := range holders {
		delete(w.log.leases, h)
	}
	w.closeReserves(holders)
	for uid, value := range w.log.objects {
		if w.engine.Owns(uid, value) {
			continue
		}
		set := Set{Owner: owner(uid), Requests: []allocation.ClaimRequest{{Slot: "ip", Use: useIP, Value: value.String(), Repair: true}}}
		seen, _ := w.engine.AllocationOf(value) // of an object that is gone
		r, err := w.engine.Replace(w.t.Context(), seen, set)
		if err != nil || len(r.Failures) > 0 {
			w.Fatalf("%s of %s is not adopted: %v, %v", value, uid, r, err)
		}
		w.confirm(uid)
	}
	w.adopted = w.log.epoch
}

func (w *world) closeReserves(holders []string) {
	if _, err := w.engine.CloseReserves(w.t.Context(), holders, w.ownerOf); err != nil {
		w.Fatal(err)
	}
	w.ended = slices.DeleteFunc(w.ended, func(h string) bool { return slices.Contains(holders, h) })
}

func (w *world) allocate(uid, value string) (pool.Value, *allocation.Failure) {
	results, err := w.engine.Allocate(w.t.Context(), []Set{{Owner: owner(uid), Requests: []allocation.ClaimRequest{{Slot: "ip", Use: useIP, Value: value}}}}, false)
	if err != nil {
		w.Fatal(err)
	}
	if len(results[0].Failures) > 0 {
		return pool.Value{}, &results[0].Failures[0]
	}
	return results[0].Results[0].Value, nil
}

func (w *world) confirm(uid string) {
	if _, _, err := w.engine.Confirm(w.t.Context(), []OwnerSlots{{UID: uid}}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) release(uid string, values ...pool.Value) {
	if _, err := w.engine.Release(w.t.Context(), []OwnerSlots{{UID: uid, Values: values}}); err != nil {
		w.Fatal(err)
	}
}

// name returns a name that was never used.
func (w *world) name(prefix string) string {
	w.names++
	return fmt.Sprint(prefix, w.names)
}

// land stores an object if the fence and the epoch of the commit hold. It fails the test if another
// object has the value.
func (w *world) land(c commit) bool {
	if !w.log.leases[c.lease] || c.epoch != w.log.epoch {
		w.refusals++
		return false
	}
	if other, _, taken := w.ownerOf(c.value); taken {
		w.Fatalf("%s is stored in %s and in %s", c.value, other.UID, c.uid)
	}
	w.log.objects[c.uid] = c.value
	return true
}

// pick draws one of the running processes; there is none if it returns nil.
func (w *world) pick(rt *rapid.T) *process {
	if len(w.running) == 0 {
		return nil
	}
	return rapid.SampledFrom(w.running).Draw(rt, "process")
}

// start begins a reserve with a new Lease.
func (w *world) start() {
	p := &process{holder: w.name("portolan-reserve-"), epoch: w.adopted}
	w.log.leases[p.holder] = true
	w.running = append(w.running, p)
}

// restartReserve lets a process drop its stock and begin a new reserve, after a commit was refused.
func (w *world) restartReserve(p *process) {
	*p = process{holder: w.name("portolan-reserve-"), epoch: w.adopted}
	w.log.leases[p.holder] = true
}

// createFromStock creates an object with a value of the stock. The outcome is known, or the process
// does not learn it and the commit may land later.
func (w *world) createFromStock(rt *rapid.T) {
	p := w.pick(rt)
	if p == nil || len(p.stock) == 0 {
		return
	}
	v := p.stock[0]
	p.stock = p.stock[1:]
	c := commit{w.name("o"), v.Value, p.holder, p.epoch}
	s := allocation.Settlement{ReservedValue: v, Owner: owner(c.uid), Slot: "ip"}
	if rapid.Bool().Draw(rt, "lost") {
		w.flying = append(w.flying, c)
		p.settled = append(p.settled, s)
		return
	}
	if !w.land(c) {
		w.restartReserve(p)
		return
	}
	s.Confirmed = true
	p.settled = append(p.settled, s)
}

// createExactly creates an object with a value that the allocator is asked for.
func (w *world) createExactly(rt *rapid.T) {
	p := w.pick(rt)
	if p == nil {
		return
	}
	uid, wish := w.name("o"), ""
	if reserved := drawReserved(rt, w.engine); len(reserved) > 0 && rapid.Bool().Draw(rt, "wished") {
		wish = reserved[0].Value.String()
	}
	epoch := w.adopted
	value, f := w.allocate(uid, wish)
	status := w.engine.Pools()[0]
	switch {
	case f == nil:
	case f.Reason == allocatorv1.FailureReason_FAILURE_REASON_FULL && (status.Used != status.Size || status.Reserved > 0):
		w.Fatalf("%q with %+v", f.Message, status)
	case f.IsAtHand() && status.Reserved == 0:
		w.Fatalf("%q with %+v", f.Message, status)
	}
	if f != nil {
		return
	}
	c := commit{uid, value, p.holder, epoch}
	switch {
	case rapid.Bool().Draw(rt, "lost"):
		w.flying = append(w.flying, c)
	case w.land(c):
		w.confirm(uid)
	default:
		w.release(uid)
		w.restartReserve(p)
	}
}

// callReserve sends a call; the answer may be lost, and the call may arrive twice.
func (w *world) callReserve(rt *rapid.T) {
	p := w.pick(rt)
	if p == nil {
		return
	}
	p.call++
	back := min(len(p.stock), rapid.IntRange(0, 2).Draw(rt, "back"))
	p.returned = append(p.returned, p.stock[:back]...)
	p.stock = p.stock[back:]
	p.last = allocation.ReserveRequest{
		Holder: p.holder, Call: p.call, Received: p.received, Settled: slices.Clone(p.settled), Returned: slices.Clone(p.returned),
		Wishes: []allocation.ReserveCount{{Family: corev1.IPFamily_IP_FAMILY_IPV4, Count: rapid.Uint64Range(0, 8).Draw(rt, "wish")}},
	}
	res, err := w.serve(p.last)
	switch {
	case errors.Is(err, allocation.ErrNoReserve):
		w.restartReserve(p)
	case err != nil:
		w.Fatal(err)
	case rapid.IntRange(0, 3).Draw(rt, "answer") == 0:
	default:
		w.accept(p, res)
	}
}

// serve serves a call as the API does: an unknown reserve begins if its Lease exists.
func (w *world) serve(req allocation.ReserveRequest) (allocation.ReserveResult, error) {
	res, err := w.engine.Reserve(w.t.Context(), req)
	if errors.Is(err, allocation.ErrNoReserve) && w.log.leases[req.Holder] {
		req.Begin = true
		return w.engine.Reserve(w.t.Context(), req)
	}
	return res, err
}

// accept lets a process learn the answer to its last call.
func (w *world) accept(p *process, res allocation.ReserveResult) {
	p.settled, p.returned, p.epoch = nil, nil, w.adopted
	p.stock = append(p.stock, res.Granted...)
	if len(res.Granted) > 0 {
		p.received = res.Granted[0].Grant
	}
	p.stock = slices.DeleteFunc(p.stock, func(v allocation.ReservedValue) bool {
		recalled := slices.Contains(res.Recalled, v)
		if recalled {
			p.returned = append(p.returned, v)
		}
		return recalled
	})
}

// repeatCall lets the last call of a process arrive once more, after its successors perhaps.
func (w *world) repeatCall(rt *rapid.T) {
	p := w.pick(rt)
	if p == nil || p.last.Holder == "" {
		return
	}
	_, err := w.serve(p.last)
	if err != nil && !errors.Is(err, allocation.ErrOvertaken) && !errors.Is(err, allocation.ErrNoReserve) {
		w.Fatal(err)
	}
}

// deleteObject deletes an object. The release may be lost.
func (w *world) deleteObject(rt *rapid.T) {
	if len(w.log.objects) == 0 {
		return
	}
	uid := rapid.SampledFrom(slices.Sorted(maps.Keys(w.log.objects))).Draw(rt, "object")
	value := w.log.objects[uid]
	delete(w.log.objects, uid)
	if rapid.Bool().Draw(rt, "released") {
		w.release(uid, value)
	}
}

// verify confirms and releases allocations, as the verifier does after the grace.
func (w *world) verify() {
	for _, h := range w.engine.Allocations() {
		at, _, stored := w.ownerOf(h.Value)
		flying := slices.ContainsFunc(w.flying, func(c commit) bool { return c.uid == h.Owner.UID })
		switch {
		case h.Owner.Kind == store.KindReserve && stored:
			s := allocation.Settlement{ReservedValue: allocation.ReservedValue{Value: h.Value, Grant: h.Grant}, Owner: at, Slot: "ip", Confirmed: true}
			if _, err := w.engine.Settle(w.t.Context(), []HolderSettlement{{h.Owner.UID, s}}); err != nil {
				w.Fatal(err)
			}
		case h.Owner.Kind == store.KindReserve:
		case stored && at.UID == h.Owner.UID:
			w.confirm(h.Owner.UID)
		case !flying:
			if _, err := w.engine.Reclaim(w.t.Context(), []allocation.Allocation{h}); err != nil {
				w.Fatal(err)
			}
		}
	}
}

// endLease deletes the Lease of one of the reserves.
func (w *world) endLease(rt *rapid.T) {
	if all := w.engine.Reserves(); len(all) > 0 {
		holder := rapid.SampledFrom(all).Draw(rt, "reserve").Holder
		delete(w.log.leases, holder)
		w.ended = append(w.ended, holder)
	}
}

// copyFile copies the database.
func (w *world) copyFile(from, to string) {
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// finish ends everything, and checks that no value is lost: as many are in use as there are objects.
func (w *world) finish() {
	for _, c := range w.flying {
		w.land(c)
	}
	w.flying, w.running = nil, nil
	w.adopt()
	w.verify()
	w.now = w.now.Add(time.Hour)
	if s := w.engine.Pools()[0]; s.Used != uint64(len(w.log.objects)) || s.Reserved != 0 || s.Resting != 0 || len(w.engine.Reserves()) != 0 {
		w.Fatalf("in the end %+v, with %d objects", s, len(w.log.objects))
	}
	for uid, value := range w.log.objects {
		if !w.engine.Owns(uid, value) {
			w.Fatalf("%s does not own its %s", uid, value)
		}
	}
}

// setFlag sets a flag until the test ends.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	before := flag.Lookup(name).Value.String()
	if err := flag.Set(name, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := flag.Set(name, before); err != nil {
			t.Error(err)
		}
	})
}

// TestNoValueHasTwoObjects lets registries with reserves, crashes, lost calls and answers, deletions,
// restarts, and old copies of the allocator's store and of the registry follow each other at random.
// A commit succeeds only if its Lease exists and the log has its epoch. No two objects may have the
// same value, "full" must be true, and in the end every value that no object has must be free.
func TestNoValueHasTwoObjects(t *testing.T) {
	setFlag(t, "rapid.steps", "150")
	dir, refusals := t.TempDir(), 0
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		w := &world{T: rt, t: t, dir: filepath.Join(dir, fmt.Sprint(runs)), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), log: log{map[string]pool.Value{}, map[string]bool{}, 1}}
		w.open()
		defer func() { w.close() }()
		if _, err := w.engine.CreatePool(t.Context(), store.Pool{Name: "ips", Use: useIP, Range: rapid.SampledFrom([]string{"10.96.0.0/27", "10.96.0.0/26"}).Draw(rt, "range"), Band: 1}); err != nil {
			rt.Fatal(err)
		}
		w.adopt()
		reopen := func(before func()) {
			w.close()
			before()
			w.open()
			w.adopt()
		}
		each := func(action func(*rapid.T)) func(*rapid.T) {
			return func(rt *rapid.T) { w.T = rt; action(rt) }
		}
		do := func(action func()) func(*rapid.T) { return each(func(*rapid.T) { action() }) }
		seldom := func(action func()) func(*rapid.T) {
			return each(func(rt *rapid.T) {
				if rapid.SampledFrom([]bool{false, false, false, false, false, true}).Draw(rt, "now") {
					action()
				}
			})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"start a process": do(func() {
				if len(w.running) < 3 {
					w.start()
				}
			}),
			"crash of a process": each(func(rt *rapid.T) {
				if p := w.pick(rt); p != nil && rapid.Bool().Draw(rt, "now") {
					w.running = slices.DeleteFunc(w.running, func(q *process) bool { return q == p })
				}
			}),
			"call": each(w.callReserve), "call again": each(w.callReserve), "repeat a call": each(w.repeatCall),
			"create": each(w.createFromStock), "create another": each(w.createFromStock), "create exactly": each(w.createExactly),
			"create many": each(func(rt *rapid.T) {
				for range 15 {
					w.createExactly(rt)
				}
			}),
			"land": each(func(rt *rapid.T) {
				if n := len(w.flying); n > 0 {
					at := rapid.IntRange(0, n-1).Draw(rt, "commit")
					w.land(w.flying[at])
					w.flying = slices.Delete(w.flying, at, at+1)
				}
			}),
			"lose commits": seldom(func() { w.flying = nil }),
			"delete":       each(w.deleteObject), "delete another": each(w.deleteObject), "verify": do(w.verify), "end a lease": each(w.endLease),
			"close":         do(func() { w.closeReserves(slices.Clone(w.ended)) }),
			"close another": do(func() { w.closeReserves(slices.Clone(w.ended)) }),
			"wait":          do(func() { w.now = w.now.Add(25 * time.Second) }),
			"restart":       seldom(func() { reopen(func() {}) }),
			"copy of store": seldom(func() { reopen(func() { w.copyFile(w.file(), w.file()+".old"); w.copied = true }) }),
			"old store": seldom(func() {
				if w.copied {
					reopen(func() { w.copyFile(w.file()+".old", w.file()) })
				}
			}),
			"backup of the registry": seldom(func() { copied := w.log.clone(); w.backup = &copied }),
			"old registry": seldom(func() {
				if w.backup != nil {
					epoch := w.log.epoch + 1
					w.log = w.backup.clone()
					w.log.epoch = epoch
				}
			}),
			"adopt": do(func() {
				if w.adopted != w.log.epoch {
					w.adopt()
				}
			}),
		})
		w.T = rt
		w.finish()
		refusals += w.refusals
	})
	if refusals == 0 {
		t.Error("no commit was refused, so that the test proves nothing")
	}
}
