package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

const (
	put     = registryv1.ChangeType_CHANGE_TYPE_PUT
	removal = registryv1.ChangeType_CHANGE_TYPE_DELETE
)

// timeout limits every wait of a test. It is far longer than anything takes.
const timeout = 60 * time.Second

// Opened is a store with the function behind its committer. With this function the suite chooses
// the batches itself, while Submit is not used.
type Opened struct {
	store.Store
	Commit store.Commit
}

// Location is the location of the data of one test. It starts empty.
type Location struct {
	// Open opens a store on the place. The test closes it.
	Open func(t testing.TB) Opened
	// Replicas is set if several stores may be open at once.
	Replicas bool
}

// Run runs the whole suite, its tests in parallel. newPlace is called once for every test, never
// concurrently.
func Run(t *testing.T, newPlace func(t *testing.T) Location) {
	for _, test := range []struct {
		name string
		run  func(t *testing.T, place Location)
	}{
		{"Outcomes", testOutcomes},
		{"InvalidOps", testInvalidOps},
		{"Batches", testBatches},
		{"ManyWrites", testManyWrites},
		{"ManyWritesCancelled", testManyWritesCancelled},
		{"ManyWritesAtOnce", testManyWritesAtOnce},
		{"SharedObjects", testSharedObjects},
		{"Contents", testContents},
		{"Fencing", testFencing},
		{"ConcurrentWriters", testConcurrentWriters},
		{"Races", testRaces},
		{"Contention", testContention},
		{"FencingUnderLoad", testFencingUnderLoad},
		{"Cancellation", testCancellation},
		{"Snapshots", testSnapshots},
		{"SnapshotStandsStill", testSnapshotIsConsistent},
		{"SnapshotEnds", testSnapshotEnds},
		{"Followers", testFollowers},
		{"Changes", testChanges},
		{"Tail", testTail},
		{"DeletionWithData", testDeletionWithData},
		{"TailIsOfOneLog", testTailIsOfOneLog},
		{"Prune", testPrune},
		{"LogSize", testLogSize},
		{"Quotas", testQuotas},
		{"PruneUnderReaders", testPruneUnderReaders},
		{"Epoch", testEpoch},
		{"LogEpoch", testLogEpoch},
		{"LogEpochUnderLoad", testLogEpochUnderLoad},
		{"Restore", testRestore},
		{"RestoreRefused", testRestoreRefused},
		{"Installation", testInstallation},
		{"Lock", testLock},
		{"LockKeepsOthersOut", testLockKeepsOthersOut},
		{"CommitsWake", testCommitsWake},
		{"Reopen", testReopen},
		{"Close", testClose},
	} {
		t.Run(test.name, func(t *testing.T) {
			place := newPlace(t)
			t.Parallel()
			test.run(t, place)
		})
	}
}

// open opens a store that is closed when the test ends.
func open(t testing.TB, place Location) Opened {
	t.Helper()
	s := place.Open(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// replicas opens n stores on one place, or one if the place does not allow several.
func replicas(t testing.TB, place Location, n int) []Opened {
	t.Helper()
	if !place.Replicas {
		n = 1
	}
	var all []Opened
	for range n {
		all = append(all, open(t, place))
	}
	return all
}

func key(name string) object.Key {
	return object.Key{Kind: "Service", Namespace: "default", Name: name}
}

func create(name, uid, data string) store.Op {
	return store.Op{Action: store.Create, Key: key(name), UID: uid, Data: []byte(data)}
}

func update(name, uid string, revision uint64, data string) store.Op {
	return store.Op{Action: store.Update, Key: key(name), UID: uid, Revision: revision, Data: []byte(data)}
}

func remove(name, uid string, revision uint64) store.Op {
	return store.Op{Action: store.Delete, Key: key(name), UID: uid, Revision: revision}
}

// must submits a write and fails the test if it is refused.
func must(t testing.TB, s store.Store, op store.Op) uint64 {
	t.Helper()
	result, err := s.Submit(t.Context(), op)
	if err != nil {
		t.Fatalf("%s of %s: %v", op.Action, op.Key, err)
	}
	return result.Revision
}

func head(t testing.TB, s store.Store) store.Head {
	t.Helper()
	h, err := s.Head(t.Context())
	if err != nil {
		t.Fatalf("head: %v", err)
	}
	return h
}

// fill creates n objects and returns the newest revision.
func fill(t testing.TB, s store.Store, prefix string, n int) uint64 {
	t.Helper()
	var revision uint64
	for i := range n {
		name := fmt.Sprintf("%s%d", prefix, i)
		revision = must(t, s, create(name, "uid-"+name, "data of "+name))
	}
	return revision
}

func waitFor(ctx context.Context, wake <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	select {
	case <-wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
