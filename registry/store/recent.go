package store

import "sync"

// Bounds of the tail: of what a reader that is at the head can have missed, many batches.
const (
	maxTailRecords = 4096
	maxTailBytes   = 8 << 20
)

// Recent remembers the newest commits of its process, so that those who follow the log need not ask the database for what was just in their hands. It
// has no gap, and it ends where the log ends as far as anybody has said: what others commit empties it, before their commit wakes anybody. So whoever
// takes a channel from Wake first and then reads the tail is woken for all that was not in it. The zero value is empty and ready.
type Recent struct {
	mu      sync.Mutex
	head    Head     // guarded by mu; as it was with the last record
	records []Record // guarded by mu; of consecutive revisions, up to that of head
	bytes   int      // guarded by mu
}

// Tail is the Tail of [Store].
func (r *Recent) Tail(epoch string, after uint64, limit int) ([]Record, Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.records) == 0 || epoch != "" && epoch != r.head.Epoch || after >= r.head.Revision || after+1 < r.records[0].Revision {
		return nil, Head{}
	}
	found := r.records[after+1-r.records[0].Revision:]
	return append([]Record(nil), found[:min(limit, len(found))]...), r.head
}

// Committed appends what a commit wrote, all of it; head is as it was with that.
func (r *Recent) Committed(head Head, records []Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.head.Epoch != head.Epoch || r.head.Revision+1 != records[0].Revision {
		r.forget()
	}
	r.head = head
	for _, record := range records {
		record.decoded = &decoded{}
		r.records = append(r.records, record)
		r.bytes += len(record.Data)
	}
	if len(r.records) > maxTailRecords || r.bytes > maxTailBytes {
		r.halve()
	}
}

// halve drops the older records, many at once: the rest has to be moved.
func (r *Recent) halve() {
	keep := append([]Record(nil), r.records[len(r.records)/2:]...)
	r.records, r.bytes = keep, 0
	for i := range keep {
		r.bytes += len(keep[i].Data)
	}
}

// Saw compares with a head that was read. Where that is another one, somebody else has committed, or the log was set back.
func (r *Recent) Saw(head Head) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if head.Epoch != r.head.Epoch || head.Revision != r.head.Revision {
		r.forget()
	}
}

// ForgetTail empties the tail.
func (r *Recent) ForgetTail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
}

func (r *Recent) forget() { r.head, r.records, r.bytes = Head{}, nil, 0 }
