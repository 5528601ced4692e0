package changes

import (
	"slices"
	"strings"
	"sync"
	"unique"

	"portolan.dev/services/object"
)

// Change is what became of one object. Objects are shared with the follower's view and with everybody else who got them: do not change them.
type Change struct {
	// Revision of the change. In a snapshot: of the object's last change, or for deletions the snapshot's.
	Revision uint64
	Kind     string
	Key      object.Key
	// Old is the object before, nil if it was created.
	Old object.Object
	// New is the object after, nil if it was deleted.
	New object.Object
	// Traceparent is the W3C traceparent of the commit; empty in a snapshot, and where nobody traced it.
	Traceparent string
}

// View is the objects of the followed kinds as the follower knows them. It is safe for concurrent use; within Apply it has exactly the state
// after the batch that Apply is given.
type View struct {
	versionsOnly bool

	mu    sync.RWMutex
	kinds map[string]map[object.Key]object.Object
	seals seals
}

func newView(versionsOnly bool) *View {
	return &View{versionsOnly: versionsOnly, kinds: map[string]map[object.Key]object.Object{}}
}

// kept is what the view keeps of an object.
func (v *View) kept(o object.Object) object.Object {
	if !v.versionsOnly {
		return o
	}
	meta := o.GetMetadata()
	version, _ := o.ProtoReflect().New().Interface().(object.Object) // of the same kind
	kept := object.MetaOf(version)
	// Copies: texts that point into the objects of a large snapshot would keep the memory around them from being used again.
	kept.Namespace, kept.Name = unique.Make(meta.GetNamespace()).Value(), strings.Clone(meta.GetName())
	kept.Uid, kept.ResourceVersion = strings.Clone(meta.GetUid()), meta.GetResourceVersion()
	return version
}

// Get returns an object, nil if there is none.
func (v *View) Get(key object.Key) object.Object {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.kinds[key.Kind][key]
}

// List returns all objects of a kind in no particular order.
func (v *View) List(kind string) []object.Object {
	v.mu.RLock()
	defer v.mu.RUnlock()
	all := make([]object.Object, 0, len(v.kinds[kind]))
	for _, o := range v.kinds[kind] {
		all = append(all, o)
	}
	return all
}

// put stores an object and returns what was there before.
func (v *View) put(key object.Key, o object.Object) (old object.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	objects := v.kinds[key.Kind]
	if objects == nil {
		objects = map[object.Key]object.Object{}
		v.kinds[key.Kind] = objects
	}
	old = objects[key]
	kept := v.kept(o)
	key.Namespace, key.Name = kept.GetMetadata().GetNamespace(), kept.GetMetadata().GetName()
	objects[key] = kept
	v.seals.check(old)
	v.seals.set(kept)
	return old
}

// remove takes an object out and returns it.
func (v *View) remove(key object.Key) (old object.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old = v.kinds[key.Kind][key]
	delete(v.kinds[key.Kind], key)
	v.seals.check(old)
	return old
}

// replace makes the view equal to a snapshot and returns what that changed: objects in the snapshot's order, then what is gone. An object that
// is the same is no change, though it may have been read anew. Versions tell objects apart within one epoch only.
func (v *View) replace(snapshot []object.Object, revision uint64, sameEpoch bool) []Change {
	var diff []Change
	seen := make(map[object.Key]struct{}, len(snapshot))
	for _, o := range snapshot {
		key := object.KeyOf(o)
		seen[key] = struct{}{}
		old := v.Get(key)
		if old != nil && (sameEpoch || !v.versionsOnly) && object.Equal(old, v.kept(o)) {
			continue
		}
		v.put(key, o)
		diff = append(diff, Change{Revision: o.GetMetadata().GetResourceVersion(), Kind: key.Kind, Key: key, Old: old, New: o})
	}
	for _, key := range v.except(seen) {
		diff = append(diff, Change{Revision: revision, Kind: key.Kind, Key: key, Old: v.remove(key)})
	}
	return diff
}

// except returns the keys that are not in seen, in order.
func (v *View) except(seen map[object.Key]struct{}) []object.Key {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var gone []object.Key
	for _, objects := range v.kinds {
		for key := range objects {
			if _, ok := seen[key]; !ok {
				gone = append(gone, key)
			}
		}
	}
	slices.SortFunc(gone, object.Compare)
	return gone
}
