package changes_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/object"
)

// evenVersions keeps every other version of a service, so that services appear and disappear
// without being created or deleted.
func evenVersions(o object.Object) bool {
	version, _ := strconv.Atoi(o.GetMetadata().GetLabels()["version"])
	return version%2 == 0
}

// TestWhateverTheStreamDoes loses, repeats, swaps, forges and delays messages, and makes the
// registry fail, also in the middle of a snapshot, and the log be pruned, set back and given a new
// epoch, in any order. At every moment the view must equal the state of the log at the view's
// revision in the view's epoch. It must have all changes that the log had at the time at which the
// follower reports the view as complete. It must equal the result of the changes passed to Apply, none
// of which comes twice. Once the registry answers, the view must equal the log's current state. Objects
// that Keep excludes are left out of these comparisons.
func TestWhateverTheStreamDoes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, rt)
		rt.Repeat(map[string]func(*rapid.T){
			"":         w.check,
			"put":      w.put,
			"delete":   w.delete,
			"bookmark": w.bookmark,
			"deliver":  w.deliver,
			"lose":     func(rt *rapid.T) { w.next(rt) },
			"repeat":   func(rt *rapid.T) { w.arrive(rapid.SampledFrom(w.anyPast(rt)).Draw(rt, "past")) },
			"swap":     w.swap,
			"forge":    w.forge,
			"prune":    func(rt *rapid.T) { w.log.Prune(w.log.Revision() - rapid.Uint64Range(0, 5).Draw(rt, "keep")) },
			"restore":  w.restore,
			"outage":   func(*rapid.T) { w.registry.down.Store(!w.registry.down.Load()) },
			"break":    func(*rapid.T) { w.conn.breaks = !w.conn.breaks },
			"tick":     func(*rapid.T) { w.must(w.Tick(t.Context())) },
		})
		w.registry.down.Store(false)
		w.conn.breaks = false
		w.settle(rt)
	})
}

type moment struct {
	epoch    string
	revision uint64
}

// world is a driven follower, its log, the messages in transit between the two, and the log's state
// at each revision.
type world struct {
	*driven
	waiting []*nats.Msg
	past    []*nats.Msg
	made    map[*nats.Msg]time.Time
	history map[moment]map[object.Key]object.Object
	heads   []since
}

// since is the position of the log from a time on.
type since struct {
	moment
	at time.Time
}

func newWorld(t *testing.T, rt *rapid.T) *world {
	log := changestest.New(t)
	kinds := rapid.SampledFrom([][]string{nil, {"Service"}}).Draw(rt, "kinds")
	w := &world{
		driven: drive(t, log, kinds...), made: map[*nats.Msg]time.Time{},
		history: map[moment]map[object.Key]object.Object{},
	}
	if rapid.Bool().Draw(rt, "filtered") {
		w.keep = evenVersions
	}
	w.remember()
	w.begin()
	return w
}

func (w *world) now() moment {
	epoch, head, _, _ := w.log.Head(w.t.Context())
	return moment{epoch, head}
}

func (w *world) remember() {
	state := stateOf(w.log, w.kinds...)
	maps.DeleteFunc(state, func(_ object.Key, o object.Object) bool { return !w.keeps(o) })
	w.history[w.now()] = state
	w.heads = append(w.heads, since{w.now(), time.Now()})
}

// send puts a message on the way.
func (w *world) send(m *nats.Msg) {
	w.made[m] = time.Now()
	w.waiting = append(w.waiting, m)
}

// arrive gives the follower messages that have waited since the oldest of them was made: a bookmark
// does not say how late it comes.
func (w *world) arrive(messages ...*nats.Msg) {
	waited := time.Now()
	for _, m := range messages {
		if made := w.made[m]; made.Before(waited) {
			waited = made
		}
	}
	w.must(w.DrainLate(w.t.Context(), waited, messages...))
}

// committed records the state after a commit and queues its message.
func (w *world) committed() {
	w.remember()
	w.send(w.sent(w.log.Revision()))
}

var names = []string{"a", "b", "c.d"}

func (w *world) put(rt *rapid.T) {
	name := rapid.SampledFrom(names).Draw(rt, "name")
	if rapid.Bool().Draw(rt, "node") {
		w.log.Put(node(name))
	} else {
		w.log.Put(service(name, int(w.log.Revision())))
	}
	w.committed()
}

func (w *world) delete(rt *rapid.T) {
	before := w.log.Revision()
	if w.log.Delete(serviceKey(rapid.SampledFrom(names).Draw(rt, "name"))) == before {
		rt.Skip("there is none")
	}
	w.committed()
}

func (w *world) bookmark(*rapid.T) { w.send(w.mark(w.log.Revision())) }

// next removes and returns the next message in transit.
func (w *world) next(rt *rapid.T) *nats.Msg {
	if len(w.waiting) == 0 {
		rt.Skip("nothing is on the way")
	}
	m := w.waiting[0]
	w.waiting = w.waiting[1:]
	w.past = append(w.past, m)
	return m
}

func (w *world) deliver(rt *rapid.T) {
	batch := []*nats.Msg{w.next(rt)}
	for range min(rapid.IntRange(0, 3).Draw(rt, "more"), len(w.waiting)) {
		batch = append(batch, w.next(rt))
	}
	w.arrive(batch...)
}

func (w *world) anyPast(rt *rapid.T) []*nats.Msg {
	if len(w.past) == 0 {
		rt.Skip("nothing was sent yet")
	}
	return w.past
}

func (w *world) swap(rt *rapid.T) {
	if len(w.waiting) < 2 {
		rt.Skip("less than two are on the way")
	}
	i := rapid.IntRange(1, len(w.waiting)-1).Draw(rt, "i")
	w.waiting[0], w.waiting[i] = w.waiting[i], w.waiting[0]
}

func (w *world) forge(rt *rapid.T) {
	good := rapid.SampledFrom(w.anyPast(rt)).Draw(rt, "past")
	m := &nats.Msg{Subject: good.Subject, Data: good.Data, Header: nats.Header{}}
	maps.Copy(m.Header, good.Header)
	switch rapid.IntRange(0, 3).Draw(rt, "how") {
	case 0:
		m.Data = rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(rt, "data")
	case 1:
		if len(w.kinds) > 0 {
			rt.Skip("of kinds that are not followed the sequence is all that is looked at")
		}
		m.Header.Set("Nats-Sequence", fmt.Sprint(rapid.Uint64Range(0, w.log.Revision()+3).Draw(rt, "sequence")))
		m.Data = nil
	case 2:
		m.Header.Set("Portolan-Epoch", "forged")
	case 3:
		m.Header.Set("Status", "503")
	}
	if m.Subject == "test.rep.head" && m.Header.Get("Status") == "" {
		m.Header = nil
	}
	w.made[m] = w.made[good]
	w.arrive(m)
}

// restore sets the log back as restoring a backup does. The relay notices it and gives the log a
// new epoch.
func (w *world) restore(rt *rapid.T) {
	old, head, oldest, _ := w.log.Head(w.t.Context())
	if oldest > 0 || head == 0 {
		rt.Skip("there is no backup")
	}
	w.log.Restore(rapid.Uint64Range(0, min(head, 4)).Draw(rt, "by"))
	if _, err := w.log.NewEpoch(w.t.Context()); err != nil {
		rt.Fatal(err)
	}
	now := w.now()
	for revision := range now.revision + 1 {
		w.history[moment{now.epoch, revision}] = w.history[moment{old, revision}]
	}
	w.heads = append(w.heads, since{now, time.Now()})
}

// check compares the view with the recorded state of the log.
func (w *world) check(rt *rapid.T) {
	epoch, revision := w.Position()
	want, ok := w.history[moment{epoch, revision}]
	if !ok {
		rt.Fatalf("the view is at %d of %s, where the log never was", revision, epoch)
	}
	if err := same(want, viewOf(w.Follower)); err != nil {
		rt.Fatalf("at %d of %s: %v", revision, epoch, err)
	}
	if err := same(w.replay.objects, viewOf(w.Follower)); err != nil {
		rt.Fatalf("what was handed over is not the view: %v", err)
	}
	w.checkAge(rt)
}

// checkAge compares the view with the log at the time at which the follower reports the view as complete.
func (w *world) checkAge(rt *rapid.T) {
	epoch, revision := w.Position()
	complete := time.Now().Add(-w.Age())
	for _, then := range slices.Backward(w.heads) {
		if then.at.Before(complete) {
			if then.epoch == epoch && revision < then.revision {
				rt.Fatalf("the view is at %d, and said to be complete since the log was at %d", revision, then.revision)
			}
			return
		}
	}
}

// settle makes the follower ask until it has the log's head. Three requests are enough: the first
// may show that a snapshot is needed.
func (w *world) settle(rt *rapid.T) {
	for range 3 {
		w.must(w.Tick(w.t.Context()))
	}
	epoch, revision := w.Position()
	if got := (moment{epoch, revision}); got != w.now() {
		rt.Fatalf("the view has come to rest at %v, the log is at %v", got, w.now())
	}
	if w.Revision() != revision {
		rt.Fatalf("applied up to %d of %d", w.Revision(), revision)
	}
	w.check(rt)
}
