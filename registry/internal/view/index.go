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

	mu    sync.RWMutex
	items map[string]map[object.Key]*Item
}

// NewIndex returns an index by the keys that keysOf returns for an item, if any. It must be passed
// to [New].
func NewIndex(keysOf func(*Item) []string) *Index {
	return &Index{keysOf: keysOf, items: map[string]map[object.Key]*Item{}}
}

// Lookup returns the objects that have the key, ordered by object key.
func (x *Index) Lookup(key string) []*Item {
	x.mu.RLock()
	found := slices.Collect(maps.Values(x.items[key]))
	x.mu.RUnlock()
	slices.SortFunc(found, func(a, b *Item) int { return object.Compare(a.Key, b.Key) })
	return found
}

// Has reports whether any object has the key.
func (x *Index) Has(key string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return len(x.items[key]) > 0
}

func (x *Index) replace(old, item *Item) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil {
		for _, key := range x.keysOf(old) {
			delete(x.items[key], old.Key)
			if len(x.items[key]) == 0 {
				delete(x.items, key)
			}
		}
	}
	if item == nil {
		return
	}
	for _, key := range x.keysOf(item) {
		if x.items[key] == nil {
			x.items[key] = map[object.Key]*Item{}
		}
		x.items[key][item.Key] = item
	}
}
