package store_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

func TestAnObjectComesBackWithItsRevision(t *testing.T) {
	for _, kind := range kinds.All {
		o := kind.New()
		meta := object.MetaOf(o)
		meta.Name, meta.Uid, meta.ResourceVersion = "a", "uid", 7
		meta.Labels = map[string]string{"k": "v"}
		data, err := store.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		if meta.ResourceVersion != 7 {
			t.Errorf("%s: Encode left resource_version %d", kind.Name, meta.ResourceVersion)
		}
		raw, err := store.Decode(kind.Name, data, 0)
		if err != nil || raw.GetMetadata().GetResourceVersion() != 0 {
			t.Errorf("%s: stored with resource_version %d, %v", kind.Name, raw.GetMetadata().GetResourceVersion(), err)
		}
		back, err := store.Decode(kind.Name, data, 9)
		meta.ResourceVersion = 9
		if err != nil || !object.Equal(back, o) {
			t.Errorf("%s came back as %v, %v", kind.Name, back, err)
		}
		if _, err := store.Decode(kind.Name, []byte{0xff}, 1); err == nil {
			t.Errorf("%s: garbage was decoded", kind.Name)
		}
	}
	if _, err := store.Decode("Nothing", nil, 1); err == nil {
		t.Error("an unknown kind was decoded")
	}
}

func TestAWakerWakesAllWhoWaitedBefore(t *testing.T) {
	var w store.Waker
	w.Notify() // without a waiter
	first, second := w.Wake(), w.Wake()
	w.Notify()
	for _, wake := range []<-chan struct{}{first, second} {
		select {
		case <-wake:
		default:
			t.Error("not woken")
		}
	}
	select {
	case <-w.Wake():
		t.Error("woken by what was before")
	default:
	}
}

func TestRecentCommits(t *testing.T) {
	var recent store.RecentLog
	records := func(from, n uint64, size int) (all []store.Record) {
		for i := range n {
			all = append(all, store.Record{Revision: from + i, Data: make([]byte, size)})
		}
		return all
	}
	tail := func(epoch string, after uint64, limit int) (revisions []uint64) {
		found, _ := recent.Tail(epoch, after, limit)
		for _, r := range found {
			revisions = append(revisions, r.Revision)
		}
		return revisions
	}
	check := func(what string, got []uint64, want ...uint64) {
		t.Helper()
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	check("nothing was committed", tail("", 0, 9))
	recent.Committed(store.Head{Epoch: "a", Revision: 6}, records(5, 2, 1))
	recent.Committed(store.Head{Epoch: "a", Revision: 8}, records(7, 2, 1))
	check("all", tail("a", 4, 9), 5, 6, 7, 8)
	check("some", tail("", 5, 2), 6, 7)
	check("before it", tail("a", 3, 9))
	check("at its end", tail("a", 8, 9))
	check("beyond it", tail("a", 1<<60, 9))
	check("another epoch", tail("b", 4, 9))
	recent.Observe(store.Head{Epoch: "a", Revision: 8})
	check("still the head", tail("a", 7, 9), 8)
	recent.Committed(store.Head{Epoch: "a", Revision: 10}, records(10, 1, 1))
	check("before a gap", tail("a", 7, 9))
	check("after a gap", tail("a", 9, 9), 10)
	recent.Committed(store.Head{Epoch: "b", Revision: 11}, records(11, 1, 1))
	check("before another epoch", tail("", 9, 9))
	check("another epoch's own", tail("b", 10, 9), 11)
	recent.Observe(store.Head{Epoch: "b", Revision: 12})
	check("others were there", tail("b", 10, 9))
	for i := range uint64(30) {
		recent.Committed(store.Head{Epoch: "b", Revision: 21 + i}, records(21+i, 1, 1<<20))
	}
	check("much, and its end is kept", tail("b", 49, 9), 50)
	if kept := tail("b", 46, 99); len(kept) != 4 || tail("b", 25, 99) != nil {
		t.Errorf("of 30 MB there is %v", kept)
	}
}

// TestAnObjectOfTheTailIsDecodedOnce checks that all followers of the tail share each decoded
// object.
func TestAnObjectOfTheTailIsDecodedOnce(t *testing.T) {
	data, err := store.Encode(&corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n", Uid: "uid"}})
	if err != nil {
		t.Fatal(err)
	}
	key := object.Key{Kind: "Node", Name: "n"}
	var recent store.RecentLog
	recent.Committed(store.Head{Epoch: "a", Revision: 8}, []store.Record{
		{Revision: 7, Key: key, Data: data}, {Revision: 8, Key: key, Data: []byte{0xff}},
	})
	var shared object.Object
	for range 2 {
		found, _ := recent.Tail("a", 6, 9)
		o, err := found[0].Object()
		if err != nil || o.GetMetadata().GetName() != "n" || o.GetMetadata().GetResourceVersion() != 7 {
			t.Fatalf("the object of revision 7 is %v, %v", o, err)
		}
		if shared != nil && o != shared {
			t.Error("it was decoded again")
		}
		shared = o
		if o, err := found[1].Object(); err == nil {
			t.Errorf("garbage was decoded as %v", o)
		}
	}
	alone := store.Record{Revision: 9, Key: key, Data: data}
	if o, err := alone.Object(); err != nil || o.GetMetadata().GetResourceVersion() != 9 || o == shared {
		t.Errorf("the object of another record is %v, %v", o, err)
	}
}

// TestTheLongestKey checks that every database accepts a key of 1024 bytes, and that a longer key
// is refused before it reaches the database.
func TestTheLongestKey(t *testing.T) {
	op := store.Op{Action: store.Create, UID: "uid", Data: []byte("x")}
	op.Key = object.Key{Kind: "Node", Namespace: "default", Name: strings.Repeat("n", 1024-len("Nodedefault"))}
	if err := op.Check(); err != nil {
		t.Errorf("a key of 1024 bytes: %v", err)
	}
	op.Key.Name += "n"
	if err := op.Check(); err == nil {
		t.Error("a key of 1025 bytes is accepted")
	}
}
