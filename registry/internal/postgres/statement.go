package postgres

import (
	"cmp"
	"time"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/object"
)

// Effects of a change on the row of its key.
const (
	rowStays      int16 = iota // the row is written by another change of the batch
	rowAppears                 // the row is inserted; it must be absent
	rowChanges                 // the row is updated; it must exist, with the guarding revision and UID if these are given
	rowDisappears              // the row is deleted; same condition
)

// commitQuery calls the function that commits a batch. All writes of objects and changes use it. It
// returns NULLs, and writes nothing, if an expectation did not hold.
const commitQuery = `SELECT new_epoch, new_revision, new_oldest FROM pg_temp.registry_commit(
	$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)`

// commitFunction creates the function of commitQuery, for one session.
//
//   - All parts join head, so the head is locked before any row. Two batches can therefore not wait
//     for each other.
//   - Its snapshot may be older than the lock. UPDATE, DELETE and FOR SHARE check the rows that
//     they find again in their newest version, and INSERT finds every taken key. Any other row that
//     is missed is missing from the count, like any other broken expectation.
//   - If the count differs from the expected count, or a key is taken, all writes are undone. Undoing them
//     requires a function: the exception is caught in the server, which does not log it, and the
//     batch remains one round trip. A transaction that the client rolls back would hold the head
//     for another round trip, and checking the rows before writing them would look up each row
//     twice.
//   - An update of head returns the newest version of the row, so it returns the epoch of the log under
//     which the batch is committed.
//   - The data of a deletion may be empty. The data of the row is then logged.
const commitFunction = `
CREATE FUNCTION pg_temp.registry_commit(
	int2[], int2[], text[], text[], text[], text[], bytea[], int8[], int8[], text[], text[], text[], text[], text[], int8[], timestamptz, int8, text, int8, text,
	OUT new_epoch text, OUT new_revision int8, OUT new_oldest int8
) LANGUAGE plpgsql AS $function$
DECLARE
	done     int8;
	notified text;
BEGIN
	WITH input AS (
		SELECT * FROM unnest($1::int2[], $2::int2[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bytea[], $8::int8[], $9::int8[], $10::text[], $11::text[])
			WITH ORDINALITY AS i (effect, type, kind, namespace, name, uid, data, epoch, guard, guard_uid, traceparent, ord)
	), head AS (
		UPDATE registry_head SET revision = revision + cardinality($1) RETURNING epoch, revision, oldest, revision - cardinality($1) AS base
	), fences AS (
		SELECT l.epoch
		FROM unnest($12::text[], $13::text[], $14::text[], $15::int8[]) AS f (kind, namespace, name, epoch), registry_objects l, head
		WHERE l.kind = f.kind AND l.namespace = f.namespace AND l.name = f.name AND l.epoch = f.epoch AND head.base >= 0
		FOR SHARE OF l
	), inserted AS (
		INSERT INTO registry_objects (kind, namespace, name, uid, revision, epoch, data)
		SELECT i.kind, i.namespace, i.name, i.uid, head.base + i.ord, i.epoch, i.data
		FROM input i, head WHERE i.effect = 1
		RETURNING 1
	), updated AS (
		UPDATE registry_objects o SET uid = i.uid, revision = head.base + i.ord, epoch = i.epoch, data = i.data
		FROM input i, head
		WHERE i.effect = 2 AND o.kind = i.kind AND o.namespace = i.namespace AND o.name = i.name
			AND (i.guard = 0 OR o.revision = i.guard) AND (i.guard_uid = '' OR o.uid = i.guard_uid)
		RETURNING 1
	), deleted AS (
		DELETE FROM registry_objects o USING input i, head
		WHERE i.effect = 3 AND o.kind = i.kind AND o.namespace = i.namespace AND o.name = i.name
			AND (i.guard = 0 OR o.revision = i.guard) AND (i.guard_uid = '' OR o.uid = i.guard_uid)
		RETURNING i.ord, i.type, o.kind, o.namespace, o.name, o.uid, o.data, i.traceparent, i.data = '' AS unlogged
	), logged AS (
		INSERT INTO registry_changes (revision, type, kind, namespace, name, uid, data, time, traceparent, batch)
		SELECT head.base + c.ord, c.type, c.kind, c.namespace, c.name, c.uid, c.data, $16::timestamptz, c.traceparent, $17::int8
		FROM head, (
			SELECT ord, type, kind, namespace, name, uid, data, traceparent FROM input WHERE data <> ''
			UNION ALL
			SELECT ord, type, kind, namespace, name, uid, data, traceparent FROM deleted WHERE unlogged
		) c
		RETURNING 1
	)
	SELECT head.epoch, head.revision, head.oldest,
		(SELECT count(*) FROM fences) + (SELECT count(*) FROM inserted) + (SELECT count(*) FROM updated) + (SELECT count(*) FROM deleted),
		pg_notify('` + channel + `', $18)::text
	INTO new_epoch, new_revision, new_oldest, done, notified
	FROM head;
	IF done <> $19 OR $20 NOT IN ('', new_epoch) THEN
		RAISE SQLSTATE '` + brokenExpectation + `';
	END IF;
EXCEPTION WHEN SQLSTATE '` + brokenExpectation + `' OR unique_violation THEN
	new_epoch := NULL;
	new_revision := NULL;
	new_oldest := NULL;
END
$function$`

// brokenExpectation is the SQLSTATE that commitFunction raises, and catches, if a row is not as
// expected.
const brokenExpectation = "PX001"

// batchRows is a batch in columns, the form of the parameters of commitQuery.
type batchRows struct {
	effects, types          []int16
	kinds, namespaces       column[string]
	names, uids             column[string]
	data                    column[[]byte]
	epochs, guards          []int64
	guardUIDs, traceparents column[string]
	fences                  []store.Fence
	logEpoch                string // the log must have this epoch; empty: any
}

func newBatchRows(n int) *batchRows {
	return &batchRows{
		effects: make([]int16, 0, n), types: make([]int16, 0, n), kinds: make(column[string], 0, n), namespaces: make(column[string], 0, n),
		names: make(column[string], 0, n), uids: make(column[string], 0, n), data: make(column[[]byte], 0, n), epochs: make([]int64, 0, n),
		guards: make([]int64, 0, n), guardUIDs: make(column[string], 0, n), traceparents: make(column[string], 0, n),
	}
}

// fromOps converts operations to a batch that succeeds only if each of them succeeds. It returns
// false if one operation depends on another.
func fromOps(ops []store.Op) (*batchRows, bool) {
	b := newBatchRows(len(ops))
	fences := map[object.Key]uint64{}
	for _, op := range ops {
		if !b.expectEpoch(op.LogEpoch) {
			return nil, false
		}
		if op.Fence == nil {
			continue
		}
		if epoch, known := fences[op.Fence.Lease]; known && epoch != op.Fence.Epoch {
			return nil, false
		} else if !known {
			fences[op.Fence.Lease] = op.Fence.Epoch
			b.fences = append(b.fences, *op.Fence)
		}
	}
	seen := make(map[object.Key]bool, len(ops))
	for _, op := range ops {
		if _, fencing := fences[op.Key]; fencing || seen[op.Key] {
			return nil, false
		}
		seen[op.Key] = true
		b.add(effectOf(op.Action), typeOf(op.Action), op.Key, op.UID, op.Data, op.Epoch, op.Traceparent)
		b.guard(op.Revision, op.UID)
	}
	return b, true
}

// expectEpoch makes the batch depend on an epoch of the log, unless it is empty. It returns false if
// the batch depends on another epoch already.
func (b *batchRows) expectEpoch(epoch string) bool {
	if epoch != "" && b.logEpoch != "" && epoch != b.logEpoch {
		return false
	}
	b.logEpoch = cmp.Or(b.logEpoch, epoch)
	return true
}

func effectOf(action store.Action) int16 {
	switch action {
	case store.Create:
		return rowAppears
	case store.Update:
		return rowChanges
	default:
		return rowDisappears
	}
}

func typeOf(action store.Action) registryv1.ChangeType {
	if action == store.Delete {
		return registryv1.ChangeType_CHANGE_TYPE_DELETE
	}
	return registryv1.ChangeType_CHANGE_TYPE_PUT
}

// fromDecision converts a decision to a batch. The last record of a key carries the write to its row.
func fromDecision(d store.Decision) *batchRows {
	writes := make(map[object.Key]store.Write, len(d.Writes))
	for _, write := range d.Writes {
		writes[write.Key] = write
	}
	last := make(map[object.Key]int, len(d.Writes))
	for i, r := range d.Records {
		last[r.Key] = i
	}
	b := newBatchRows(len(d.Records))
	for i, r := range d.Records {
		write, net := writes[r.Key]
		effect, epoch := rowStays, uint64(0)
		switch {
		case !net || last[r.Key] != i:
		case write.After == nil:
			effect = rowDisappears
		case write.Before == 0:
			effect, epoch = rowAppears, write.After.Epoch
		default:
			effect, epoch = rowChanges, write.After.Epoch
		}
		b.add(effect, r.Type, r.Key, r.UID, r.Data, epoch, r.Traceparent)
		b.guard(write.Before, "")
	}
	return b
}

func (b *batchRows) add(effect int16, kind registryv1.ChangeType, key object.Key, uid string, data []byte, epoch uint64, traceparent string) {
	if data == nil {
		data = []byte{} // nil would be NULL
	}
	b.effects, b.types = append(b.effects, effect), append(b.types, int16(kind))
	b.kinds, b.namespaces, b.names = append(b.kinds, key.Kind), append(b.namespaces, key.Namespace), append(b.names, key.Name)
	b.uids, b.data, b.epochs = append(b.uids, uid), append(b.data, data), append(b.epochs, int64(epoch))
	b.traceparents = append(b.traceparents, traceparent)
}

func (b *batchRows) guard(revision uint64, uid string) {
	b.guards, b.guardUIDs = append(b.guards, int64(revision)), append(b.guardUIDs, uid)
}

// expected returns the number of rows and fences that commitQuery has to find.
func (b *batchRows) expected() int {
	n := len(b.fences)
	for _, effect := range b.effects {
		if effect != rowStays {
			n++
		}
	}
	return n
}

// records returns the log records of the batch. Their revisions follow base. It returns nil if not all
// records are in memory.
func (b *batchRows) records(base uint64, now time.Time) []store.Record {
	records := make([]store.Record, len(b.effects))
	for i := range records {
		if len(b.data[i]) == 0 {
			return nil // the data of this deletion is only in the database
		}
		records[i] = store.Record{
			Revision: base + uint64(i) + 1, Type: registryv1.ChangeType(b.types[i]), Key: object.Key{Kind: b.kinds[i], Namespace: b.namespaces[i], Name: b.names[i]},
			UID: b.uids[i], Data: b.data[i], Time: now.UTC(), Traceparent: b.traceparents[i],
		}
	}
	return records
}

// args returns the parameters of commitQuery.
func (b *batchRows) args(now time.Time, mark int64, sender string) []any {
	kinds, namespaces, names := make(column[string], len(b.fences)), make(column[string], len(b.fences)), make(column[string], len(b.fences))
	epochs := make([]int64, len(b.fences))
	for i, fence := range b.fences {
		kinds[i], namespaces[i], names[i], epochs[i] = fence.Lease.Kind, fence.Lease.Namespace, fence.Lease.Name, int64(fence.Epoch)
	}
	return []any{
		b.effects, b.types, b.kinds, b.namespaces, b.names, b.uids, b.data, b.epochs, b.guards, b.guardUIDs, b.traceparents,
		kinds, namespaces, names, epochs, now, mark, sender, b.expected(), b.logEpoch,
	}
}
