package watch

import (
	"errors"

	"portolan.dev/registry/internal/view"
)

// ErrForgotten is returned if the changes since a revision are no longer kept, or if the revision
// belongs to another epoch of the log.
var ErrForgotten = errors.New("the revision is no longer kept")

// ErrAhead is returned if a revision was not published yet.
var ErrAhead = errors.New("the revision is not reached yet")

// At returns the objects of a kind as they were at a revision. It takes the newest state and undoes
// the changes since then, so it reaches as far back as the changes that are kept for watchers.
// Errors: [ErrForgotten], [ErrAhead].
func (h *Hub) At(kind, epoch string, revision uint64) (*view.State, error) {
	state, changes, err := h.changesSince(kind, epoch, revision)
	if err != nil || state.Revision() == revision {
		return state, err
	}
	return state.Before(revision, kind, changes), nil
}

// changesSince returns the newest state and the changes of a kind between a revision and that state.
func (h *Hub) changesSince(kind, epoch string, revision uint64) (*view.State, []*view.Change, error) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	floor, r := h.start, h.rings[kind]
	if r != nil {
		floor = r.floor
	}
	switch {
	case epoch != h.state.Epoch() || revision < floor:
		return nil, nil, ErrForgotten
	case revision > h.state.Revision():
		return nil, nil, ErrAhead
	case r == nil:
		return h.state, nil, nil
	}
	var changes []*view.Change
	for _, batch := range r.batches {
		for _, e := range batch.entries {
			if e.change.Revision > revision {
				changes = append(changes, e.change)
			}
		}
	}
	return h.state, changes, nil
}
