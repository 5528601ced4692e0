package store

import (
	"slices"
	"sync"
)

// Limits of the tail. They allow for many batches, more than a reader at the head can have missed.
const (
	maxTailRecords = 4096
	maxTailBytes   = 8 << 20
)

// RecentLog keeps the newest records that this process has committed, so that followers of the log
// need not read them from the database. The records have no gap, and the last of them is the newest
// record of the log as far as this process knows. A commit of another process empties the tail
// before it wakes a waiter. A reader that first calls Wake and then reads the tail is therefore
// woken for every record that was not in the tail. The zero value is empty and ready.
type RecentLog struct {
	mu      sync.Mutex
	head    Head     // guarded by mu; the head as of the last record
	records []Record // guarded by mu; consecutive revisions that end at head
	bytes   int      // guarded by mu
}

// Tail implements Tail of [Store].
func (r *RecentLog) Tail(epoch string, after uint64, limit int) ([]Record, Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.records) == 0 || epoch != "" && epoch != r.head.Epoch || after >= r.head.Revision || after+1 < r.records[0].Revision {
		return nil, Head{}
	}
	found := r.records[after+1-r.records[0].Revision:]
	return append([]Record(nil), found[:min(limit, len(found))]...), r.head
}

// Committed appends all records of a commit. head is the head after that commit.
func (r *RecentLog) Committed(head Head, records []Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.head.Epoch != head.Epoch || r.head.Revision+1 != records[0].Revision {
		r.forget()
	}
	r.head = head
	for _, record := range records {
		if record.decoded == nil {
			record.decoded = &decoded{}
		}
		r.records = append(r.records, record)
		r.bytes += len(record.Data)
	}
	if len(r.records) > maxTailRecords || r.bytes > maxTailBytes {
		r.halve()
	}
}

// halve drops the older half of the records. It drops many at once because the remaining records
// have to be moved. Readers have copies.
func (r *RecentLog) halve() {
	r.records, r.bytes = slices.Delete(r.records, 0, len(r.records)/2), 0
	for i := range r.records {
		r.bytes += len(r.records[i].Data)
	}
}

// Observe compares the tail with a head that was read from the database. If they differ, another
// process has committed or the log was set back, and Observe empties the tail.
func (r *RecentLog) Observe(head Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if head.Epoch != r.head.Epoch || head.Revision != r.head.Revision {
		r.forget()
	}
}

// ForgetTail empties the tail.
func (r *RecentLog) ForgetTail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
}

func (r *RecentLog) forget() { r.head, r.records, r.bytes = Head{}, nil, 0 }
