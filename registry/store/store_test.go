package store_test

import (
	"testing"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

func TestAnObjectComesBackWithItsRevision(t *testing.T) {
	for _, kind := range object.Kinds {
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
	w.Moved() // nobody waits
	first, second := w.Wake(), w.Wake()
	w.Moved()
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
