package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"google.golang.org/grpc"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/faults/sim/registry"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/object"
)

// followerChecker is a daemon that compares the batches of its follower with the history of the
// registry.
type followerChecker struct {
	world    *world
	name     string
	follower *changes.Follower
	registry *grpc.ClientConn
	nats     app.Bus
	health   *health.Registry

	revision     uint64
	got          registry.Versions // the state after all batches so far
	want         registry.Versions // the state of the history at revision
	historyIndex int               // the index of the registry's history that the follower has
}

// startFollower starts a followerChecker that follows all kinds.
func startFollower(w *world, name string) {
	w.start(name, func(_ context.Context, host app.Host) (app.Daemon, error) {
		f := &followerChecker{world: w, name: name, health: host.Health, got: registry.Versions{}, want: registry.Versions{}}
		var err error
		if f.registry, err = host.Network.Dial("registry"); err != nil {
			return nil, err
		}
		if f.nats, err = host.NATS("changes"); err != nil {
			return nil, err
		}
		f.follower, err = changes.NewFollower(changes.FollowerConfig{
			Registry: f.registry, NATS: f.nats, Log: host.Log, Metrics: host.Metrics, Health: host.Health, Apply: f.apply,
		})
		return f, err
	})
}

// Run implements app.Daemon.
func (f *followerChecker) Run(ctx context.Context) error {
	defer f.registry.Close()
	defer f.nats.Close()
	return app.RunTasks(ctx, app.Task{Run: f.follower.Run}, app.Task{Run: f.checkAge})
}

// checkAge checks every 100 ms that the follower takes no true change for a forged one, and that the
// view is at most as old as the follower reports: the view must contain all changes up to that age. Bookmarks have no send time, so a bookmark that is late
// or duplicated makes the view seem younger by its delay. The check allows for that delay.
func (f *followerChecker) checkAge(ctx context.Context) error {
	for app.Pause(ctx, 100*time.Millisecond+time.Microsecond) {
		if warnings := f.health.Warnings(); len(warnings) > 0 {
			return fmt.Errorf("nobody forges changes here: %q", warnings)
		}
		if !f.follower.Synced() {
			continue
		}
		margin := 2 * f.world.emulator.MaxDelay("nats "+f.name)
		complete := time.Now().Add(-f.follower.Age() - margin)
		if head := registry.HeadAt(f.world.registry.History(), complete); f.follower.Revision() < head {
			return fmt.Errorf("the view is at revision %d and is reported to be %s old, but the log was at %d by then", f.follower.Revision(), f.follower.Age(), head)
		}
	}
	return nil
}

// apply checks a batch. The batch must be either the part of the log after the last batch, or the
// difference to a snapshot. If a backup of the log was restored, the batch may also be the
// difference between the old state and the restored one.
func (f *followerChecker) apply(_ context.Context, batch []changes.Change, revision uint64) error {
	histories, got := f.world.registry.Histories(), f.stateAfter(batch)
	err := f.checkNext(batch, got, revision, histories[f.historyIndex])
	for n := f.historyIndex + 1; err != nil && n < len(histories); n++ {
		want := registry.Versions{}
		if mismatch := checkState(got, revision, histories[n], want); mismatch != nil {
			err = errors.Join(err, mismatch)
			continue
		}
		err, f.want, f.historyIndex = nil, want, n
	}
	f.revision, f.got = revision, got
	return err
}

// checkNext returns an error if a batch does not lead to a later revision of a history. got is the
// state after the batch.
func (f *followerChecker) checkNext(batch []changes.Change, got registry.Versions, revision uint64, history []registry.Committed) error {
	if revision < f.revision || revision > uint64(len(history)) {
		return fmt.Errorf("revision %d was applied after %d, the log is at %d", revision, f.revision, len(history))
	}
	since := history[f.revision:revision]
	if !equalsLog(batch, since) {
		if err := f.checkDifference(batch); err != nil {
			return fmt.Errorf("changes from %d to %d differ from the log: %w", f.revision, revision, err)
		}
	}
	want := f.want
	if len(since) > 0 {
		want = maps.Clone(want)
	}
	for _, c := range since {
		want.Apply(c.Change)
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("at revision %d the log has objects %v, the follower %v", revision, want, got)
	}
	f.want = want
	return nil
}

// checkState returns an error if got is not the state of a history at a revision. It stores that
// state in want, which must be empty.
func checkState(got registry.Versions, revision uint64, history []registry.Committed, want registry.Versions) error {
	if revision > uint64(len(history)) {
		return fmt.Errorf("revision %d was applied, the restored log is at %d", revision, len(history))
	}
	for _, c := range history[:revision] {
		want.Apply(c.Change)
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("the restored log has objects %v at revision %d, the follower %v", want, revision, got)
	}
	return nil
}

// stateAfter returns the state after a batch.
func (f *followerChecker) stateAfter(batch []changes.Change) registry.Versions {
	if len(batch) == 0 {
		return f.got
	}
	got := maps.Clone(f.got)
	for _, c := range batch {
		if c.New == nil {
			delete(got, c.Key)
		} else {
			got[c.Key] = c.New.GetMetadata().GetResourceVersion()
		}
	}
	return got
}

// equalsLog reports whether a batch has the given changes of the log, each of them once.
func equalsLog(batch []changes.Change, log []registry.Committed) bool {
	if len(batch) != len(log) {
		return false
	}
	for i, c := range batch {
		deleted := log[i].Change.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE
		if c.Revision != log[i].Change.GetRevision() || deleted != (c.New == nil) {
			return false
		}
	}
	return true
}

// checkDifference returns an error if a batch cannot be the difference between the present state
// and a newer snapshot.
func (f *followerChecker) checkDifference(batch []changes.Change) error {
	seen := map[object.Key]bool{}
	for _, c := range batch {
		before, known := f.got[c.Key]
		switch {
		case seen[c.Key]:
			return fmt.Errorf("%s changes twice", c.Key)
		case c.New == nil && !known:
			return fmt.Errorf("%s is deleted, but did not exist", c.Key)
		case c.New != nil && known && before >= c.New.GetMetadata().GetResourceVersion():
			return fmt.Errorf("%s changes from version %d to %d", c.Key, before, c.New.GetMetadata().GetResourceVersion())
		}
		seen[c.Key] = true
	}
	return nil
}

// lag describes how far the follower is behind the registry at rest.
func (f *followerChecker) lag() string {
	head := f.world.registry.Log.Revision()
	if at := f.follower.Revision(); at != head {
		return fmt.Sprintf("%s is at revision %d, the log at %d\n", f.name, at, head)
	}
	if age := f.follower.Age(); age > 10*time.Second {
		return fmt.Sprintf("%s reports that its view is %s old\n", f.name, age)
	}
	return ""
}
