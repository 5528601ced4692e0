package admission

import (
	"context"

	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
)

// step is what a write comes to after validation: an object to store, an object to remove, or
// nothing, because the object is already so.
type step struct {
	row *rules.Kind
	old *view.Item // the version that it was validated against; nil: a new object

	write   *pendingWrite // the object to store, or nil
	removes bool          // old is removed
	// revokes is set if the certificates of the identities that belong to the object are denied first.
	revokes bool
	// result is the result of a step that stores no object. Of a removal it lacks the revision.
	result *Result

	// conditional is set if the client named a version.
	conditional bool
	// warnings are about the change, for people.
	warnings []string
}

// perform makes the write. If it loses a race, the error is a [*store.ConflictError],
// [store.ErrExists] or [store.ErrNotFound].
func (w *Writer) perform(ctx context.Context, s *step, options Options) (*Result, error) {
	if s.revokes && !options.DryRun {
		if err := w.revoke(ctx, s.row, s.old); err != nil {
			return nil, err
		}
	}
	if s.write != nil {
		return w.store(ctx, s.write)
	}
	if !s.removes || options.DryRun {
		return s.result, nil
	}
	revision, err := w.remove(ctx, s.row, s.old, options)
	s.result.Revision = revision
	return s.result, err
}
