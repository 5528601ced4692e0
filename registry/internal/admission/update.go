package admission

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/apply"
	"portolan.dev/services/object"
)

// prepareUpdate returns the step that replaces the stored version old.
func (w *Writer) prepareUpdate(ctx context.Context, r *request, old *view.Item) (step, error) {
	uid, version := r.precondition()
	if err := w.checkVersion(ctx, uid, version, old); err != nil {
		return step{}, err
	}
	updated, warnings, err := w.changed(r, old.Object)
	if err != nil {
		return step{}, err
	}
	s, err := w.replacement(r, old, updated)
	if err != nil {
		return step{}, err
	}
	s.conditional, s.warns, s.warnings = version != 0, r.Action != UpdateStatus, warnings
	return s, nil
}

// notApplied is the warning for an object that was not created by apply. Nothing is removed from it
// yet because no field of it is known to come from a manifest.
const notApplied = "the object was not made by apply: what the manifest leaves out stays as it is; from now on, what is taken out of the manifest is removed"

// changed returns the valid object that replaces old, and warnings about fields that a manager has lost.
func (w *Writer) changed(r *request, old object.Object) (updated object.Object, warnings []string, err error) {
	if r.Action == Apply {
		updated = r.application.Merge(old)
		r.row.Default(updated)
	} else {
		updated = object.Clone(r.Object)
	}
	if r.Action == UpdateStatus {
		err = w.validateStatus(r, updated, old)
	} else {
		r.row.PrepareUpdate(updated, old)
		err = validate(r.row, w.validationContext(r.options), updated, old)
	}
	if err != nil {
		return nil, nil, err
	}
	if r.Action != Apply {
		entries := apply.AfterUpdate(old, updated, r.sentEntries(), r.Action == UpdateStatus, time.Now())
		return updated, nil, setOwners(updated, old, entries)
	}
	entries, warnings := r.application.Applied(old, updated, time.Now())
	if r.application.IsFirst(old) {
		warnings = append(warnings, notApplied)
	}
	return updated, warnings, setOwners(updated, old, entries)
}

// sentEntries returns the managed fields that an update sends. It returns none for an update without a
// version, because its managed fields may be older than the stored ones.
func (r *request) sentEntries() []*corev1.ManagedFields {
	if r.Object.GetMetadata().GetResourceVersion() == 0 || r.options.KeepsOwners {
		return nil
	}
	return r.Object.GetMetadata().GetManagedFields()
}

// setOwners sets the managed fields of an object that replaces a stored one. If nothing but their
// times would change, the object keeps the stored ones, so that it is equal to the stored object.
func setOwners(updated, old object.Object, entries []*corev1.ManagedFields) error {
	had, meta := old.GetMetadata().GetManagedFields(), object.MetaOf(updated)
	meta.ManagedFields = had
	if len(entries) == len(had) && (len(had) == 0 || apply.EqualWithoutTimes(entries, had) && equal(updated, old)) {
		return nil
	}
	meta.ManagedFields = entries
	return invalid(updated, apply.Validate(entries))
}

// validateStatus completes and validates an object with a new status.
func (w *Writer) validateStatus(r *request, updated, old object.Object) error {
	r.row.PrepareStatusUpdate(updated, old)
	found := r.row.ValidateStatus(updated, w.Rules)
	if r.row.CheckStatus != nil {
		found = append(found, r.row.CheckStatus(w.validationContext(r.options), updated, old)...)
	}
	return invalid(updated, found)
}

// checkVersion compares the UID and version that the client named with the stored object, and
// returns a conflict if they differ. The client may have read a version from another replica that
// the view here lacks, so the view catches up before the write is refused.
func (w *Writer) checkVersion(ctx context.Context, uid string, version uint64, old *view.Item) error {
	if matches(old, uid, version) {
		return nil
	}
	sameObject := uid == "" || uid == old.Object.GetMetadata().GetUid()
	if sameObject && version < old.Revision { // the view is newer than the client's version
		return conflict(old, version)
	}
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	now := w.View.State().Get(old.Key)
	if now == nil || matches(now, uid, version) {
		return errViewOutdated
	}
	return conflict(now, version)
}

// matches reports whether an object has the UID and version that the client named.
func matches(item *view.Item, uid string, version uint64) bool {
	return (uid == "" || uid == item.Object.GetMetadata().GetUid()) && (version == 0 || version == item.Revision)
}

// errViewOutdated is the error of prepare if the view has another version by now than the prepared one.
var errViewOutdated = errors.New("the view has a newer version")

// checkCurrent returns a conflict if a newer version than old exists. That can happen only if the view of
// this replica has fallen behind.
func (w *Writer) checkCurrent(ctx context.Context, old *view.Item) error {
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	now := w.View.State().Get(old.Key)
	if now == nil {
		return store.ErrNotFound
	}
	if now.Revision != old.Revision {
		return &store.ConflictError{Have: now.Revision, HaveUID: now.Object.GetMetadata().GetUid()}
	}
	return nil
}

// replacement returns the step that stores updated in the place of old. If they are equal, the step does
// nothing. If updated takes away the last reason that kept the object from being deleted, the step removes
// the object. It returns an error if the client's role may not make the write.
func (w *Writer) replacement(r *request, old *view.Item, updated object.Object) (step, error) {
	if err := r.options.checkLimit(updated, old.Object); err != nil {
		return step{}, err
	}
	meta := object.MetaOf(updated)
	meta.ResourceVersion = old.Revision
	if !sameBody(updated, old.Object) {
		meta.Generation++
	}
	s := step{row: r.row, old: old, options: r.options}
	if equal(updated, old.Object) {
		s.result = &Result{Object: updated}
	} else if ends, ok := RemovalTime(updated); ok && !ends.After(w.validationContext(r.options).Now) {
		s.removes, s.result = true, &Result{Object: updated, Changed: true, Removed: true}
	} else {
		s.object = updated
	}
	return s, nil
}

func equal(a, b object.Object) bool {
	if vt, ok := a.(interface{ EqualMessageVT(proto.Message) bool }); ok {
		return vt.EqualMessageVT(b)
	}
	return object.Equal(a, b)
}

// sameBody reports whether two objects are equal except for metadata and status.
func sameBody(a, b object.Object) bool { return proto.Equal(body(a), body(b)) }

// body returns the object without metadata and status. The other fields are shared.
func body(o object.Object) proto.Message {
	m := o.ProtoReflect()
	out := m.New()
	m.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if name := field.Name(); name != "metadata" && name != "status" {
			out.Set(field, value)
		}
		return true
	})
	return out.Interface()
}
