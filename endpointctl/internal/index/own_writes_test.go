package index

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

var web = object.Name{Namespace: "x", Name: "web"}

func slice(name, uid string, revision uint64, managedBy string) *corev1.EndpointSlice {
	return &corev1.EndpointSlice{Metadata: &corev1.ObjectMeta{
		Namespace: "x", Name: name, Uid: uid, ResourceVersion: revision,
		Labels: map[string]string{object.LabelServiceName: "web", object.LabelManagedBy: managedBy},
	}}
}

func endpoints(uid string, revision uint64) *corev1.Endpoints {
	return &corev1.Endpoints{Metadata: &corev1.ObjectMeta{Namespace: "x", Name: "web", Uid: uid, ResourceVersion: revision}}
}

// applyStreamed applies one streamed change, and reports whether it affects the service web.
func applyStreamed(x *Index, revision uint64, old, now object.Object) bool {
	c := changes.Change{Revision: revision, Old: old, New: now}
	for _, o := range []object.Object{old, now} {
		if o != nil {
			c.Kind, c.Key = object.KindOf(o), object.KeyOf(o)
		}
	}
	return x.Apply([]changes.Change{c}, revision)[web] > 0
}

// versions describes the objects read for the service web: "slice s u1@5" is version 5 of uid u1.
func versions(x *Index) []string {
	known := x.Read(web)
	var all []string
	for _, s := range known.Slices {
		all = append(all, fmt.Sprintf("slice %s %s@%d", s.GetMetadata().GetName(), s.GetMetadata().GetUid(), s.GetMetadata().GetResourceVersion()))
	}
	if e := known.Endpoints; e != nil {
		all = append(all, fmt.Sprintf("endpoints %s@%d", e.GetMetadata().GetUid(), e.GetMetadata().GetResourceVersion()))
	}
	slices.Sort(all)
	return all
}

// checkObjects checks the objects read, and whether the last change affected the service.
func checkObjects(t *testing.T, x *Index, after string, got, concerned bool, want ...string) {
	t.Helper()
	if known := versions(x); got != concerned || !slices.Equal(known, want) {
		t.Errorf("after %s: concerns the service: %v, want %v; known are %q, want %q", after, got, concerned, known, want)
	}
}

func TestOwnWritesAreKnownAtOnceAndTheirEchoConcernsNobody(t *testing.T) {
	x := New(nil)
	by := object.ManagedByController
	v5, v7, v9 := slice("s", "u1", 5, by), slice("s", "u1", 7, by), slice("s", "u1", 9, by)
	x.RecordWrite(v5)
	checkObjects(t, x, "a create", false, false, "slice s u1@5")
	x.RecordWrite(v7)
	checkObjects(t, x, "the create's echo", applyStreamed(x, 5, nil, v5), false, "slice s u1@7")
	checkObjects(t, x, "the update's echo", applyStreamed(x, 7, v5, v7), false, "slice s u1@7")
	checkObjects(t, x, "somebody else's change", applyStreamed(x, 9, v7, v9), true, "slice s u1@9")
	x.RecordDeletion(v9)
	checkObjects(t, x, "a delete", false, false)
	checkObjects(t, x, "a change by others before the delete", applyStreamed(x, 10, v9, slice("s", "u1", 10, by)), false)
	checkObjects(t, x, "the delete's echo", applyStreamed(x, 11, slice("s", "u1", 10, by), nil), false)
	another := slice("s", "u2", 12, by)
	checkObjects(t, x, "another slice of the same name", applyStreamed(x, 12, nil, another), true, "slice s u2@12")
	checkObjects(t, x, "a slice that is not ours", applyStreamed(x, 13, nil, slice("t", "u3", 13, "me")), false, "slice s u2@12")
	checkObjects(t, x, "somebody deletes ours", applyStreamed(x, 14, another, nil), true)
	if len(x.ownWrites) != 0 {
		t.Errorf("%v is noted still", x.ownWrites)
	}
}

func TestOwnWritesOfEndpoints(t *testing.T) {
	x := New(nil)
	v1, v2, other := endpoints("u", 1), endpoints("u", 2), endpoints("v", 5)
	x.RecordWrite(v1)
	x.RecordWrite(v2)
	checkObjects(t, x, "the create's echo", applyStreamed(x, 1, nil, v1), false, "endpoints u@2")
	checkObjects(t, x, "the update's echo", applyStreamed(x, 2, v1, v2), false, "endpoints u@2")
	x.RecordDeletion(v2)
	checkObjects(t, x, "the delete's echo", applyStreamed(x, 3, v2, nil), false)
	checkObjects(t, x, "somebody's Endpoints", applyStreamed(x, 5, nil, other), true, "endpoints v@5")
	x.RecordWrite(endpoints("w", 8)) // another client deleted its Endpoints
	checkObjects(t, x, "a deletion that the write came after", applyStreamed(x, 7, other, nil), false, "endpoints w@8")
	checkObjects(t, x, "the create's echo", applyStreamed(x, 8, nil, endpoints("w", 8)), false, "endpoints w@8")
	checkObjects(t, x, "their deletion", applyStreamed(x, 9, endpoints("w", 8), nil), true)
	if known := x.Keys(func(object.Name) bool { return true }); len(known) != 0 {
		t.Errorf("known are %v", known)
	}
}

func TestAWriteThatTheStreamHasPassedCountsNoMore(t *testing.T) {
	x := New(nil)
	created, e := slice("s", "u1", 5, object.ManagedByController), endpoints("u2", 7)
	applyStreamed(x, 5, nil, created)
	applyStreamed(x, 6, created, nil) // by the garbage collector
	applyStreamed(x, 7, nil, e)
	applyStreamed(x, 8, e, nil)
	x.RecordWrite(created)
	x.RecordWrite(e)
	checkObjects(t, x, "answers that the stream was faster than", false, false)
	x.RecordDeletion(created)
	if len(x.ownWrites) != 0 {
		t.Errorf("%v is noted", x.ownWrites)
	}
}

func TestWhatTheRegistryDoesNotFindIsKnownNoMore(t *testing.T) {
	x := New(nil)
	created := slice("s", "u1", 5, object.ManagedByController)
	x.RecordWrite(created)
	x.RecordDeletion(created) // an update returned NotFound
	checkObjects(t, x, "the answer", false, false)
	x.Apply(nil, 9) // a snapshot without the create and the delete
	checkObjects(t, x, "the snapshot", false, false)
	if len(x.ownWrites) != 0 {
		t.Errorf("%v is noted still", x.ownWrites)
	}
}

func TestALogThatIsSetBackEndsTheNotes(t *testing.T) {
	x := New(nil)
	x.Apply(nil, 100)
	x.RecordWrite(slice("s", "u1", 101, object.ManagedByController))
	x.Apply(nil, 50) // a backup was restored
	checkObjects(t, x, "the log is set back", false, false)
}

// TestTheIndexEndsWithWhatTheStreamSays checks the invariant of the package for any order of
// changes and responses.
func TestTheIndexEndsWithWhatTheStreamSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, r := New(nil), &laggingRegistry{objects: map[string]*corev1.EndpointSlice{}}
		sliceNames := rapid.SampledFrom([]string{"s", "t"})
		t.Repeat(map[string]func(*rapid.T){
			"write by the controller": func(t *rapid.T) {
				if written := r.put(sliceNames.Draw(t, "name")); rapid.Bool().Draw(t, "answered at once") {
					x.RecordWrite(written)
				} else {
					r.pendingResponses = append(r.pendingResponses, func() { x.RecordWrite(written) })
				}
			},
			"delete by the controller": func(t *rapid.T) {
				if deleted := r.remove(sliceNames.Draw(t, "name")); deleted != nil {
					x.RecordDeletion(deleted)
				}
			},
			"write by others":  func(t *rapid.T) { r.put(sliceNames.Draw(t, "name")) },
			"delete by others": func(t *rapid.T) { r.remove(sliceNames.Draw(t, "name")) },
			"the stream brings changes": func(t *rapid.T) {
				r.deliver(x, rapid.IntRange(0, len(r.log)).Draw(t, "changes"))
			},
		})
		for _, answer := range r.pendingResponses {
			answer()
		}
		r.deliver(x, len(r.log))
		for _, answer := range r.pendingResponses { // late responses change nothing
			answer()
		}
		var want []string
		for name, s := range r.objects {
			want = append(want, fmt.Sprintf("slice %s %s@%d", name, s.GetMetadata().GetUid(), s.GetMetadata().GetResourceVersion()))
		}
		slices.Sort(want)
		if got := versions(x); !slices.Equal(got, want) || len(x.ownWrites) != 0 {
			t.Fatalf("known are %q, want %q; noted are %v", got, want, slices.Collect(maps.Keys(x.ownWrites)))
		}
	})
}

// laggingRegistry stores slices. The stream delivers their changes later.
type laggingRegistry struct {
	revision         uint64
	objects          map[string]*corev1.EndpointSlice
	log              []changes.Change // not delivered yet
	pendingResponses []func()
}

func (r *laggingRegistry) put(name string) *corev1.EndpointSlice {
	r.revision++
	old := r.objects[name]
	uid := old.GetMetadata().GetUid()
	if old == nil {
		uid = fmt.Sprint("u", r.revision)
	}
	now := slice(name, uid, r.revision, object.ManagedByController)
	r.objects[name] = now
	c := changes.Change{Revision: r.revision, Kind: "EndpointSlice", Key: object.KeyOf(now), New: now}
	if old != nil {
		c.Old = old
	}
	r.log = append(r.log, c)
	return now
}

func (r *laggingRegistry) remove(name string) *corev1.EndpointSlice {
	old := r.objects[name]
	if old == nil {
		return nil
	}
	r.revision++
	delete(r.objects, name)
	r.log = append(r.log, changes.Change{Revision: r.revision, Kind: "EndpointSlice", Key: object.KeyOf(old), Old: old})
	return old
}

func (r *laggingRegistry) deliver(x *Index, n int) {
	if n == 0 {
		return
	}
	x.Apply(r.log[:n], r.log[n-1].Revision)
	r.log = r.log[n:]
}
