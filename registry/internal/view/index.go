package view

import (
	"maps"
	"slices"
	"sync"

	"portolan.dev/services/object"
)

// Index finds present objects by keys that are computed from their content. It is updated in place
// with the newest state and has no history.
type Index struct {
	keysOf func(*Item) []string

	mu sync.RWMutex
	// A key is in one of these. Almost all keys have one object, for which a table of its own would take
	// as much memory as half of the object.
	single  map[string]*Item
	several map[string]map[object.Key]*Item
}

// NewIndex returns an index by the keys that keysOf returns for an item, if any. It must be passed
// to [New].
func NewIndex(keysOf func(*Item) []string) *Index {
	return &Index{keysOf: keysOf, single: map[string]*Item{}, several: map[string]map[object.Key]*Item{}}
}

// Lookup returns the objects that have the key, ordered by object key.
func (x *Index) Lookup(key string) []*Item {
	x.mu.RLock()
	if one := x.single[key]; one != nil {
		x.mu.RUnlock()
		return []*Item{one}
	}
	found := slices.Collect(maps.Values(x.several[key]))
	x.mu.RUnlock()
	slices.SortFunc(found, func(a, b *Item) int { return object.Compare(a.Key, b.Key) })
	return found
}

// Has reports whether any object has the key.
func (x *Index) Has(key string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.single[key] != nil || x.several[key] != nil
}

func (x *Index) replace(old, item *Item) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil {
		for _, key := range x.keysOf(old) {
			x.remove(key, old.Key)
		}
	}
	if item == nil {
		return
	}
	for _, key := range x.keysOf(item) {
		x.add(key, item)
	}
}

// add adds an object under a key. The caller holds mu.
func (x *Index) add(key string, item *Item) {
	if all := x.several[key]; all != nil {
		all[item.Key] = item
		return
	}
	first := x.single[key]
	if first == nil || first.Key == item.Key {
		x.single[key] = item
		return
	}
	delete(x.single, key)
	x.several[key] = map[object.Key]*Item{first.Key: first, item.Key: item}
}

// remove removes an object from a key. The caller holds mu.
func (x *Index) remove(key string, o object.Key) {
	if one := x.single[key]; one != nil && one.Key == o {
		delete(x.single, key)
		return
	}
	all := x.several[key]
	delete(all, o)
	if len(all) == 0 {
		delete(x.several, key)
	}
}
