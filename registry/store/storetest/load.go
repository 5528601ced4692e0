package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// Ledger records the outcomes that writers got. A store is compared with it afterwards.
type Ledger struct {
	mu      sync.Mutex
	entries []Entry // guarded by mu
}

// Entry is the outcome of one write. The data of every write, or the UID of a deletion, are unique.
type Entry struct {
	Action   store.Action
	Key      object.Key
	UID      string
	Data     []byte
	Revision uint64 // set if Err is nil
	Err      error
}

// Add adds an entry.
func (l *Ledger) Add(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, e)
}

// Entries returns all entries so far.
func (l *Ledger) Entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.entries)
}

// Load runs writers that create, change and delete objects of their own. stop is called with the
// entry of every write; a writer ends when stop returns true. Load returns when all writers have
// ended. The name distinguishes the objects of several loads on one place.
func Load(ctx context.Context, s store.Store, name string, writers int, ledger *Ledger, stop func(Entry) bool) {
	var wg sync.WaitGroup
	for writer := range writers {
		wg.Go(func() {
			for round := 0; ; round++ {
				object := fmt.Sprintf("%s-%d-%d", name, writer, round)
				if !writeLifecycle(ctx, s, object, func(e Entry) bool { ledger.Add(e); return !stop(e) }) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// writeLifecycle creates an object, changes it three times and deletes it. It ends early if goOn returns
// false or a write fails. It returns false in the first case.
func writeLifecycle(ctx context.Context, s store.Store, name string, goOn func(Entry) bool) bool {
	uid := "uid-" + name
	ops := []store.Op{create(name, uid, name+" 0")}
	for i := 1; i <= 3; i++ {
		ops = append(ops, update(name, uid, 0, fmt.Sprint(name, " ", i)))
	}
	for _, op := range append(ops, remove(name, uid, 0)) {
		result, err := s.Submit(ctx, op)
		if !goOn(Entry{Action: op.Action, Key: op.Key, UID: op.UID, Data: op.Data, Revision: result.Revision, Err: err}) {
			return false
		}
		if err != nil {
			return true
		}
	}
	return true
}

// Verify compares a state with the ledger. The log of the state must not be pruned. Acknowledged
// writes must be in the log at the acknowledged revision. Refused writes must not be in it. Writes
// with an unknown outcome may be in it. If the ledger is complete, the log must hold nothing else.
// The ledger of a killed process is incomplete, because it lacks the outcomes that the process
// would have received.
func (l *Ledger) Verify(state State, complete bool) error {
	logged := make(map[string]store.Record, len(state.Log))
	for _, r := range state.Log {
		id := identity(r.Type == removal, r.UID, r.Data)
		if _, twice := logged[id]; twice {
			return fmt.Errorf("revision %d repeats a write: %s", r.Revision, id)
		}
		logged[id] = r
	}
	var errs []error
	for _, e := range l.Entries() {
		id := identity(e.Action == store.Delete, e.UID, e.Data)
		r, found := logged[id]
		switch {
		case e.Err == nil && !found:
			errs = append(errs, fmt.Errorf("%s, acknowledged as revision %d, is not in the log", id, e.Revision))
		case e.Err == nil && (r.Revision != e.Revision || r.Key != e.Key || e.Data != nil && !bytes.Equal(r.Data, e.Data)):
			errs = append(errs, fmt.Errorf("%s was acknowledged as revision %d and is logged as %d, %s", id, e.Revision, r.Revision, r.Key))
		case e.Err != nil && found && !errors.Is(e.Err, store.ErrUnknown):
			errs = append(errs, fmt.Errorf("%s was refused (%w) and is in the log as revision %d", id, e.Err, r.Revision))
		}
		delete(logged, id)
	}
	for id, r := range logged {
		if !complete {
			break
		}
		errs = append(errs, fmt.Errorf("revision %d is a write that nobody made: %s", r.Revision, id))
	}
	return errors.Join(errs...)
}

func identity(deletion bool, uid string, data []byte) string {
	if deletion {
		return "deletion of " + uid
	}
	return "write of " + string(data)
}
