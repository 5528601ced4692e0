package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// State is the content of a store: its objects and its log, read in two steps.
type State struct {
	Head store.Head
	Rows map[object.Key]store.Row
	Log  []store.Record
}

// CheckInvariants reads the whole store and checks that revisions have no gaps and that the log
// replays to the present state. It returns the content, and an error that lists the violations.
// Nothing may write to the store meanwhile.
func CheckInvariants(ctx context.Context, s store.Store) (State, error) {
	state, err := readState(ctx, s)
	if err != nil {
		return state, err
	}
	return state, errors.Join(checkRows(state), checkLog(state))
}

func readState(ctx context.Context, s store.Store) (State, error) {
	var state State
	var err error
	if state.Head, state.Rows, err = ReadSnapshot(ctx, s); err != nil {
		return state, err
	}
	for after := state.Head.Oldest; ; {
		records, h, err := s.Changes(ctx, after, 100)
		if err != nil {
			return state, err
		}
		if h != state.Head {
			return state, fmt.Errorf("the head was %+v in the snapshot and is %+v in the log", state.Head, h)
		}
		if len(records) == 0 {
			return state, nil
		}
		state.Log = append(state.Log, records...)
		after = records[len(records)-1].Revision
	}
}

// ReadSnapshot reads all rows. It returns an error unless they come in order, each once.
func ReadSnapshot(ctx context.Context, s store.Store) (store.Head, map[object.Key]store.Row, error) {
	var head store.Head
	all := map[object.Key]store.Row{}
	err := s.Snapshot(ctx, func(h store.Head, rows iter.Seq2[store.Row, error]) error {
		head = h
		var last object.Key
		for row, err := range rows {
			if err != nil {
				return err
			}
			if object.Compare(last, row.Key) >= 0 {
				return fmt.Errorf("snapshot: %s came after %s", row.Key, last)
			}
			last, all[row.Key] = row.Key, row
		}
		return nil
	})
	return head, all, err
}

func checkRows(state State) error {
	var errs []error
	byRevision := map[uint64]object.Key{}
	for _, key := range slices.SortedFunc(maps.Keys(state.Rows), object.Compare) {
		row := state.Rows[key]
		if row.Revision == 0 || row.Revision > state.Head.Revision {
			errs = append(errs, fmt.Errorf("%s has revision %d, the head is %d", key, row.Revision, state.Head.Revision))
		}
		if other, taken := byRevision[row.Revision]; taken {
			errs = append(errs, fmt.Errorf("%s and %s both have revision %d", key, other, row.Revision))
		}
		byRevision[row.Revision] = key
	}
	return errors.Join(errs...)
}

// checkLog replays the log. If the log is pruned, objects that it does not contain must be as old
// as the pruned part.
func checkLog(state State) error {
	var errs []error
	complain := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if got, want := uint64(len(state.Log)), state.Head.Revision-state.Head.Oldest; got != want {
		complain("the log has %d records, from %d to %d there should be %d", got, state.Head.Oldest, state.Head.Revision, want)
	}
	last := map[object.Key]store.Record{}
	for i, r := range state.Log {
		if want := state.Head.Oldest + uint64(i) + 1; r.Revision != want {
			complain("record %d has revision %d, want %d", i, r.Revision, want)
		}
		before, known := last[r.Key]
		exists := known && before.Type == put
		switch {
		case r.Type != put && r.Type != removal:
			complain("revision %d has type %v", r.Revision, r.Type)
		case r.Type == removal && !exists && (known || state.Head.Oldest == 0):
			complain("revision %d deletes %s, which is not there", r.Revision, r.Key)
		case r.Type == removal && exists && (!bytes.Equal(r.Data, before.Data) || r.UID != before.UID):
			complain("revision %d deletes %s as something that it last was not", r.Revision, r.Key)
		case r.Type == put && exists && r.UID != before.UID:
			complain("revision %d makes %s another object without deleting it", r.Revision, r.Key)
		}
		if r.Time.IsZero() {
			complain("revision %d has no time", r.Revision)
		}
		last[r.Key] = r
	}
	return errors.Join(append(errs, compareReplay(state, last))...)
}

func compareReplay(state State, last map[object.Key]store.Record) error {
	var errs []error
	for key, row := range state.Rows {
		r, logged := last[key]
		switch {
		case !logged && row.Revision > state.Head.Oldest:
			errs = append(errs, fmt.Errorf("%s of revision %d is not in the log", key, row.Revision))
		case logged && (r.Type != put || r.Revision != row.Revision || r.UID != row.UID || !bytes.Equal(r.Data, row.Data)):
			errs = append(errs, fmt.Errorf("%s is not as revision %d left it", key, r.Revision))
		}
	}
	for key, r := range last {
		if _, exists := state.Rows[key]; !exists && r.Type == put {
			errs = append(errs, fmt.Errorf("%s, written by revision %d, is lost", key, r.Revision))
		}
	}
	return errors.Join(errs...)
}
