package applyset

import (
	"cmp"
	"slices"
	"sync"

	"portolan.dev/services/kinds"
	"portolan.dev/services/object"
)

// workers is the number of calls that are made at a time.
const workers = 32

// InOrder returns the objects in the order in which they can be applied: a kind comes after the kinds
// that it refers to, such as services after their namespaces. Objects of one kind keep their order.
func InOrder(objects []object.Object) []object.Object {
	sorted := slices.Clone(objects)
	slices.SortStableFunc(sorted, func(a, b object.Object) int { return cmp.Compare(rank(a), rank(b)) })
	return sorted
}

// rank returns the position of an object's kind in the order of kinds.
func rank(o object.Object) int { return slices.Index(kinds.All, kinds.Of(o)) }

// EachKind calls do for the items of each kind, one kind after the other. The items of a kind follow each
// other.
func EachKind[T any](items []T, keyOf func(T) object.Key, do func([]T)) {
	for len(items) > 0 {
		n := 1
		for n < len(items) && keyOf(items[n]).Kind == keyOf(items[0]).Kind {
			n++
		}
		do(items[:n])
		items = items[n:]
	}
}

// Concurrently calls do for every item, for up to 32 at a time, and returns after the last one.
// Concurrent writes share commits in the registry.
func Concurrently[T any](items []T, do func(T)) {
	slots := make(chan struct{}, workers)
	var running sync.WaitGroup
	for _, item := range items {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			do(item)
		})
	}
	running.Wait()
}
