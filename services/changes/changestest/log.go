package changestest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/object"
)

var _ changes.Log = (*Log)(nil)

// Log is a registry's log in memory. It is safe for concurrent use.
type Log struct {
	t testing.TB

	// lock is the lock of Lock. It is a channel because waiting for a mutex stops the clock of a
	// synctest bubble.
	lock     chan struct{}
	conn     connection
	bus      bus
	verifier *changes.Verifier

	mu           sync.Mutex
	installation string
	epoch        int
	head         uint64
	oldest       uint64
	changes      []changes.LoggedChange // revisions oldest+1 to head
	objects      map[object.Key]object.Object
	uids         int
	wake         chan struct{}
}

// New returns an empty log at revision 0.
func New(t testing.TB) *Log {
	l := &Log{t: t, lock: make(chan struct{}, 1), installation: "installation-1", epoch: 1, objects: map[object.Key]object.Object{}, wake: make(chan struct{})}
	l.verifier = changes.NewVerifier(l)
	return l
}

// Put commits copies of the objects, each as its own change, and returns the revision of the last
// one.
func (l *Log) Put(objects ...object.Object) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range objects {
		l.put(object.Clone(o))
	}
	return l.head
}

// Change commits the result of calling change on a copy of the stored object, with no other commit
// in between. It reports whether the object exists.
func (l *Log) Change(key object.Key, change func(o object.Object)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	stored := l.objects[key]
	if stored == nil {
		return false
	}
	changed := object.Clone(stored)
	change(changed)
	l.put(changed)
	return true
}

func (l *Log) put(o object.Object) {
	key, meta := object.KeyOf(o), object.MetaOf(o)
	if old := l.objects[key]; old != nil && meta.GetUid() == "" {
		meta.Uid = old.GetMetadata().GetUid()
	}
	if meta.GetUid() == "" {
		l.uids++
		meta.Uid = fmt.Sprintf("uid-%d", l.uids)
	}
	meta.ResourceVersion = l.head + 1
	l.objects[key] = o
	l.append(registryv1.ChangeType_CHANGE_TYPE_PUT, o)
}

// Delete commits the deletion of an object and returns its revision. If there is no such object, it
// returns the head.
func (l *Log) Delete(key object.Key) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.objects[key]; o != nil {
		delete(l.objects, key)
		l.append(registryv1.ChangeType_CHANGE_TYPE_DELETE, o)
	}
	return l.head
}

func (l *Log) append(what registryv1.ChangeType, o object.Object) {
	l.head++
	change := &registryv1.Change{Revision: l.head, Type: what, Object: object.Wrap(o), Time: timestamppb.Now()}
	payload, err := change.MarshalVT()
	if err != nil {
		l.t.Errorf("encode revision %d: %v", l.head, err)
	}
	l.changes = append(l.changes, changes.LoggedChange{Change: change, Payload: payload})
	close(l.wake)
	l.wake = make(chan struct{})
}

// Revision returns the newest revision.
func (l *Log) Revision() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// Get returns the stored object, or nil if there is none.
func (l *Log) Get(key object.Key) object.Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.objects[key]
}

// Objects returns all objects, sorted by key.
func (l *Log) Objects() []object.Object {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sorted()
}

func (l *Log) sorted() []object.Object {
	all := make([]object.Object, 0, len(l.objects))
	for _, o := range l.objects {
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b object.Object) int { return object.Compare(object.KeyOf(a), object.KeyOf(b)) })
	return all
}

// Prune removes the changes up to a revision from the log. The objects stay.
func (l *Log) Prune(upTo uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	upTo = min(upTo, l.head)
	if upTo > l.oldest {
		l.changes = slices.Clone(l.changes[upTo-l.oldest:])
		l.oldest = upTo
	}
}

// Restore removes the last n changes without changing the epoch, as restoring a backup does. The
// log must not have been pruned.
func (l *Log) Restore(n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > l.head-l.oldest || l.oldest != 0 {
		l.t.Errorf("set back by %d: the log has only %d changes from its beginning", n, len(l.changes))
		return
	}
	l.head -= n
	l.changes = slices.Clone(l.changes[:l.head])
	l.objects = map[object.Key]object.Object{}
	for _, change := range l.changes {
		o := object.Unwrap(change.GetObject())
		if change.GetType() == registryv1.ChangeType_CHANGE_TYPE_DELETE {
			delete(l.objects, object.KeyOf(o))
		} else {
			l.objects[object.KeyOf(o)] = o
		}
	}
}

// Head implements changes.Log.
func (l *Log) Head(context.Context) (epoch string, head, oldest uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.epochLocked(), l.head, l.oldest, nil
}

func (l *Log) epochLocked() string { return fmt.Sprintf("epoch-%d", l.epoch) }

// After implements changes.Log.
func (l *Log) After(_ context.Context, revision uint64, limit int) ([]changes.LoggedChange, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.after(revision, limit)
}

func (l *Log) after(revision uint64, limit int) ([]changes.LoggedChange, error) {
	switch {
	case revision < l.oldest:
		return nil, errPruned(revision, l.oldest)
	case revision >= l.head:
		return nil, nil
	}
	from := revision - l.oldest
	return slices.Clone(l.changes[from:min(from+uint64(limit), uint64(len(l.changes)))]), nil
}

// Installation implements changes.Log.
func (l *Log) Installation(context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.installation, nil
}

// SetInstallation makes the log one of another installation.
func (l *Log) SetInstallation(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.installation = id
}

// Lock implements changes.Log.
func (l *Log) Lock(ctx context.Context, fn func(ctx context.Context) error) error {
	select {
	case l.lock <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.lock }()
	return fn(ctx)
}

// NewEpoch implements changes.Log.
func (l *Log) NewEpoch(context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch++
	return l.epochLocked(), nil
}

// Wake implements changes.Log.
func (l *Log) Wake() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wake
}
