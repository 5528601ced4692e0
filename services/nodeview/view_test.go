package nodeview_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/viewfile"
	"portolan.dev/services/nodeview"
	"portolan.dev/services/object"
)

// newView returns a view of the services, slices and pods of the node "here". A change of its zone concerns
// all services.
func newView() *nodeview.View[*corev1.Pod] {
	zone := func(n *corev1.Node) string { return n.GetMetadata().GetLabels()[object.LabelZone] }
	return nodeview.New[*corev1.Pod](nodeview.Options{
		Node: "here",
		Keeps: func(o object.Object) bool {
			switch o := o.(type) {
			case *corev1.Pod:
				return o.GetSpec().GetNodeName() == "here"
			case *corev1.Node:
				return o.GetMetadata().GetName() == "here"
			}
			return true
		},
		ConcernsAll: func(before, now *corev1.Node) bool { return zone(before) != zone(now) },
	})
}

func svc(name string) *corev1.Service {
	return &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name}}
}

func slice(name, service string) *corev1.EndpointSlice {
	return &corev1.EndpointSlice{Metadata: &corev1.ObjectMeta{
		Namespace: "default", Name: name, Labels: map[string]string{object.LabelServiceName: service},
	}}
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name}, Spec: &corev1.PodSpec{NodeName: node}}
}

func node(name string) *corev1.Node { return inZone(name, "") }

func inZone(name, zone string) *corev1.Node {
	return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name, Labels: map[string]string{object.LabelZone: zone}}}
}

// put returns the change from old, which may be nil, to now.
func put(old, now object.Object) changes.Change {
	return changes.Change{Kind: object.KindOf(now), Key: object.KeyOf(now), Old: old, New: now}
}

func gone(old object.Object) changes.Change {
	return changes.Change{Kind: object.KindOf(old), Key: object.KeyOf(old), Old: old}
}

// names takes the next batch and returns the names of its services.
func names(v *nodeview.View[*corev1.Pod]) []string {
	var out []string
	for n := range v.NextBatch(false).Services {
		out = append(out, n.Name)
	}
	slices.Sort(out)
	return out
}

func TestChangesTouchTheirOwnService(t *testing.T) {
	v := newView()
	a, b, s1 := svc("a"), svc("b"), slice("a-1", "a")
	first := v.Apply([]changes.Change{put(nil, a), put(nil, b), put(nil, s1), put(nil, pod("mine", "here")), put(nil, pod("other", "there")), put(nil, node("here")), put(nil, node("there"))}, 10)
	if got := fmt.Sprint(names(v)); got != "[a b]" || !first.Others || !first.Node {
		t.Errorf("the snapshot changed %s, pods %t, node %t", got, first.Others, first.Node)
	}
	if pods := v.Others(); len(pods) != 1 || pods[0].GetMetadata().GetName() != "mine" {
		t.Errorf("pods of the node: %v", pods)
	}
	if got := v.Self().GetMetadata().GetName(); got != "here" {
		t.Errorf("the node is %q", got)
	}
	for _, tc := range []struct {
		what   string
		change changes.Change
		want   string
		pods   bool
	}{
		{"a new slice", put(nil, slice("b-1", "b")), "[b]", false},
		{"a slice that changes its service", put(s1, slice("a-1", "b")), "[a b]", false},
		{"another node's pod", put(nil, pod("foreign", "there")), "[]", false},
		{"a pod that comes here", put(pod("other", "there"), pod("other", "here")), "[]", true},
		{"a pod that goes", gone(pod("mine", "here")), "[]", true},
		{"another node", put(node("there"), node("there")), "[]", false},
		{"a service that goes", gone(a), "[a]", false},
	} {
		got := v.Apply([]changes.Change{tc.change}, v.Revision()+1)
		if services := fmt.Sprint(names(v)); services != tc.want || got.Others != tc.pods || got.Node {
			t.Errorf("%s changed %s, pods %t, node %t", tc.what, services, got.Others, got.Node)
		}
	}
	if s, _ := v.Service(object.Name{Namespace: "default", Name: "a"}); s != nil {
		t.Error("service a is still there")
	}
	if _, slicesOf := v.Service(object.Name{Namespace: "default", Name: "b"}); len(slicesOf) != 2 {
		t.Errorf("%d slices of b, want 2", len(slicesOf))
	}
}

// TestASliceBeforeItsService checks that the order of a service and its slices does not matter, and that a
// slice alone is no work.
func TestASliceBeforeItsService(t *testing.T) {
	v := newView()
	v.Apply([]changes.Change{put(nil, slice("a-1", "a"))}, 1)
	if got := names(v); len(got) > 0 {
		t.Errorf("a slice without a service marks %v", got)
	}
	v.Apply([]changes.Change{put(nil, svc("a"))}, 2)
	if b := v.NextBatch(false); len(b.Services[object.Name{Namespace: "default", Name: "a"}].Slices) != 1 {
		t.Errorf("the batch has %v", b.Services)
	}
}

// TestOthersInBatches checks that a batch has the objects of the further kind only after one has changed.
func TestOthersInBatches(t *testing.T) {
	v := newView()
	p := pod("p", "here")
	for i, tc := range []struct {
		changes []changes.Change
		want    int // -1: none has changed
	}{
		{nil, 0},
		{nil, -1},
		{[]changes.Change{put(nil, p)}, 1},
		{[]changes.Change{put(nil, svc("a"))}, -1},
		{[]changes.Change{gone(p)}, 0},
	} {
		v.Apply(tc.changes, uint64(i+1))
		got := v.NextBatch(false).Others
		if (got == nil) != (tc.want < 0) || got != nil && len(got) != tc.want {
			t.Errorf("batch %d has %v, want %d", i, got, tc.want)
		}
	}
}

// TestAChangeThatConcernsAll checks that all services are in the batch after a change of the node's zone,
// and not after another change of the node.
func TestAChangeThatConcernsAll(t *testing.T) {
	v := newView()
	first, second := inZone("here", "a"), inZone("here", "b")
	v.Apply([]changes.Change{put(nil, svc("a")), put(nil, svc("b")), put(nil, first)}, 1)
	names(v)
	v.Apply([]changes.Change{put(first, inZone("here", "a"))}, 2)
	if got := names(v); len(got) > 0 {
		t.Errorf("the same zone marks %v", got)
	}
	v.Apply([]changes.Change{put(first, second)}, 3)
	if b := v.NextBatch(false); len(b.Services) != 2 || b.Self != second {
		t.Errorf("after a change of the zone: %v, node %v", b.Services, b.Self)
	}
}

// TestABatchIsOfOneRevision checks that a batch keeps the state at the time when it was taken, and
// that later changes are in the next batch.
func TestABatchIsOfOneRevision(t *testing.T) {
	v := newView()
	a, b := object.Name{Namespace: "default", Name: "a"}, object.Name{Namespace: "default", Name: "b"}
	v.Apply([]changes.Change{put(nil, svc("a")), put(nil, svc("b")), put(nil, slice("a-1", "a"))}, 10)
	first := v.NextBatch(false)
	v.Apply([]changes.Change{gone(svc("a")), put(nil, slice("b-1", "b"))}, 11)
	if got := first.Services; first.Revision != 10 || len(got) != 2 || got[a].Object == nil || len(got[a].Slices) != 1 || len(got[b].Slices) != 0 {
		t.Errorf("the first batch is of revision %d: %v", first.Revision, got)
	}
	if !v.IsPending(a) || fmt.Sprint(v.PendingServices()) != "[default/a default/b]" {
		t.Errorf("%v wait", v.PendingServices())
	}
	second := v.NextBatch(false)
	if got := second.Services; second.Revision != 11 || len(got) != 2 || got[a].Object != nil || len(got[b].Slices) != 1 {
		t.Errorf("the second batch is of revision %d: %v", second.Revision, got)
	}
	if got := v.NextBatch(false); len(got.Services) != 0 || v.IsPending(a) {
		t.Errorf("a third batch has %v", got.Services)
	}
	if got := v.NextBatch(true); len(got.Services) != 1 {
		t.Errorf("all services: %v", got.Services)
	}
}

// TestTheFileIsPrivate checks that only the owner of the file, which may have keys, may read it.
func TestTheFileIsPrivate(t *testing.T) {
	_, path := saved(t)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
}

// TestTheFile checks that the file has no slices of unknown services, and that the view of another node
// does not load it.
func TestTheFile(t *testing.T) {
	v, path := saved(t)
	if _, _, err := v.Load(path); err == nil {
		t.Error("a view that is not empty was replaced by the file")
	}
	if file, err := viewfile.Load(path, "here"); err != nil || len(file.Objects) != 2 {
		t.Errorf("the file has %v: %v", file.Objects, err)
	}
	there := nodeview.New[*corev1.Pod](nodeview.Options{Node: "there", Keeps: func(object.Object) bool { return true }})
	if _, _, err := there.Load(path); err == nil || there.Revision() != 0 {
		t.Error("the view of another node was loaded")
	}
}

// saved returns a view and its file. The view has a service with a slice, and a slice of an unknown service.
func saved(t *testing.T) (v *nodeview.View[*corev1.Pod], path string) {
	t.Helper()
	v, path = newView(), filepath.Join(t.TempDir(), "view.pb")
	v.Apply([]changes.Change{put(nil, svc("a")), put(nil, slice("a-1", "a")), put(nil, slice("b-1", "b"))}, 7)
	if err := v.Save(path); err != nil {
		t.Fatal(err)
	}
	return v, path
}

// TestDiskThenSnapshot checks that objects loaded from disk are there at once, and that those
// missing from the registry's first snapshot disappear only with it.
func TestDiskThenSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "view.pb")
	old := newView()
	old.Apply([]changes.Change{put(nil, svc("kept")), put(nil, svc("deleted")), put(nil, slice("s", "kept")), put(nil, pod("p", "here")), put(nil, node("here"))}, 42)
	if err := old.Save(path); err != nil {
		t.Fatal(err)
	}

	v := newView()
	_, at, err := v.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(names(v)); got != "[deleted kept]" || v.Revision() != 42 || at.IsZero() {
		t.Errorf("loaded %s at revision %d, written %s", got, v.Revision(), at)
	}
	if _, slicesOf := v.Service(object.Name{Namespace: "default", Name: "kept"}); len(slicesOf) != 1 || len(v.Others()) != 1 || v.Self() == nil {
		t.Error("slices, pods or node are missing")
	}
	v.Apply([]changes.Change{put(nil, svc("kept")), put(nil, svc("new"))}, 50)
	if got := fmt.Sprint(names(v)); got != "[deleted kept new]" {
		t.Errorf("the snapshot changed %s", got)
	}
	if s, _ := v.Service(object.Name{Namespace: "default", Name: "deleted"}); s != nil {
		t.Error("a service that the registry does not have is still there")
	}
	if _, slicesOf := v.Service(object.Name{Namespace: "default", Name: "kept"}); len(slicesOf) != 0 {
		t.Error("a slice that the registry does not have is still there")
	}
}

func TestSaveAndLoadAreEqual(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "view.pb")
		v := newView()
		var all []changes.Change
		for i := range rapid.IntRange(0, 600).Draw(rt, "services") {
			all = append(all, put(nil, svc(fmt.Sprint("s", i))), put(nil, slice(fmt.Sprint("e", i), fmt.Sprint("s", i/2))))
		}
		v.Apply(all, 7)
		if err := v.Save(path); err != nil {
			rt.Fatal(err)
		}
		again := newView()
		if _, _, err := again.Load(path); err != nil {
			rt.Fatal(err)
		}
		if want := v.ServiceNames(); !slices.Equal(want, again.ServiceNames()) || len(again.NextBatch(false).Services) != len(want) {
			rt.Fatalf("%d services, want %d", len(again.ServiceNames()), len(want))
		}
		for _, name := range v.ServiceNames() {
			_, want := v.Service(name)
			if _, got := again.Service(name); len(got) != len(want) {
				rt.Fatalf("%s has %d slices, want %d", name, len(got), len(want))
			}
		}
	})
}
