package storetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// testContention lets many writers on all replicas compete for a few objects. It compares every
// success with the version that the object had in the log just before it.
func testContention(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	const writers, each, objects = 24, 60, 4
	var mu sync.Mutex
	done := map[uint64]store.Op{} // by revision
	latest := map[string]uint64{} // last revision of an object that a writer got; it is often outdated
	var wg sync.WaitGroup
	for writer := range writers {
		s := all[writer%len(all)]
		wg.Go(func() {
			for i := range each {
				name := fmt.Sprint("o", rand.IntN(objects))
				mu.Lock()
				op := randomOp(name, fmt.Sprintf("%d-%d", writer, i), latest[name])
				mu.Unlock()
				result, err := s.Submit(t.Context(), op)
				if problem := describe(err); problem != "" && problem != "exists" && problem != "not found" && problem != "conflict" {
					t.Errorf("%s of %s: %v", op.Action, op.Key, err)
				}
				mu.Lock()
				if err == nil {
					done[result.Revision] = op
					latest[name] = max(latest[name], result.Revision)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	state, err := CheckInvariants(t.Context(), all[0])
	if err != nil {
		t.Error(err)
	}
	checkBasis(t, state, done)
}

// randomOp returns a random write to an object. The writers do not know the UID of its present
// incarnation, so all incarnations have the same UID.
func randomOp(name, id string, latest uint64) store.Op {
	switch rand.IntN(6) {
	case 0:
		return create(name, "uid", "create "+id)
	case 1:
		return remove(name, "", 0)
	case 2:
		return remove(name, "uid", latest)
	case 3:
		return update(name, "uid", 0, "update "+id)
	default:
		return update(name, "uid", latest, "update "+id)
	}
}

// checkBasis compares the log with the acknowledged writes, which must be the same.
func checkBasis(t *testing.T, state State, done map[uint64]store.Op) {
	if len(done) != len(state.Log) {
		t.Errorf("%d writes were acknowledged, %d are in the log", len(done), len(state.Log))
	}
	present := map[object.Key]uint64{}
	for _, r := range state.Log {
		op, known := done[r.Revision]
		have, exists := present[r.Key]
		switch {
		case !known || op.Key != r.Key || (op.Action == store.Delete) != (r.Type == removal) || op.Action != store.Delete && string(op.Data) != string(r.Data):
			t.Errorf("revision %d is not what its writer was told: %+v", r.Revision, op)
		case exists != (op.Action != store.Create):
			t.Errorf("revision %d: a %s where exists was %v", r.Revision, op.Action, exists)
		case op.Revision != 0 && op.Revision != have:
			t.Errorf("revision %d, based on %d, came upon %d", r.Revision, op.Revision, have)
		}
		if present[r.Key] = r.Revision; r.Type == removal {
			delete(present, r.Key)
		}
	}
}

// testFencingUnderLoad passes a lease on while its holders write on all replicas. In the log, every
// write must be under the epoch that the lease had at that time.
func testFencingUnderLoad(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	lease := object.Key{Kind: "Lease", Namespace: "default", Name: "leader"}
	pass := func(action store.Action, epoch uint64) store.Op {
		return store.Op{Action: action, Key: lease, UID: "lease", Epoch: epoch, Data: fmt.Appendf(nil, "epoch %d", epoch)}
	}
	must(t, all[0], pass(store.Create, 1))
	const epochs = 30
	var current, fenced atomic.Uint64
	var over atomic.Bool
	wrote := make(chan struct{}, 4)
	current.Store(1)
	var wg sync.WaitGroup
	for writer := range 8 {
		s := all[writer%len(all)]
		wg.Go(func() {
			for i := 0; !over.Load(); i++ {
				epoch := current.Load()
				op := create(fmt.Sprintf("o%d-%d", writer, i), fmt.Sprint(epoch), "x") // the UID is the epoch
				op.Fence = &store.Fence{Lease: lease, Epoch: epoch}
				_, err := s.Submit(t.Context(), op)
				if _, refused := errors.AsType[*store.Fenced](err); refused {
					fenced.Add(1)
					continue
				} else if err != nil {
					t.Errorf("%s: %v", op.Key, err)
				}
				select {
				case wrote <- struct{}{}:
				default:
				}
			}
		})
	}
	defer wg.Wait()
	defer over.Store(true)
	for epoch := uint64(2); epoch <= epochs; epoch++ {
		must(t, all[len(all)-1], pass(store.Update, epoch))
		current.Store(epoch)
		for range 2 * cap(wrote) { // the lease is passed on only after it was used
			if err := waitFor(t.Context(), wrote); err != nil {
				t.Fatalf("no writes under epoch %d: %v", epoch, err)
			}
		}
	}
	over.Store(true)
	wg.Wait()
	state, err := CheckInvariants(t.Context(), all[0])
	if err != nil {
		t.Error(err)
	}
	epoch := ""
	for _, r := range state.Log {
		if r.Key == lease {
			epoch = string(r.Data)
		} else if "epoch "+r.UID != epoch {
			t.Errorf("revision %d was written under epoch %s, the lease was at %s", r.Revision, r.UID, epoch)
		}
	}
	t.Logf("%d writes, %d fenced", len(state.Log)-epochs, fenced.Load())
}
