package changes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// driven is a follower that is driven by the test alone, without NATS and without timers.
type driven struct {
	t        *testing.T
	log      *changestest.Log
	conn     *direct
	registry *outage
	kinds    []string
	keep     func(object.Object) bool // nil: all
	replay   *replay
	refusal  error // the error for Apply to return, or nil
	metrics  *prometheus.Registry
	health   *health.Registry
	*changes.Follower
}

// drive returns a follower for which all periods are over at once. Only Tick checks for silence.
func drive(t *testing.T, log *changestest.Log, kinds ...string) *driven {
	t.Helper()
	conn := dial(log)
	d := &driven{
		t: t, log: log, kinds: kinds, conn: conn, registry: &outage{ClientConnInterface: conn},
		replay: newReplay(),
	}
	d.config(func(*changes.FollowerConfig) {})
	return d
}

// config makes the follower anew with another configuration.
func (d *driven) config(change func(cfg *changes.FollowerConfig)) {
	d.t.Helper()
	d.metrics, d.health = prometheus.NewRegistry(), health.New(kittest.Logger(d.t))
	cfg := changes.FollowerConfig{
		Registry: d.registry, Prefix: changestest.Prefix, Kinds: d.kinds, Node: "n1", Log: kittest.Logger(d.t), Metrics: d.metrics, Health: d.health,
		Apply: d.apply, Keep: d.keeps, BookmarkEvery: 2, IdleEvery: 1, Jitter: 1, RetryMax: 1, VerifyEvery: 5, DistrustFor: 1,
	}
	change(&cfg)
	follower, err := changes.NewFollower(cfg)
	d.must(err)
	d.Follower = follower
}

func (d *driven) keeps(o object.Object) bool { return d.keep == nil || d.keep(o) }

func (d *driven) apply(ctx context.Context, batch []changes.Change, revision uint64) error {
	if d.refusal != nil {
		return d.refusal
	}
	return d.replay.apply(ctx, batch, revision)
}

func (d *driven) begin() {
	d.t.Helper()
	d.must(d.Begin(d.t.Context()))
}

func (d *driven) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// sent returns the message for a revision as the stream has it, with the log's epoch.
func (d *driven) sent(revision uint64) *nats.Msg {
	d.t.Helper()
	epoch, _, _, _ := d.log.Head(d.t.Context())
	logged, err := d.log.After(d.t.Context(), revision-1, 1)
	if err != nil || len(logged) != 1 {
		d.t.Fatalf("revision %d of the log: %v, %v", revision, logged, err)
	}
	return republished(d.t, epoch, logged[0])
}

func (d *driven) mark(head uint64) *nats.Msg {
	epoch, _, _, _ := d.log.Head(d.t.Context())
	return bookmark(d.t, epoch, head)
}

func (d *driven) receive(messages ...*nats.Msg) {
	d.t.Helper()
	d.must(d.Drain(d.t.Context(), messages...))
}

// at checks that the view is at a revision. If that is the log's newest revision, it also checks
// that the view equals the log's state.
func (d *driven) at(revision uint64) {
	d.t.Helper()
	if _, got := d.Position(); got != revision {
		d.t.Fatalf("the view is at %d, want %d", got, revision)
	}
	d.must(same(viewOf(d.Follower), d.replay.objects))
	if revision == d.log.Revision() {
		d.must(same(stateOf(d.log), viewOf(d.Follower)))
	}
}

// asked checks the numbers of requests to the registry since the last call of asked.
func (d *driven) asked(lists, snapshots int64) {
	d.t.Helper()
	if l, s := d.registry.lists.Swap(0), d.registry.snapshots.Swap(0); l != lists || s != snapshots {
		d.t.Fatalf("the registry was asked %d times for the log and %d times for a snapshot, want %d and %d", l, s, lists, snapshots)
	}
}

// snapshots checks the number of snapshots taken for each reason.
func (d *driven) snapshots(start, pruned, epoch int) {
	d.t.Helper()
	const name = "portolan_changes_snapshots_total"
	want := fmt.Sprintf("%[1]s{reason=\"epoch\"} %[2]d\n%[1]s{reason=\"forged\"} 0\n%[1]s{reason=\"pruned\"} %[3]d\n%[1]s{reason=\"resync\"} 0\n%[1]s{reason=\"start\"} %[4]d\n", name, epoch, pruned, start)
	const help = "Snapshots taken from the registry, by reason: start, pruned (the log no longer goes back to what the view has), epoch (the log began anew), forged (NATS delivered changes that the log does not have) or resync (on request)."
	want = fmt.Sprintf("# HELP %s %s\n# TYPE %s counter\n%s", name, help, name, want)
	if err := testutil.GatherAndCompare(d.metrics, strings.NewReader(want), name); err != nil {
		d.t.Error(err)
	}
}

// following returns a follower that has applied five revisions. The log then gets more revisions.
func following(t *testing.T, more int) *driven {
	t.Helper()
	log := changestest.New(t)
	putMany(log, 5)
	d := drive(t, log)
	d.begin()
	d.at(5)
	d.asked(0, 1)
	putMany(log, more)
	return d
}

func TestInOrder(t *testing.T) {
	d := following(t, 3)
	d.receive(d.sent(6), d.sent(7), d.sent(8))
	d.at(8)
	d.asked(0, 0)
	if d.replay.calls != 2 || d.Revision() != 8 {
		t.Errorf("%d calls of Apply up to %d, want one for the snapshot and one for all that was queued, up to 8", d.replay.calls, d.Revision())
	}
}

func TestRepeatedAndOldAreDropped(t *testing.T) {
	d := following(t, 2)
	d.receive(d.sent(3), d.sent(6), d.sent(6), d.sent(5), d.sent(7), d.sent(6))
	d.at(7)
	d.asked(0, 0)
	if last := d.replay.batches[len(d.replay.batches)-1]; len(last) != 2 {
		t.Errorf("handed over: %v, want the two that are new", last)
	}
}

func TestHoleIsHealed(t *testing.T) {
	for name, more := range map[string]int{"one": 2, "many": 300} {
		t.Run(name, func(t *testing.T) {
			d := following(t, more)
			d.receive(d.sent(uint64(5 + more)))
			d.at(uint64(5 + more))
			if d.registry.snapshots.Load() != 0 {
				t.Error("a snapshot was taken where the log had it all")
			}
		})
	}
}

func TestHoleWhileRegistryIsAway(t *testing.T) {
	d := following(t, 4)
	d.registry.down.Store(true)
	d.receive(d.sent(6), d.sent(8), d.sent(9))
	d.at(6)
	d.asked(1, 0) // once for the gap; the later messages cause no further request
	d.registry.down.Store(false)
	d.tickUntil(9)
	d.at(9)
	putMany(d.log, 1)
	d.receive(d.sent(10))
	d.at(10)
}

func (d *driven) tickUntil(revision uint64) {
	d.t.Helper()
	kittest.Eventually(d.t, "the view to catch up", func() error {
		d.must(d.Tick(d.t.Context()))
		if _, at := d.Position(); at < revision {
			return errors.New("not yet")
		}
		return nil
	})
}

// TestLostTail checks that bookmarks alone reveal the loss of the newest changes, after which no
// message comes.
func TestLostTail(t *testing.T) {
	d := following(t, 2)
	d.receive(d.mark(7))
	d.at(5)
	d.asked(0, 0) // the bookmark may have overtaken the changes
	d.receive(d.mark(7))
	d.at(7)
	d.asked(1, 0)
	d.receive(d.mark(7), d.mark(7))
	d.asked(0, 0)
}

func TestBookmarkThatOvertakes(t *testing.T) {
	d := following(t, 2)
	d.receive(d.mark(7), d.sent(6), d.sent(7), d.mark(7))
	d.at(7)
	d.asked(0, 0)
}

// TestBookmarkOfWhatNeverWas checks that a bookmark with a head beyond the log does not make the
// follower ask for ever.
func TestBookmarkOfWhatNeverWas(t *testing.T) {
	d := following(t, 1)
	d.receive(d.mark(1000), d.mark(1000))
	d.at(6)
	d.tickUntil(6)
	putMany(d.log, 1)
	d.receive(d.sent(7))
	d.at(7)
}

func TestPrunedLog(t *testing.T) {
	d := following(t, 10)
	d.log.Delete(serviceKey("s0.example"))
	d.log.Prune(12)
	d.receive(d.sent(16))
	d.at(16)
	d.asked(1, 1)
	d.snapshots(1, 1, 0)
}

func TestNewEpoch(t *testing.T) {
	for name, message := range map[string]func(*driven) *nats.Msg{
		"change":   func(d *driven) *nats.Msg { return d.sent(d.log.Revision()) },
		"bookmark": func(d *driven) *nats.Msg { return d.mark(d.log.Revision()) },
	} {
		t.Run(name, func(t *testing.T) {
			d := following(t, 0)
			// The log now has other changes at revisions 4 and 5 than the follower.
			d.log.Restore(2)
			d.log.Put(service("other", 1), node("n1"))
			if _, err := d.log.NewEpoch(t.Context()); err != nil {
				t.Fatal(err)
			}
			d.receive(message(d))
			d.at(5)
			d.asked(1, 1)
			d.snapshots(1, 0, 1)
			if last := d.replay.batches[len(d.replay.batches)-1]; len(last) != 4 { // two put, two gone
				t.Errorf("the new snapshot was handed over as %d changes, want the difference of 4", len(last))
			}
		})
	}
}

// TestOldEpochAfterNewSnapshot checks that the message of the old epoch that led to the snapshot is
// not applied after the snapshot.
func TestOldEpochAfterNewSnapshot(t *testing.T) {
	d := following(t, 3)
	last := d.sent(8)
	d.log.Restore(1)
	if _, err := d.log.NewEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.receive(last)
	d.at(7)
}

// TestSnapshotOfReplicaThatLags checks that the view never goes back within an epoch.
func TestSnapshotOfReplicaThatLags(t *testing.T) {
	d := following(t, 0)
	d.log.Restore(2)
	d.begin()
	d.at(5)
	if d.replay.calls != 1 {
		t.Error("an older snapshot was handed over")
	}
}

// TestUnchangedByNewEpoch checks that a new epoch without changed objects passes no changes to
// Apply.
func TestUnchangedByNewEpoch(t *testing.T) {
	d := following(t, 0)
	before := d.Epoch()
	epoch, err := d.log.NewEpoch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.receive(d.mark(5))
	d.at(5)
	if before == "" || before == epoch || d.Epoch() != epoch {
		t.Errorf("epoch %q, and %q after the log has %q", before, d.Epoch(), epoch)
	}
	if last := d.replay.batches[len(d.replay.batches)-1]; len(last) != 0 {
		t.Errorf("handed over: %v", last)
	}
}

// TestForeignEpoch checks that messages of an epoch that the registry does not have change nothing
// and cause one request.
func TestForeignEpoch(t *testing.T) {
	d := following(t, 1)
	change := d.sent(6)
	change.Header.Set("Portolan-Epoch", "foreign")
	d.receive(change)
	d.asked(1, 0)
	d.at(6)
}

func TestForgedMessages(t *testing.T) {
	forged := map[string]func(m *nats.Msg){
		"status of a request": func(m *nats.Msg) { m.Header.Set("Status", "404") },
		"other stream":        func(m *nats.Msg) { m.Header.Set("Nats-Stream", "KV_x") },
		"no stream":           func(m *nats.Msg) { m.Header.Del("Nats-Stream") },
		"other subject":       func(m *nats.Msg) { m.Header.Set("Nats-Subject", "test.chg.Service.default.other") },
		"not below rep.chg":   func(m *nats.Msg) { m.Subject = "test.rep.x" },
		"no sequence":         func(m *nats.Msg) { m.Header.Del("Nats-Sequence") },
		"odd sequence":        func(m *nats.Msg) { m.Header.Set("Nats-Sequence", "-6") },
		"no headers":          func(m *nats.Msg) { m.Header = nil },
	}
	for name, forge := range forged {
		t.Run(name, func(t *testing.T) {
			d := following(t, 1)
			m := d.sent(6)
			forge(m)
			d.receive(m)
			d.at(5)
			d.asked(0, 0)
		})
	}
	t.Run("bookmark from a stream", func(t *testing.T) {
		d := following(t, 1)
		m := d.mark(6)
		m.Header = nats.Header{"Nats-Stream": {"test_CHG"}}
		d.receive(m, m)
		d.at(5)
	})
	t.Run("garbled bookmark", func(t *testing.T) {
		d := following(t, 1)
		d.receive(&nats.Msg{Subject: "test.rep.head", Data: []byte{0xff}})
		d.at(5)
		d.asked(0, 0)
	})
}

// TestUnreadableChange checks that a change is read from the log if its message cannot be decoded.
func TestUnreadableChange(t *testing.T) {
	unreadable := map[string]func(d *driven, m *nats.Msg){
		"garbage":          func(_ *driven, m *nats.Msg) { m.Data = []byte{0xff, 0xff} },
		"empty":            func(_ *driven, m *nats.Msg) { m.Data = nil },
		"another revision": func(d *driven, m *nats.Msg) { m.Data = d.sent(7).Data },
		"elided":           func(_ *driven, m *nats.Msg) { m.Data, m.Header = nil, elided(m.Header) },
	}
	for name, spoil := range unreadable {
		t.Run(name, func(t *testing.T) {
			d := following(t, 2)
			m := d.sent(6)
			spoil(d, m)
			d.receive(m, d.sent(7))
			d.at(7)
			d.asked(1, 0)
		})
	}
}

func elided(h nats.Header) nats.Header {
	h.Set("Portolan-Elided", "1")
	return h
}

// TestOtherKinds checks that a change of an unfollowed kind raises the revision and does nothing
// else.
func TestOtherKinds(t *testing.T) {
	log := changestest.New(t)
	log.Put(node("n1"), service("a", 1))
	d := drive(t, log, "Node")
	d.begin()
	log.Put(service("a", 2), service("b", 1))
	d.receive(d.sent(3), d.sent(4))
	if d.Revision() != 2 || d.replay.calls != 1 {
		t.Fatalf("applied %d in %d calls; revisions without changes wait for the next tick", d.Revision(), d.replay.calls)
	}
	d.tickUntil(4)
	if d.Revision() != 4 || d.replay.revision != 4 {
		t.Errorf("revision %d, Apply was told %d, want 4", d.Revision(), d.replay.revision)
	}
	d.must(same(stateOf(log, "Node"), viewOf(d.Follower)))
}

// TestSilence checks that the follower reads the log if no messages arrive at all.
func TestSilence(t *testing.T) {
	d := following(t, 200)
	d.must(d.Tick(t.Context()))
	d.at(205)
	if d.registry.snapshots.Load() != 0 {
		t.Error("a snapshot was taken where the log had it all")
	}
}

func TestNothingBeforeTheFirstSnapshot(t *testing.T) {
	log := changestest.New(t)
	putMany(log, 5)
	d := drive(t, log)
	d.registry.down.Store(true)
	d.begin()
	d.receive(d.sent(1), d.mark(5), d.sent(5), d.mark(5))
	d.must(d.Tick(t.Context()))
	if d.replay.calls != 0 || d.Synced() || d.Revision() != 0 {
		t.Fatalf("%d calls of Apply, synced %v, revision %d without a snapshot", d.replay.calls, d.Synced(), d.Revision())
	}
	d.registry.down.Store(false)
	d.tickUntil(5)
	d.at(5)
	if d.replay.calls != 1 || !d.Synced() {
		t.Errorf("%d calls of Apply, synced %v, want the snapshot alone", d.replay.calls, d.Synced())
	}
}

func TestEmptySnapshotIsApplied(t *testing.T) {
	d := drive(t, changestest.New(t))
	d.begin()
	if d.replay.calls != 1 || !d.Synced() {
		t.Errorf("%d calls of Apply, synced %v", d.replay.calls, d.Synced())
	}
}

func TestErrorOfApplyEndsRun(t *testing.T) {
	broken := errors.New("broken")
	follower, err := changes.NewFollower(changes.FollowerConfig{
		Registry: changestest.New(t).Conn(), Log: kittest.Logger(t),
		Apply: func(context.Context, []changes.Change, uint64) error { return broken },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := follower.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Run = %v", err)
	}
	if follower.Revision() != 0 || follower.Synced() {
		t.Errorf("revision %d, synced %v after a snapshot that was refused", follower.Revision(), follower.Synced())
	}
}

// TestRefusedChangesAreNotPassedOver checks that a follower ends if Apply returns an error, for
// every path by which changes arrive, because the changes would not be passed to Apply again.
func TestRefusedChangesAreNotPassedOver(t *testing.T) {
	for name, bring := range map[string]func(d *driven) error{
		"a message":               func(d *driven) error { return d.Drain(t.Context(), d.sent(6)) },
		"the log for a hole":      func(d *driven) error { return d.Drain(t.Context(), d.sent(7)) },
		"the log for a bookmark":  func(d *driven) error { return d.Drain(t.Context(), d.mark(7), d.mark(7)) },
		"the log after silence":   func(d *driven) error { return d.Tick(t.Context()) },
		"what came before a hole": func(d *driven) error { return d.Drain(t.Context(), d.sent(6), d.sent(8)) },
		"the snapshot for a gap":  func(d *driven) error { d.log.Prune(7); return d.Tick(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			d := following(t, 3)
			d.refusal = errors.New("refused")
			if err := bring(d); !errors.Is(err, d.refusal) {
				t.Errorf("the follower goes on with %v", err)
			}
			if d.Revision() != 5 {
				t.Errorf("revision %d counts as applied", d.Revision())
			}
		})
	}
}

// TestAge checks that only a proof of completeness resets the age of the view.
func TestAge(t *testing.T) {
	d := following(t, 2)
	before := time.Now()
	younger := func() bool { return d.Age() < time.Since(before) }
	d.receive(d.sent(6))
	if younger() {
		t.Error("a change proves nothing about those after it")
	}
	d.receive(d.mark(7))
	if younger() {
		t.Error("a bookmark ahead of the view proves nothing")
	}
	d.receive(d.sent(7))
	if !younger() {
		t.Error("the view has all that the bookmark promised")
	}
}

// TestAgeOfBookmarkThatWaited checks that a bookmark that waited in the queue counts for the time
// of its arrival.
func TestAgeOfBookmarkThatWaited(t *testing.T) {
	before := time.Now()
	d := following(t, 0)
	known := time.Now()
	d.must(d.DrainLate(t.Context(), before, d.mark(5)))
	if least, age := time.Since(known), d.Age(); age < least {
		t.Errorf("the view is %s old, nothing was heard for %s", age, least)
	}
	d.receive(d.mark(5))
	if age, most := d.Age(), time.Since(known); age > most {
		t.Errorf("the view is %s old, a bookmark came within %s", age, most)
	}
}
