package watch

import (
	"sync"

	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/registry/view"
	"portolan.dev/registry/wire"
)

// Batch is changes of one kind that the view took in one step.
type Batch struct {
	entries []*entry
	bytes   int // of memory that the changes take, about
}

// What a change takes beside its objects, and how much an object takes for each byte of its encoding: it is kept as message, as it is
// stored, and as it is sent. Measured with services of 550 bytes: 2.9 KB a change.
const (
	changeOverhead = 256
	objectFactor   = 5
)

func (b *Batch) add(change *view.Change) {
	b.entries = append(b.entries, &entry{change: change})
	b.bytes += changeOverhead + objectFactor*len(change.Last.Bytes)
}

// last returns the revision of the batch's last change.
func (b *Batch) last() uint64 { return b.entries[len(b.entries)-1].change.Revision }

// entry is a change and, once somebody asked for it, its encoding.
type entry struct {
	change  *view.Change
	encode  sync.Once
	encoded []byte
}

func (e *entry) bytes() []byte {
	e.encode.Do(func() { e.encoded = wire.Change(int32(e.change.Type), e.change.Last.Bytes, e.change.Revision) })
	return e.encoded
}

// Filter says which objects a watcher wants.
type Filter struct {
	Namespace string                // empty: all
	Match     func(*view.Item) bool // nil: all
}

func (f Filter) wants(item *view.Item) bool {
	return item != nil && f.covers(item) && (f.Match == nil || f.Match(item))
}

// covers says whether an object can be wanted, whatever is in it.
func (f Filter) covers(item *view.Item) bool {
	return f.Namespace == "" || item.Key.Namespace == f.Namespace
}

// encoding returns what a change is for somebody with this filter: the change itself, the deletion of an object that is no longer wanted, or nothing.
func (f Filter) encoding(e *entry) []byte {
	change := e.change
	switch {
	case change.New == nil:
		if f.wants(change.Last) {
			return e.bytes()
		}
	case f.wants(change.New):
		return e.bytes()
	case f.wants(change.Old):
		return gone(change.Old, change.Revision)
	}
	return nil
}

// gone encodes the deletion of an object that is still there but no longer wanted.
func gone(item *view.Item, revision uint64) []byte {
	return wire.Change(int32(registryv1.ChangeType_CHANGE_TYPE_DELETE), item.Bytes, revision)
}

// present encodes an object that was there when the watch began.
func present(item *view.Item) []byte {
	return wire.Change(int32(registryv1.ChangeType_CHANGE_TYPE_PUT), item.Bytes, item.Revision)
}
