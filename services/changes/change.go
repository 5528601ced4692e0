package changes

import (
	"slices"
	"strings"
	"sync"
	"unique"

	"portolan.dev/services/object"
)

// Change is the change of one object at one revision. Its objects are shared with the follower's
// view and other readers: do not modify them.
type Change struct {
	// Revision is the revision of the change. In a snapshot it is the revision of the object's last
	// change; for a deletion it is the snapshot's revision.
	Revision uint64
	Kind     string
	Key      object.Key
	// Old is the object before the change, nil if the change created it. If earlier changes of the object panicked in
	// Each, it is the object before the first of them.
	Old object.Object
	// New is the object after the change, nil if the change deleted it.
	New object.Object
	// Traceparent is the W3C traceparent of the commit. It is empty in a snapshot and for a commit
	// without a trace.
	Traceparent string
}

// View holds the follower's current objects of the followed kinds. It is safe for concurrent use.
// During a call of Apply it holds exactly the state after the batch that is passed to Apply.
type View struct {
	versionsOnly bool

	mu    sync.RWMutex
	kinds map[string]map[object.Key]object.Object
	seals seals
}

func newView(versionsOnly bool) *View {
	return &View{versionsOnly: versionsOnly, kinds: map[string]map[object.Key]object.Object{}}
}

// stored returns the form in which the view stores o: o itself, or only its version if versionsOnly
// is set.
func (v *View) stored(o object.Object) object.Object {
	if !v.versionsOnly {
		return o
	}
	meta := o.GetMetadata()
	// The same kind as o.
	version, _ := o.ProtoReflect().New().Interface().(object.Object)
	kept := object.MetaOf(version)
	// The strings are copied, because strings that point into the objects of a large snapshot would
	// keep all its memory in use.
	kept.Namespace, kept.Name = unique.Make(meta.GetNamespace()).Value(), strings.Clone(meta.GetName())
	kept.Uid, kept.ResourceVersion = strings.Clone(meta.GetUid()), meta.GetResourceVersion()
	return version
}

// Get returns the object with the given key, or nil if there is none.
func (v *View) Get(key object.Key) object.Object {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.kinds[key.Kind][key]
}

// List returns all objects of a kind, in no particular order.
func (v *View) List(kind string) []object.Object {
	v.mu.RLock()
	defer v.mu.RUnlock()
	all := make([]object.Object, 0, len(v.kinds[kind]))
	for _, o := range v.kinds[kind] {
		all = append(all, o)
	}
	return all
}

// put stores an object and returns the object that it replaces, or nil.
func (v *View) put(key object.Key, o object.Object) (old object.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	objects := v.kinds[key.Kind]
	if objects == nil {
		objects = map[object.Key]object.Object{}
		v.kinds[key.Kind] = objects
	}
	old = objects[key]
	kept := v.stored(o)
	key.Namespace, key.Name = kept.GetMetadata().GetNamespace(), kept.GetMetadata().GetName()
	objects[key] = kept
	v.seals.check(old)
	v.seals.set(kept)
	return old
}

// remove removes an object and returns it, or nil if there was none.
func (v *View) remove(key object.Key) (old object.Object) {
	v.mu.Lock()
	defer v.mu.Unlock()
	old = v.kinds[key.Kind][key]
	delete(v.kinds[key.Kind], key)
	v.seals.check(old)
	return old
}

// replace makes the view equal to a snapshot and returns the differences: the created and changed
// objects in the snapshot's order, then the deleted ones. An object that is equal to the stored one
// is no difference. versionsTell is set if objects with the same version are equal, which is true within
// one epoch unless a change was forged.
func (v *View) replace(snap snapshot, versionsTell bool) []Change {
	var diff []Change
	seen := make(map[object.Key]struct{}, len(snap.objects))
	for _, key := range snap.unread {
		seen[key] = struct{}{}
	}
	for _, o := range snap.objects {
		key := object.KeyOf(o)
		seen[key] = struct{}{}
		old := v.Get(key)
		if old != nil && (versionsTell || !v.versionsOnly) && object.Equal(old, v.stored(o)) {
			continue
		}
		v.put(key, o)
		diff = append(diff, Change{Revision: o.GetMetadata().GetResourceVersion(), Kind: key.Kind, Key: key, Old: old, New: o})
	}
	for _, key := range v.keysNotIn(seen) {
		diff = append(diff, Change{Revision: snap.revision, Kind: key.Kind, Key: key, Old: v.remove(key)})
	}
	return diff
}

// keysNotIn returns the keys of the view that are not in seen, sorted.
func (v *View) keysNotIn(seen map[object.Key]struct{}) []object.Key {
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
