package stores

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"portolan.dev/faults/sim/netem"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// Database keeps the objects and the log of registries. It is safe for concurrent use.
type Database struct {
	// OnCommit, if not nil, is called with the records of each commit, in order and before any
	// session is notified of the commit.
	OnCommit func(records []store.Record)

	emulator *netem.Emulator

	mu           sync.Mutex
	installation string
	epochs       int
	head         store.Head
	base         uint64 // the revision before records[0]
	records      []store.Record
	rows         map[object.Key]store.Row
	sessions     map[*Session]struct{}
	locks        map[string]chan struct{} // a channel has one element while its lock is held
}

// NewDatabase returns an empty database. If emulator is nil, there are no delays and losses.
func NewDatabase(emulator *netem.Emulator) *Database {
	d := &Database{emulator: emulator, installation: "simulated", rows: map[object.Key]store.Row{}, sessions: map[*Session]struct{}{}, locks: map[string]chan struct{}{}}
	d.startEpoch()
	return d
}

// startEpoch gives the log a new epoch. The caller holds mu.
func (d *Database) startEpoch() {
	d.epochs++
	d.head.Epoch = fmt.Sprintf("epoch-%d", d.epochs)
}

// execute executes a batch of the session origin, and returns the outcome and the new head.
func (d *Database) execute(origin *Session, ops []store.Op) (store.Decision, store.Head) {
	d.mu.Lock()
	defer d.mu.Unlock()
	usage := store.UsageFor(origin.usage, d.head, ops, func(after uint64) ([]store.Record, error) {
		return d.after(after, store.MaxUsageRecords), nil
	})
	decision := store.Decide(time.Now().Truncate(time.Microsecond), d.head, d.rows, ops, usage)
	for _, w := range decision.Writes {
		if w.After == nil {
			delete(d.rows, w.Key)
		} else {
			d.rows[w.Key] = *w.After
		}
	}
	if len(decision.Records) == 0 {
		return decision, d.head
	}
	d.head.Revision += uint64(len(decision.Records))
	d.records = append(d.records, decision.Records...)
	if d.OnCommit != nil {
		d.OnCommit(decision.Records)
	}
	d.notify(origin)
	return decision, d.head
}

// notify tells all sessions except origin that the head has moved. A session learns of it after the
// delay of its link, but at the latest after 100 ms, because sessions poll. The caller holds mu.
func (d *Database) notify(origin *Session) {
	const poll = 100 * time.Millisecond
	for s := range d.sessions {
		if s == origin {
			continue
		}
		wake := func() {
			s.ForgetTail()
			s.Notify()
		}
		if fate := s.next(); fate.Delay > 0 {
			time.AfterFunc(min(fate.Delay, poll), wake)
		} else {
			wake()
		}
	}
}

// sorted returns the rows, sorted by key. The caller holds mu.
func (d *Database) sorted() []store.Row {
	return slices.SortedFunc(maps.Values(d.rows), func(a, b store.Row) int { return object.Compare(a.Key, b.Key) })
}

// after returns at most limit records that follow a revision. The caller holds mu.
func (d *Database) after(revision uint64, limit int) []store.Record {
	if revision >= d.head.Revision {
		return nil
	}
	found := d.records[revision-d.base:]
	return slices.Clone(found[:min(limit, len(found))])
}

// lock returns the channel of the lock with the given name.
func (d *Database) lock(name string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks[name] == nil {
		d.locks[name] = make(chan struct{}, 1)
	}
	return d.locks[name]
}
