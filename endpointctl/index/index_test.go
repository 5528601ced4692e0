package index

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/endpointctl/packing"
)

// world is what an index should know, kept naively.
type world struct {
	objects  map[object.Key]object.Object
	revision uint64
}

// change makes an object be so, or be gone, and returns what the stream says.
func (w *world) change(key object.Key, o object.Object) changes.Change {
	w.revision++
	old := w.objects[key]
	if o == nil {
		delete(w.objects, key)
	} else {
		o.GetMetadata().ResourceVersion = w.revision
		w.objects[key] = o
	}
	return changes.Change{Revision: w.revision, Kind: key.Kind, Key: key, Old: old, New: o}
}

// selecting returns the services that select a pod.
func (w *world) selecting(pod *corev1.Pod, found map[Key]bool) {
	for _, o := range w.objects {
		svc, ok := o.(*corev1.Service)
		if ok && svc.GetMetadata().GetNamespace() == pod.GetMetadata().GetNamespace() && spec.MatchEquality(svc.GetSpec().GetSelector(), pod.GetMetadata().GetLabels()) {
			found[KeyOf(svc)] = true
		}
	}
}

var (
	namespaces = rapid.SampledFrom([]string{"x", "y"})
	names      = rapid.SampledFrom([]string{"a", "b", "c"})
	labels     = rapid.MapOfN(rapid.SampledFrom([]string{"app", "tier", "zone"}), rapid.SampledFrom([]string{"1", "2"}), 0, 3)
	nodeNames  = rapid.SampledFrom([]string{"", "n1", "n2"})
)

func meta(t *rapid.T) *corev1.ObjectMeta {
	return &corev1.ObjectMeta{Namespace: namespaces.Draw(t, "namespace"), Name: names.Draw(t, "name"), Labels: labels.Draw(t, "labels")}
}

func TestAChangeConcernsItsOwnServices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, w := New(), &world{objects: map[object.Key]object.Object{}}
		apply := func(t *rapid.T, o object.Object, expect func(old, now object.Object, found map[Key]bool)) {
			key := object.KeyOf(o)
			if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				o = nil
				if w.objects[key] == nil {
					return
				}
			}
			want := map[Key]bool{}
			c := w.change(key, o)
			expect(c.Old, c.New, want)
			if got := x.Apply([]changes.Change{c}); !maps.Equal(got, want) {
				t.Fatalf("%v concerns %v, want %v", c, got, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"pod": func(t *rapid.T) {
				pod := &corev1.Pod{Metadata: meta(t), Spec: &corev1.PodSpec{NodeName: nodeNames.Draw(t, "node")}}
				apply(t, pod, func(old, now object.Object, found map[Key]bool) {
					for _, o := range []object.Object{old, now} {
						if p, ok := o.(*corev1.Pod); ok {
							w.selecting(p, found)
						}
					}
				})
			},
			"service": func(t *rapid.T) {
				svc := &corev1.Service{Metadata: meta(t), Spec: &corev1.ServiceSpec{Selector: labels.Draw(t, "selector")}}
				apply(t, svc, func(_, _ object.Object, found map[Key]bool) { found[KeyOf(svc)] = true })
			},
			"node": func(t *rapid.T) {
				node := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "name")}}
				node.Metadata.Labels = map[string]string{packing.LabelZone: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"), "noise": names.Draw(t, "noise")}
				apply(t, node, func(old, now object.Object, found map[Key]bool) {
					before, was := old.(*corev1.Node)
					after, is := now.(*corev1.Node)
					if was && is && packing.NodeOf(before) == packing.NodeOf(after) {
						return
					}
					for _, o := range w.objects {
						if pod, ok := o.(*corev1.Pod); ok && pod.GetSpec().GetNodeName() == node.GetMetadata().GetName() {
							w.selecting(pod, found)
						}
					}
				})
			},
			"": func(t *rapid.T) { checkRead(t, x, w) },
		})
	})
}

// checkRead compares what is read of every service with what there is.
func checkRead(t *rapid.T, x *Index, w *world) {
	services, pods := 0, 0
	for _, o := range w.objects {
		switch o := o.(type) {
		case *corev1.Pod:
			pods++
		case *corev1.Service:
			services++
			known := x.Read(KeyOf(o))
			var want []string
			for _, other := range w.objects {
				pod, ok := other.(*corev1.Pod)
				if ok && pod.GetMetadata().GetNamespace() == o.GetMetadata().GetNamespace() && spec.MatchEquality(o.GetSpec().GetSelector(), pod.GetMetadata().GetLabels()) {
					want = append(want, pod.GetMetadata().GetName())
				}
			}
			slices.Sort(want)
			var got []string
			for _, pod := range known.Pods {
				got = append(got, pod.GetMetadata().GetName())
				_, have := w.objects[object.Key{Kind: "Node", Name: pod.GetSpec().GetNodeName()}]
				if _, found := known.FindNode(pod.GetSpec().GetNodeName()); found != have {
					t.Fatalf("node %q of %s: found %v, want %v", pod.GetSpec().GetNodeName(), pod.GetMetadata().GetName(), found, have)
				}
			}
			if known.Service != o || !slices.Equal(got, want) {
				t.Fatalf("service %v has pods %v, want %v", o, got, want)
			}
		}
	}
	if s, p := x.Count(); s != services || p != pods {
		t.Fatalf("counted %d services and %d pods, want %d and %d", s, p, services, pods)
	}
}

func slice(name, uid string, revision uint64, managedBy string) *corev1.EndpointSlice {
	return &corev1.EndpointSlice{Metadata: &corev1.ObjectMeta{
		Namespace: "x", Name: name, Uid: uid, ResourceVersion: revision,
		Labels: map[string]string{packing.LabelServiceName: "web", packing.LabelManagedBy: managedBy},
	}}
}

func TestOwnWritesAreKnownAtOnceAndTheirEchoConcernsNobody(t *testing.T) {
	x, web := New(), Key{"x", "web"}
	stream := func(old, now *corev1.EndpointSlice) string {
		c := changes.Change{Kind: "EndpointSlice"}
		if old != nil {
			c.Old, c.Key = old, object.KeyOf(old)
		}
		if now != nil {
			c.New, c.Key = now, object.KeyOf(now)
		}
		return fmt.Sprint(slices.Collect(maps.Keys(x.Apply([]changes.Change{c}))))
	}
	want := func(what, concerned, wantConcerned string, revisions ...uint64) {
		t.Helper()
		var got []uint64
		for _, s := range x.Read(web).Slices {
			got = append(got, s.GetMetadata().GetResourceVersion())
		}
		slices.Sort(got)
		if concerned != wantConcerned || !slices.Equal(got, revisions) {
			t.Errorf("%s: concerns %s, want %s; slices at %v, want %v", what, concerned, wantConcerned, got, revisions)
		}
	}
	const nobody, service = "[]", "[x/web]"
	by := packing.ManagedByController
	v5, v7, v9 := slice("s", "u1", 5, by), slice("s", "u1", 7, by), slice("s", "u1", 9, by)
	x.Wrote(v5)
	want("after a create", nobody, nobody, 5)
	x.Wrote(v7)
	want("its echo", stream(nil, v5), nobody, 7)
	want("the echo of the update", stream(v5, v7), nobody, 7)
	want("a change of somebody else", stream(v7, v9), service, 9)
	x.Wrote(v7)
	want("an answer that the stream was faster than", nobody, nobody, 9)
	x.Deleted(v9)
	want("after a delete", nobody, nobody)
	want("a late echo", stream(v7, v9), nobody)
	want("the echo of the delete", stream(v9, nil), nobody)
	want("another of the same name", stream(nil, slice("s", "u2", 12, by)), service, 12)
	want("one that is not ours", stream(nil, slice("t", "u3", 13, "me")), nobody, 12)
	want("somebody deletes ours", stream(slice("s", "u2", 12, by), nil), service)
	if len(x.gone) != 0 {
		t.Errorf("%v is remembered as gone", x.gone)
	}
}

func TestOwnWritesOfEndpoints(t *testing.T) {
	x, web := New(), Key{"x", "web"}
	e := func(uid string, revision uint64) *corev1.Endpoints {
		return &corev1.Endpoints{Metadata: &corev1.ObjectMeta{Namespace: "x", Name: "web", Uid: uid, ResourceVersion: revision}}
	}
	stream := func(old, now *corev1.Endpoints) int {
		c := changes.Change{Kind: "Endpoints", Key: object.Key{Kind: "Endpoints", Namespace: "x", Name: "web"}}
		if old != nil {
			c.Old = old
		}
		if now != nil {
			c.New = now
		}
		return len(x.Apply([]changes.Change{c}))
	}
	v1, v2 := e("u", 1), e("u", 2)
	x.Wrote(v1)
	x.Wrote(v2)
	if n := stream(nil, v1) + stream(v1, v2); n != 0 || x.Read(web).Endpoints != v2 {
		t.Errorf("echoes concern %d services; known is %v", n, x.Read(web).Endpoints)
	}
	x.Deleted(v2)
	if n := stream(v2, nil); n != 0 || x.Read(web).Endpoints != nil {
		t.Errorf("the echo of a delete concerns %d services; known is %v", n, x.Read(web).Endpoints)
	}
	if n := stream(nil, e("v", 5)); n != 1 || x.Read(web).Endpoints == nil {
		t.Errorf("somebody's Endpoints concern %d services", n)
	}
	if n := stream(e("v", 5), nil); n != 1 || x.Read(web).Endpoints != nil || len(x.Keys()) != 0 {
		t.Errorf("their deletion concerns %d services; known are %v", n, x.Keys())
	}
}
