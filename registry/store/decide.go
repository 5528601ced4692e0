package store

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/object"
)

// Decision is the result of [Decide] for a batch.
type Decision struct {
	// Outcomes has one outcome for each operation, in the order of the operations.
	Outcomes []batch.Outcome[Result]
	// Records are the log records of the successful operations. Their revisions follow the base
	// without gaps.
	Records []Record
	// Writes are the net changes to the rows, at most one for each key.
	Writes []Write
}

// Write is a change to a row.
type Write struct {
	Key object.Key
	// Before is the present revision of the row. 0 means that the row does not exist.
	Before uint64
	// After is the new row. nil deletes the row.
	After *Row
}

// RowKeys returns the keys of all rows that decide on the operations, each once, in order.
func RowKeys(ops []Op) []object.Key {
	keys := make([]object.Key, 0, len(ops))
	for _, op := range ops {
		keys = append(keys, op.Key)
		if op.Fence != nil {
			keys = append(keys, op.Fence.Lease)
		}
	}
	slices.SortFunc(keys, object.Compare)
	return slices.Compact(keys)
}

// Decide applies operations in order to rows, which must contain the rows of all [RowKeys] keys
// that exist. head is the extent of the log before the operations. usage has the present use of the
// limited accounts.
func Decide(now time.Time, head Head, rows map[object.Key]Row, ops []Op, usage Usage) Decision {
	d := Decision{Outcomes: make([]batch.Outcome[Result], len(ops))}
	present := make(map[object.Key]Row, len(rows)) // the rows after the operations so far
	for key, row := range rows {
		present[key] = row
	}
	base := head.Revision
	var changed []object.Key // in the order of their first change
	for i, op := range ops {
		row, exists := present[op.Key]
		err := checkOp(op, head, row, exists, present)
		if err == nil {
			err = usage.charge(op)
		}
		if err != nil {
			d.Outcomes[i].Err = err
			continue
		}
		base++
		record := Record{
			Revision: base, Type: registryv1.ChangeType_CHANGE_TYPE_PUT, Key: op.Key, UID: op.UID, Data: op.Data,
			Time: now, Traceparent: op.Traceparent,
		}
		if op.Action == Delete {
			record.Type, record.UID, record.Data = registryv1.ChangeType_CHANGE_TYPE_DELETE, row.UID, row.Data
			delete(present, op.Key)
		} else {
			present[op.Key] = Row{Key: op.Key, UID: op.UID, Revision: base, Epoch: op.Epoch, Data: op.Data}
		}
		d.Records = append(d.Records, record)
		d.Outcomes[i].Value.Revision = base
		changed = append(changed, op.Key)
	}
	d.Writes = netWrites(rows, present, changed)
	return d
}

// checkOp returns the reason why an operation fails, or nil.
func checkOp(op Op, head Head, row Row, exists bool, present map[object.Key]Row) error {
	if op.LogEpoch != "" && op.LogEpoch != head.Epoch {
		return &EpochError{Want: op.LogEpoch, Have: head.Epoch}
	}
	if op.Fence != nil {
		if lease, ok := present[op.Fence.Lease]; !ok || lease.Epoch != op.Fence.Epoch {
			return &Fenced{Fence: *op.Fence, Have: lease.Epoch}
		}
	}
	switch {
	case op.Action == Create && exists:
		return ErrExists
	case op.Action == Create:
		return nil
	case !exists:
		return ErrNotFound
	case op.UID != "" && op.UID != row.UID, op.Revision != 0 && op.Revision != row.Revision:
		return &ConflictError{Have: row.Revision, HaveUID: row.UID}
	}
	return nil
}

func netWrites(before, after map[object.Key]Row, changed []object.Key) []Write {
	writes := make([]Write, 0, len(changed))
	seen := make(map[object.Key]bool, len(changed))
	for _, key := range changed {
		if seen[key] {
			continue
		}
		seen[key] = true
		write := Write{Key: key, Before: before[key].Revision}
		if row, ok := after[key]; ok {
			write.After = &row
		}
		if write.Before != 0 || write.After != nil { // otherwise the row was created and deleted within the batch
			writes = append(writes, write)
		}
	}
	return writes
}

// maxKey is the longest key in bytes. The indexes of all databases accept it.
const maxKey = 1024

// Check returns an [*InvalidOp] for an operation that no store can execute.
func (op Op) Check() error {
	why := ""
	switch {
	case op.Action < Create || op.Action > Delete:
		why = "unknown action"
	case op.Key.Kind == "" || op.Key.Name == "":
		why = "no kind or no name"
	case op.Action != Delete && op.UID == "":
		why = "no UID"
	case op.Action != Delete && len(op.Data) == 0:
		why = "no object"
	case op.Action == Delete && len(op.Data) > 0 && (op.UID == "" || op.Revision == 0):
		why = "data of no certain version"
	case op.Action == Create && op.Revision != 0:
		why = "a new object has no revision to be based on"
	case !isText(op.Key.Kind, op.Key.Namespace, op.Key.Name, op.UID, op.Traceparent):
		why = "a key, UID or traceparent that is not text"
	case !isText(op.LogEpoch):
		why = "an epoch of the log that is not text"
	case len(op.Key.Kind)+len(op.Key.Namespace)+len(op.Key.Name) > maxKey:
		why = "the key is too long"
	case len(op.Charges) > 0 && op.Action != Create && op.Revision == 0:
		why = "charges of no certain version"
	case op.Fence != nil && !isText(op.Fence.Lease.Kind, op.Fence.Lease.Namespace, op.Fence.Lease.Name):
		why = "a lease that is not text"
	}
	if why == "" {
		return nil
	}
	return &InvalidOp{Action: op.Action, Key: op.Key, Why: why}
}

// isText reports whether every database accepts the strings as text. A string that a database
// rejects would fail its whole batch.
func isText(all ...string) bool {
	for _, s := range all {
		if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
			return false
		}
	}
	return true
}

// size returns the bytes that an operation adds to its batch, with an estimate of 256 for
// everything but the object.
func size(op Op) int { return len(op.Data) + 256 }
