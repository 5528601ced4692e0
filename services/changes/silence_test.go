package changes_test

import (
	"testing"
	"testing/synctest"
	"time"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/kittest"
)

// TestBookmarksSaveQuestions checks that a follower that receives bookmarks does not ask the
// registry, so that one registry can serve thousands of followers. A follower without bookmarks
// asks after three periods.
func TestBookmarksSaveQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := drive(t, changestest.New(t))
		const period = 2 * time.Second
		follower, err := changes.NewFollower(changes.FollowerConfig{
			Registry: d.registry, Prefix: changestest.Prefix, Log: kittest.Logger(t), Apply: newReplay().apply, BookmarkEvery: period,
		})
		if err != nil {
			t.Fatal(err)
		}
		d.Follower = follower
		d.must(follower.Begin(t.Context()))
		d.asked(0, 1)
		// quiet advances the time while the follower ticks ten times a second.
		quiet := func(long time.Duration) {
			for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
				d.must(follower.Tick(t.Context()))
			}
		}
		for range 10 {
			d.must(follower.Receive(t.Context(), d.mark(0)))
			quiet(period)
		}
		d.asked(0, 0)
		d.must(follower.Receive(t.Context(), d.mark(0)))
		quiet(3 * period)
		d.asked(0, 0)
		quiet(period)
		if n := d.registry.lists.Load(); n == 0 {
			t.Error("the registry is not asked after three periods of silence")
		}
	})
}

// TestManyMissingRevisionsAreAskedForAtDifferentTimes checks that a follower waits a random time
// before it asks for many missing revisions, because a thousand followers may have lost the same
// ones. It asks for a few revisions at once, because usually only one follower lost them.
func TestManyMissingRevisionsAreAskedForAtDifferentTimes(t *testing.T) {
	for missing, waits := range map[int]bool{1: false, 3: false, 4: true, 300: true} {
		synctest.Test(t, func(t *testing.T) {
			d := drive(t, changestest.New(t))
			follower, err := changes.NewFollower(changes.FollowerConfig{
				Registry: d.registry, Prefix: changestest.Prefix, Log: kittest.Logger(t), Apply: newReplay().apply, Jitter: time.Hour,
			})
			if err != nil {
				t.Fatal(err)
			}
			d.must(follower.Begin(t.Context()))
			putMany(d.log, missing+1)
			began := time.Now()
			d.must(follower.Receive(t.Context(), d.sent(uint64(missing+1))))
			if waited := time.Since(began); waited > 0 != waits || waited > time.Hour {
				t.Errorf("%d revisions were asked for after %s", missing, waited)
			}
			if _, at := follower.Position(); at != uint64(missing+1) {
				t.Errorf("the view is at %d, want %d", at, missing+1)
			}
		})
	}
}
