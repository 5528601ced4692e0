package view_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	corev1 "portolan.dev/proto/portolan/core/v1"

	"portolan.dev/nodeagent/plan"
	"portolan.dev/nodeagent/view"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

func svc(name string) *corev1.Service {
	return &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name}}
}

func slice(name, service string) *corev1.EndpointSlice {
	return &corev1.EndpointSlice{Metadata: &corev1.ObjectMeta{
		Namespace: "default", Name: name, Labels: map[string]string{view.ServiceLabel: service},
	}}
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name}, Spec: &corev1.PodSpec{NodeName: node}}
}

func node(name string) *corev1.Node { return &corev1.Node{Metadata: &corev1.ObjectMeta{Name: name}} }

// put is a change from old, which may be nil, to now.
func put(old, now object.Object) changes.Change {
	return changes.Change{Kind: object.KindOf(now), Key: object.KeyOf(now), Old: old, New: now}
}

func gone(old object.Object) changes.Change {
	return changes.Change{Kind: object.KindOf(old), Key: object.KeyOf(old), Old: old}
}

func names(t view.Touched) []string {
	var out []string
	for n := range t.Services {
		out = append(out, n.Name)
	}
	slices.Sort(out)
	return out
}

func TestChangesTouchTheirOwnService(t *testing.T) {
	v := view.New("here")
	a, b, s1 := svc("a"), svc("b"), slice("a-1", "a")
	first := v.Apply([]changes.Change{put(nil, a), put(nil, b), put(nil, s1), put(nil, pod("mine", "here")), put(nil, pod("other", "there")), put(nil, node("here")), put(nil, node("there"))}, 10)
	if got := fmt.Sprint(names(first)); got != "[a b]" || !first.Pods || !first.Node {
		t.Errorf("the snapshot touched %s, pods %t, node %t", got, first.Pods, first.Node)
	}
	if pods := v.Pods(); len(pods) != 1 || pods[0].GetMetadata().GetName() != "mine" {
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
		if fmt.Sprint(names(got)) != tc.want || got.Pods != tc.pods || got.Node {
			t.Errorf("%s touched %v, pods %t, node %t", tc.what, names(got), got.Pods, got.Node)
		}
	}
	if s, _ := v.Service(plan.ServiceName{Namespace: "default", Name: "a"}); s != nil {
		t.Error("service a is still there")
	}
	if _, slicesOf := v.Service(plan.ServiceName{Namespace: "default", Name: "b"}); len(slicesOf) != 2 {
		t.Errorf("%d slices of b, want 2", len(slicesOf))
	}
}

// TestDiskThenSnapshot: what was loaded from disk is there at once, and what the
// registry's first snapshot does not have is gone only then.
func TestDiskThenSnapshot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "view.pb")
	old := view.New("here")
	old.Apply([]changes.Change{put(nil, svc("kept")), put(nil, svc("deleted")), put(nil, slice("s", "kept")), put(nil, pod("p", "here")), put(nil, node("here"))}, 42)
	if err := old.Save(path); err != nil {
		t.Fatal(err)
	}

	v := view.New("here")
	touched, at, err := v.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(names(touched)); got != "[deleted kept]" || v.Revision() != 42 || at.IsZero() {
		t.Errorf("loaded %s at revision %d, written %s", got, v.Revision(), at)
	}
	if _, slicesOf := v.Service(plan.ServiceName{Namespace: "default", Name: "kept"}); len(slicesOf) != 1 || len(v.Pods()) != 1 || v.Self() == nil {
		t.Error("slices, pods or node are missing")
	}
	after := v.Apply([]changes.Change{put(nil, svc("kept")), put(nil, svc("new"))}, 50)
	if got := fmt.Sprint(names(after)); got != "[deleted kept new]" {
		t.Errorf("the snapshot touched %s", got)
	}
	if s, _ := v.Service(plan.ServiceName{Namespace: "default", Name: "deleted"}); s != nil {
		t.Error("a service that the registry does not have is still there")
	}
	if _, slicesOf := v.Service(plan.ServiceName{Namespace: "default", Name: "kept"}); len(slicesOf) != 0 {
		t.Error("a slice that the registry does not have is still there")
	}
}

func TestSaveAndLoadAreEqual(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(t.TempDir(), "view.pb")
		v := view.New("here")
		var all []changes.Change
		for i := range rapid.IntRange(0, 600).Draw(rt, "services") {
			all = append(all, put(nil, svc(fmt.Sprint("s", i))), put(nil, slice(fmt.Sprint("e", i), fmt.Sprint("s", i/2))))
		}
		v.Apply(all, 7)
		if err := v.Save(path); err != nil {
			rt.Fatal(err)
		}
		again := view.New("here")
		touched, _, err := again.Load(path)
		if err != nil {
			rt.Fatal(err)
		}
		if want := v.ServiceNames(); !slices.Equal(want, again.ServiceNames()) || len(touched.Services) != len(want) {
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

// TestDamagedFilesAreRefused: no prefix of a file and no changed length in it is
// taken for a view.
func TestDamagedFilesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "view.pb")
	v := view.New("here")
	var all []changes.Change
	for i := range 300 {
		all = append(all, put(nil, svc(fmt.Sprint("s", i))))
	}
	v.Apply(all, 7)
	if err := v.Save(path); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(whole); n += max(1, len(whole)/200) {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		cut := view.New("here")
		if _, _, err := cut.Load(path); err == nil {
			t.Fatalf("the first %d of %d bytes were taken for a view", n, len(whole))
		}
		if len(cut.ServiceNames()) != 0 || cut.Revision() != 0 {
			t.Fatalf("the first %d bytes left something in the view", n)
		}
	}
	for i := 0; i < len(whole); i += max(1, len(whole)/200) {
		flipped := slices.Clone(whole)
		flipped[i] ^= 0x10
		if err := os.WriteFile(path, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := view.New("here").Load(path); err == nil {
			t.Fatalf("a file whose byte %d was changed was taken for a view", i)
		}
	}
	if err := os.WriteFile(path, append(slices.Clone(whole), 'x'), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := view.New("here").Load(path); err == nil {
		t.Error("a file with something behind its end was taken for a view")
	}
	if _, _, err := view.New("here").Load(path + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

// TestForeignFilesAreRefused: a disk that was moved to another machine, and a file
// of another program or version.
func TestForeignFilesAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "view.pb")
	v := view.New("there")
	v.Apply([]changes.Change{put(nil, svc("a"))}, 7)
	if err := v.Save(path); err != nil {
		t.Fatal(err)
	}
	here := view.New("here")
	if _, _, err := here.Load(path); err == nil || !strings.Contains(err.Error(), `view of node "there", this is node "here"`) {
		t.Errorf("another node's view: %v", err)
	}
	if len(here.ServiceNames()) != 0 || here.Revision() != 0 {
		t.Error("another node's view left something behind")
	}
	if err := os.WriteFile(path, []byte("something else\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := here.Load(path); err == nil || !strings.Contains(err.Error(), "no view of this version") {
		t.Errorf("another program's file: %v", err)
	}
}

func TestKeep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "view.pb")
	v := view.New("here")
	changed, results := make(chan struct{}, 1), make(chan error, 100)
	var current atomic.Bool
	stop := kittest.Run(t, "keep", func(ctx context.Context) error {
		return v.Keep(ctx, view.Keeping{
			Path: path, Changed: changed, Every: time.Millisecond, Report: func(err error) { results <- err }, Current: current.Load,
		})
	})
	v.Apply([]changes.Change{put(nil, svc("a"))}, 1)
	changed <- struct{}{}
	if err := kittest.Receive(t, "the first save", results); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	current.Store(true)
	kittest.Eventually(t, "the file to be marked as current", func() error {
		if _, at, err := view.New("here").Load(path); err != nil || at.Before(old.Add(time.Minute)) {
			return fmt.Errorf("current at %s: %v", at, err)
		}
		return nil
	})
	v.Apply([]changes.Change{put(nil, svc("b"))}, 2)
	stop() // nobody told it: the end saves all the same
	again := view.New("here")
	if _, _, err := again.Load(path); err != nil || again.Revision() != 2 {
		t.Errorf("revision %d on disk: %v", again.Revision(), err)
	}
	files, _ := os.ReadDir(filepath.Dir(path))
	if len(files) != 1 {
		t.Errorf("%d files left", len(files))
	}
}
