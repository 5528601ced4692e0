package index

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/endpointctl/internal/packing"
)

// model is a naive model of an index.
type model struct {
	objects  map[object.Key]object.Object
	revision uint64
}

// change puts or deletes an object, and returns the streamed change.
func (w *model) change(key object.Key, o object.Object) changes.Change {
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
func (w *model) selecting(pod *corev1.Pod, found map[object.Name]bool) {
	for _, o := range w.objects {
		svc, ok := o.(*corev1.Service)
		if ok && svc.GetMetadata().GetNamespace() == pod.GetMetadata().GetNamespace() && spec.MatchEquality(svc.GetSpec().GetSelector(), pod.GetMetadata().GetLabels()) {
			found[object.NameOf(svc)] = true
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
		x, w := New(nil), &model{objects: map[object.Key]object.Object{}}
		apply := func(t *rapid.T, o object.Object, expect func(old, now object.Object, found map[object.Name]bool)) {
			key := object.KeyOf(o)
			if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				o = nil
				if w.objects[key] == nil {
					return
				}
			}
			want := map[object.Name]bool{}
			c := w.change(key, o)
			expect(c.Old, c.New, want)
			for service, n := range x.Apply([]changes.Change{c}, c.Revision) {
				if !want[service] || n < 1 || n > 1 && c.Kind != "Node" {
					t.Fatalf("%v concerns %v %d times, want %v once each", c, service, n, want)
				}
				delete(want, service)
			}
			if len(want) > 0 {
				t.Fatalf("%v does not concern %v", c, want)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"pod": func(t *rapid.T) {
				pod := &corev1.Pod{Metadata: meta(t), Spec: &corev1.PodSpec{NodeName: nodeNames.Draw(t, "node")}}
				apply(t, pod, func(old, now object.Object, found map[object.Name]bool) {
					for _, o := range []object.Object{old, now} {
						if p, ok := o.(*corev1.Pod); ok {
							w.selecting(p, found)
						}
					}
				})
			},
			"service": func(t *rapid.T) {
				svc := &corev1.Service{Metadata: meta(t), Spec: &corev1.ServiceSpec{Selector: labels.Draw(t, "selector")}}
				apply(t, svc, func(_, _ object.Object, found map[object.Name]bool) { found[object.NameOf(svc)] = true })
			},
			"node": func(t *rapid.T) {
				node := &corev1.Node{Metadata: &corev1.ObjectMeta{Name: rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "name")}}
				node.Metadata.Labels = map[string]string{object.LabelZone: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone"), "noise": names.Draw(t, "noise")}
				apply(t, node, func(old, now object.Object, found map[object.Name]bool) {
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

// checkRead compares the objects read for every service with the model.
func checkRead(t *rapid.T, x *Index, w *model) {
	services, pods := 0, 0
	for _, o := range w.objects {
		switch o := o.(type) {
		case *corev1.Pod:
			pods++
		case *corev1.Service:
			services++
			known := x.Read(object.NameOf(o))
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
