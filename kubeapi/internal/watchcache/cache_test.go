package watchcache_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/kubeapi/internal/watchcache"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

func service(name string, revision uint64) *corev1.Service {
	return &corev1.Service{Metadata: &corev1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: revision}}
}

// put returns the change of a service at a revision.
func put(name string, revision uint64, old object.Object) changes.Change {
	o := service(name, revision)
	return changes.Change{Revision: revision, Kind: "Service", Key: object.KeyOf(o), Old: old, New: o}
}

// revisions returns the revisions of events.
func revisions(events []*watchcache.Event) string {
	var all []uint64
	for _, e := range events {
		all = append(all, e.Revision)
	}
	return fmt.Sprint(all)
}

func TestHistory(t *testing.T) {
	c := watchcache.New(2, []string{"Service"}, nil)
	c.Apply([]changes.Change{put("a", 3, nil)}, 5, "one")
	objects, at := c.List("Service")
	if len(objects) != 1 || at.Revision != 5 {
		t.Fatalf("%v at %d", objects, at.Revision)
	}
	// A batch of a snapshot is in the order of names.
	c.Apply([]changes.Change{put("b", 8, nil), put("c", 7, nil)}, 9, "one")
	events, next, changed, err := c.Since("Service", at)
	if err != nil || revisions(events) != "[7 8]" || next.Revision != 9 {
		t.Errorf("%s, %d, %v", revisions(events), next.Revision, err)
	}
	c.Apply(nil, 10, "one")
	select {
	case <-changed:
		t.Error("a batch without changes of the kind wakes its watches")
	default:
	}
	if events, next, _, err = c.Since("Service", next); err != nil || len(events) != 0 || next.Revision != 10 {
		t.Errorf("%s, %d, %v", revisions(events), next.Revision, err)
	}
	c.Apply([]changes.Change{put("d", 11, nil), put("e", 12, nil)}, 12, "one")
	<-changed
	if events, _, _, err := c.Since("Service", next); err != nil || revisions(events) != "[11 12]" {
		t.Errorf("%s, %v", revisions(events), err)
	}
	if _, _, _, err := c.Since("Service", at); !errors.Is(err, watchcache.ErrExpired) {
		t.Errorf("a position before the history: %v", err)
	}
	if _, _, _, err := c.Since("Service", c.At(4)); !errors.Is(err, watchcache.ErrExpired) {
		t.Errorf("a position before the first snapshot: %v", err)
	}
}

// TestHistoryEnds checks that all watches expire after another epoch, a lower revision, and the repair of
// a wrong view.
func TestHistoryEnds(t *testing.T) {
	for name, apply := range map[string]func(c *watchcache.Cache){
		"epoch":    func(c *watchcache.Cache) { c.Apply(nil, 12, "two") },
		"revision": func(c *watchcache.Cache) { c.Apply(nil, 8, "one") },
		"repair":   func(c *watchcache.Cache) { c.Apply([]changes.Change{put("a", 4, nil)}, 11, "one") },
	} {
		t.Run(name, func(t *testing.T) {
			c := watchcache.New(10, []string{"Service"}, nil)
			c.Apply([]changes.Change{put("a", 3, nil)}, 5, "one")
			_, at := c.List("Service")
			c.Apply([]changes.Change{put("a", 9, service("a", 3))}, 10, "one")
			_, next, changed, err := c.Since("Service", at)
			if err != nil {
				t.Fatal(err)
			}
			apply(c)
			<-changed
			for _, from := range []watchcache.Position{at, next} {
				if _, _, _, err := c.Since("Service", from); !errors.Is(err, watchcache.ErrExpired) {
					t.Errorf("from %v: %v", from, err)
				}
			}
			_, again := c.List("Service")
			if _, _, _, err := c.Since("Service", again); err != nil {
				t.Errorf("a new watch: %v", err)
			}
		})
	}
}

func TestKindsThatAreNotFollowed(t *testing.T) {
	c := watchcache.New(10, []string{"Service"}, nil)
	c.Apply(nil, 5, "one")
	objects, at := c.List("")
	if events, next, _, err := c.Since("", at); len(objects)+len(events) != 0 || next.Revision != 5 || err != nil {
		t.Errorf("%v %v %v %v", objects, events, next, err)
	}
}

func TestWaitFor(t *testing.T) {
	c := watchcache.New(10, []string{"Service"}, nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if c.WaitFor(ended, 0) == nil {
		t.Error("the cache has the revision 0 before the first snapshot")
	}
	waited := make(chan error)
	go func() { waited <- c.WaitFor(t.Context(), 7) }()
	c.Apply(nil, 5, "one")
	c.Apply(nil, 8, "one")
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// TestEncodedFormsAreShared checks that a form is made once, and that the oldest ones are dropped when the
// newer ones take too much memory.
func TestEncodedFormsAreShared(t *testing.T) {
	c := watchcache.New(1000, []string{"Service"}, nil)
	c.Apply(nil, 1, "one")
	at := c.At(1)
	c.Apply([]changes.Change{put("a", 2, nil)}, 2, "one")
	made := 0
	encode := func() ([]byte, error) { made++; return []byte("x"), nil }
	use := func() {
		t.Helper()
		events, _, _, err := c.Since("Service", at)
		if err != nil {
			t.Fatal(err)
		}
		if form, err := events[0].Encoded("json", encode); err != nil || string(form) != "x" {
			t.Errorf("%s, %v", form, err)
		}
	}
	use()
	use()
	if made != 1 {
		t.Errorf("made %d times", made)
	}
	large := make([]byte, 1<<20)
	for revision := uint64(3); revision < 80; revision++ {
		c.Apply([]changes.Change{put("a", revision, nil)}, revision, "one")
		events, _, _, err := c.Since("Service", c.At(revision-1))
		if err != nil || len(events) != 1 {
			t.Fatal(len(events), err)
		}
		if _, err := events[0].Encoded("json", func() ([]byte, error) { return large, nil }); err != nil {
			t.Fatal(err)
		}
	}
	use()
	use()
	if made != 2 {
		t.Errorf("made %d times, want a second time after 77 MB of newer forms, and only then", made)
	}
}

// TestObjectsShareForms checks that the objects of a list have forms until they change.
func TestObjectsShareForms(t *testing.T) {
	c := watchcache.New(1000, []string{"Service"}, nil)
	c.Apply([]changes.Change{put("a", 1, nil)}, 1, "one")
	form := func() (text string) {
		t.Helper()
		objects, _ := c.List("Service")
		if len(objects) != 1 {
			t.Fatal(len(objects))
		}
		encoded, err := objects[0].Encoded("json", func() ([]byte, error) {
			return fmt.Append(nil, objects[0].New.GetMetadata().GetResourceVersion(), " anew"), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		text = string(encoded)
		copy(encoded, "-") // so that a second one made by this function would differ
		return text
	}
	if first, second := form(), form(); first != "1 anew" || second != "- anew" {
		t.Errorf("%q, then %q", first, second)
	}
	c.Apply([]changes.Change{put("a", 2, nil)}, 2, "one")
	if changed := form(); changed != "2 anew" {
		t.Errorf("%q after a change", changed)
	}
}

// TestWatchesSeeEveryChange checks that a watch which reads at random times sees the same changes as the log
// has, or expires.
func TestWatchesSeeEveryChange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		c := watchcache.New(limit, []string{"Service"}, nil)
		c.Apply(nil, 1, "one")
		at, revision, seen := c.At(1), uint64(1), uint64(1)
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			if rapid.Bool().Draw(rt, "write") {
				var batch []changes.Change
				for range rapid.IntRange(0, 4).Draw(rt, "batch") {
					revision++
					batch = append(batch, put(fmt.Sprint(revision), revision, nil))
				}
				c.Apply(batch, revision, "one")
				continue
			}
			events, next, _, err := c.Since("Service", at)
			if err != nil {
				if revision-at.Revision <= uint64(limit) {
					rt.Fatalf("expired %d changes behind, of %d that are kept", revision-at.Revision, limit)
				}
				return
			}
			for _, e := range events {
				if seen++; e.Revision != seen {
					rt.Fatalf("revision %d after %d", e.Revision, seen-1)
				}
			}
			if at = next; seen != revision {
				rt.Fatalf("seen up to %d of %d", seen, revision)
			}
		}
	})
}
