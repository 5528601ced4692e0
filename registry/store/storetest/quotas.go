package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// account is the account of the suite's charges.
var account = store.Account{Owner: "suite", Resource: "objects"}

// Usage counts the objects in the log, which must not be pruned. The stores of the suite are opened
// with it.
func Usage(head store.Head, accounts []store.Account, since func(after uint64) ([]store.Record, error)) (map[store.Account]int, error) {
	records, err := since(0)
	if err != nil {
		return nil, err
	}
	if uint64(len(records)) != head.Revision {
		return nil, fmt.Errorf("%d records lead to revision %d", len(records), head.Revision)
	}
	present := map[object.Key]bool{}
	for _, r := range records {
		present[r.Key] = r.Type == put
		if r.Type == removal {
			delete(present, r.Key)
		}
	}
	used := map[store.Account]int{}
	for _, a := range accounts {
		used[a] = len(present)
	}
	return used, nil
}

// charged returns the operation with a charge.
func charged(op store.Op, amount, limit int) store.Op {
	op.Charges = []store.Charge{{Account: account, Amount: amount, Limit: limit}}
	return op
}

// testQuotas lets writers of all replicas create more objects than an account allows, among writes
// without charges, and then frees one place.
func testQuotas(t *testing.T, place Location) {
	all := replicas(t, place, 2)
	const limit, writers = 10, 60
	revisions := make([]uint64, writers)
	var wg sync.WaitGroup
	for n := range writers {
		wg.Go(func() {
			name := fmt.Sprint("o", n)
			result, err := all[n%len(all)].Submit(t.Context(), charged(create(name, name, "data"), 1, limit))
			over, refused := errors.AsType[*store.QuotaError](err)
			switch {
			case err == nil:
				revisions[n] = result.Revision
			case !refused || over.Used != limit || over.Charge.Limit != limit || over.Charge.Account != account:
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	stored, some := 0, 0
	for n, revision := range revisions {
		if revision != 0 {
			stored, some = stored+1, n
		}
	}
	if stored != limit {
		t.Fatalf("%d objects were stored, want %d", stored, limit)
	}
	// One batch frees a place and takes it again, and another write in it finds no place.
	name := fmt.Sprint("o", some)
	outcomes := all[0].Commit(t.Context(), []store.Op{
		charged(remove(name, name, revisions[some]), -1, limit),
		charged(create("next", "next", "data"), 1, limit),
		charged(create("too many", "too many", "data"), 1, limit),
		create("free of charge", "free of charge", "data"),
	})
	if outcomes[0].Err != nil || outcomes[1].Err != nil || outcomes[3].Err != nil {
		t.Errorf("a place that was freed: %+v", outcomes)
	}
	if _, refused := errors.AsType[*store.QuotaError](outcomes[2].Err); !refused {
		t.Errorf("a write beyond the limit in the same batch: %v", outcomes[2].Err)
	}
	if _, err := CheckInvariants(t.Context(), all[0]); err != nil {
		t.Error(err)
	}
}
