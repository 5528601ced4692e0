package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"portolan.dev/registry/store"
)

// inLog returns the operation with an epoch of the log.
func inLog(op store.Op, epoch string) store.Op {
	op.LogEpoch = epoch
	return op
}

// testLogEpoch writes under the epoch of the log, which one replica changes in two ways while the
// others do not know of it.
func testLogEpoch(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	first, last := all[0], all[len(all)-1]
	old := head(t, first).Epoch
	expect := func(what string, s store.Store, epoch, have string) {
		t.Helper()
		_, err := s.Submit(t.Context(), inLog(create("refused", "1", "x"), epoch))
		refusal, ok := errors.AsType[*store.EpochError](err)
		if !ok || refusal.Want != epoch || refusal.Have != have {
			t.Errorf("%s: %v, want it refused in epoch %s", what, err, have)
		}
	}
	must(t, first, inLog(create("a", "1", "x"), old))
	expect("an epoch that never was", first, "another", old)

	renewed, err := last.NewEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expect("the former epoch", first, old, renewed.Epoch)
	must(t, first, inLog(create("b", "1", "x"), renewed.Epoch))

	err = last.Restore(t.Context(), head(t, last).Revision, 1, rowsOf(nil))
	if err != nil {
		t.Fatal(err)
	}
	restored := head(t, last)
	expect("the epoch before the restore", first, renewed.Epoch, restored.Epoch)
	at := must(t, first, inLog(create("c", "1", "x"), restored.Epoch))

	// In a batch, each operation has its own outcome, also if the batch names several epochs.
	outcomes := first.Commit(t.Context(), []store.Op{
		inLog(create("d", "1", "x"), restored.Epoch), inLog(create("e", "1", "x"), old), create("f", "1", "x"), inLog(update("c", "1", at, "y"), restored.Epoch),
	})
	for i, want := range []string{"", "epoch", "", ""} {
		if got := describe(outcomes[i].Err); got != want {
			t.Errorf("operation %d: %q, want %q", i, got, want)
		}
	}
	if _, found := outcomes[1].Err.(*store.EpochError); !found { //nolint:errorlint // the store returns it unwrapped
		t.Errorf("the error is %v", outcomes[1].Err)
	}
}

// testLogEpochUnderLoad changes the epoch while writers of all replicas write under the former one.
// No write under an epoch may have a revision after its end.
func testLogEpochUnderLoad(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	const epochs = 10
	var current atomic.Pointer[string]
	begin := head(t, all[0]).Epoch
	current.Store(&begin)
	var mu sync.Mutex
	newest := map[string]uint64{} // newest revision that was acknowledged under an epoch
	var over atomic.Bool
	wrote := make(chan struct{}, 4)
	var wg sync.WaitGroup
	for writer := range 8 {
		s := all[writer%len(all)]
		wg.Go(func() {
			for i := 0; !over.Load(); i++ {
				epoch := *current.Load()
				result, err := s.Submit(t.Context(), inLog(create(fmt.Sprintf("o%d-%d", writer, i), "uid", "x"), epoch))
				if problem := describe(err); problem == "epoch" {
					continue
				} else if problem != "" {
					t.Errorf("write: %v", err)
				}
				mu.Lock()
				newest[epoch] = max(newest[epoch], result.Revision)
				mu.Unlock()
				select {
				case wrote <- struct{}{}:
				default:
				}
			}
		})
	}
	defer wg.Wait()
	defer over.Store(true)
	ends := map[string]uint64{}
	for range epochs {
		former := *current.Load()
		next, err := all[len(all)-1].NewEpoch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ends[former] = next.Revision
		current.Store(&next.Epoch)
		for range 2 * cap(wrote) { // the epoch ends only after it was used
			if err := waitFor(t.Context(), wrote); err != nil {
				t.Fatalf("no writes under the epoch: %v", err)
			}
		}
	}
	over.Store(true)
	wg.Wait()
	for epoch, end := range ends {
		if newest[epoch] > end {
			t.Errorf("revision %d was written under an epoch that ended at revision %d", newest[epoch], end)
		}
	}
	if _, err := CheckInvariants(t.Context(), all[0]); err != nil {
		t.Error(err)
	}
}
