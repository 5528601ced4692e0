package admission

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/apply"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// Update replaces an object except for its status. If the object has a resource_version, it
// replaces only that version.
func (w *Writer) Update(ctx context.Context, o object.Object, options Options) (*Result, error) {
	rules.Of(o).Default(o)
	return w.update(ctx, o, options, replaceBy(o))
}

// renewal returns the object that replaces a stored version, and the function that returns the
// object's managed fields once it is complete. It is called again with a newer version if the write
// loses a race.
type renewal func(old object.Object) (object.Object, ownership)

// ownership returns the managed fields of the object that replaces a stored version, and warnings
// about fields that a manager has lost.
type ownership func(updated object.Object) (entries []*corev1.ManagedFields, warnings []string)

// replaceBy returns the renewal of an update.
func replaceBy(o object.Object) renewal {
	return func(old object.Object) (object.Object, ownership) {
		return object.Clone(o), func(updated object.Object) ([]*corev1.ManagedFields, []string) {
			return apply.AfterUpdate(old, updated, sentEntries(o), false, time.Now()), nil
		}
	}
}

// sentEntries returns the managed fields of an update. Those of an update without a version are left
// out, because they may be older than the stored ones.
func sentEntries(o object.Object) []*corev1.ManagedFields {
	if o.GetMetadata().GetResourceVersion() == 0 {
		return nil
	}
	return o.GetMetadata().GetManagedFields()
}

// update replaces the stored version by the object that renew returns for it. o is the client's
// object.
func (w *Writer) update(ctx context.Context, o object.Object, options Options, renew renewal) (*Result, error) {
	if err := checkSize(o); err != nil {
		return nil, err
	}
	row := rules.Of(o)
	result, err := w.modify(ctx, row, object.KeyOf(o), options, w.updateOf(ctx, o, options, renew))
	if err == nil {
		result.Warnings = append(options.warnings(row, result.Object), result.Warnings...)
	}
	return result, err
}

// change returns the change of a stored version.
type change func(old *view.Item) (changed, error)

// changed is an object that replaces a stored version.
type changed struct {
	object      object.Object
	conditional bool     // the client named a version
	warnings    []string // about the change, for people
}

// updateOf returns the change of an update.
func (w *Writer) updateOf(ctx context.Context, o object.Object, options Options, renew renewal) change {
	return func(old *view.Item) (changed, error) {
		if err := w.checkVersion(ctx, o, old); err != nil {
			return changed{}, err
		}
		updated, ownership := renew(old.Object)
		if err := w.prepareUpdate(rules.Of(o), updated, old.Object, options); err != nil {
			return changed{}, err
		}
		entries, warnings := ownership(updated)
		err := setOwners(updated, old.Object, entries)
		return changed{updated, o.GetMetadata().GetResourceVersion() != 0, warnings}, err
	}
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

// prepareUpdate completes and validates an update.
func (w *Writer) prepareUpdate(row *rules.Kind, updated, old object.Object, options Options) error {
	world := w.validationContext(options)
	row.PrepareUpdate(updated, old)
	var found apierr.Violations
	if row.Complete != nil {
		found = row.Complete(world, updated, old)
	}
	found = append(found, row.ValidateUpdate(updated, old, world.Rules)...)
	if row.Check != nil {
		found = append(found, row.Check(world, updated, old)...)
	}
	if err := invalid(updated, found); err != nil {
		return err
	}
	if row.SetRegistryFields != nil {
		row.SetRegistryFields(world, updated, old)
	}
	return nil
}

// UpdateStatus replaces an object's status and nothing else.
func (w *Writer) UpdateStatus(ctx context.Context, o object.Object, options Options) (*Result, error) {
	if err := checkSize(o); err != nil {
		return nil, err
	}
	row := rules.Of(o)
	row.Default(o)
	return w.modify(ctx, row, object.KeyOf(o), options, w.statusUpdateOf(ctx, o, options))
}

// statusUpdateOf returns the change of an update of the status.
func (w *Writer) statusUpdateOf(ctx context.Context, o object.Object, options Options) change {
	row := rules.Of(o)
	return func(old *view.Item) (changed, error) {
		if err := w.checkVersion(ctx, o, old); err != nil {
			return changed{}, err
		}
		updated := object.Clone(o)
		row.PrepareStatusUpdate(updated, old.Object)
		found := row.ValidateStatus(updated, w.Rules)
		if row.CheckStatus != nil {
			found = append(found, row.CheckStatus(w.validationContext(options), updated, old.Object)...)
		}
		if err := invalid(updated, found); err != nil {
			return changed{}, err
		}
		err := setOwners(updated, old.Object, apply.AfterUpdate(old.Object, updated, sentEntries(o), true, time.Now()))
		return changed{object: updated, conditional: o.GetMetadata().GetResourceVersion() != 0}, err
	}
}

// checkVersion compares the UID and version that the client named with the stored object, and
// returns a conflict if they differ. The client may have read a version from another replica that
// the view here lacks, so the view catches up before the write is refused.
func (w *Writer) checkVersion(ctx context.Context, o object.Object, old *view.Item) error {
	meta := o.GetMetadata()
	if matches(meta, old) {
		return nil
	}
	sameObject := meta.GetUid() == "" || meta.GetUid() == old.Object.GetMetadata().GetUid()
	if sameObject && meta.GetResourceVersion() < old.Revision { // the view is newer than the client's version
		return conflict(old, meta.GetResourceVersion())
	}
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	now := w.View.State().Get(old.Key)
	if now == nil || matches(meta, now) {
		return errViewOutdated
	}
	return conflict(now, meta.GetResourceVersion())
}

// matches reports whether an object has the UID and version that the client named.
func matches(seen *corev1.ObjectMeta, item *view.Item) bool {
	uid, version := seen.GetUid(), seen.GetResourceVersion()
	return (uid == "" || uid == item.Object.GetMetadata().GetUid()) && (version == 0 || version == item.Revision)
}

// errViewOutdated makes modify read the object again.
var errViewOutdated = errors.New("the view has a newer version")

// modify replaces an object by the one that change returns.
func (w *Writer) modify(ctx context.Context, row *rules.Kind, key object.Key, options Options, change change) (*Result, error) {
	for attempt := 0; ; attempt++ {
		s, err := w.modification(ctx, row, key, options, change)
		if errors.Is(err, errViewOutdated) {
			continue
		}
		if err != nil {
			return nil, err
		}
		old := s.old
		result, err := w.perform(ctx, s, options)
		if err == nil {
			result.Warnings = s.warnings
		}
		// An unchanged object is not written, so the store has not checked the version. The object
		// may have been compared with an outdated one.
		if err == nil && !result.Changed {
			err = w.checkCurrent(ctx, old)
		}
		newer, lost := conflictingVersion(err)
		switch {
		case !lost && !errors.Is(err, store.ErrNotFound):
			return result, err
		case s.conditional && lost:
			return nil, apierr.Conflict(key.Kind, key.Path(), newer, old.Revision)
		case attempt == maxRetries:
			return nil, apierr.Conflict(key.Kind, key.Path(), newer, old.Revision)
		}
		if err := w.catchUp(ctx); err != nil {
			return nil, err
		}
	}
}

// modification returns the step that replaces the version that the view has. The error is
// errViewOutdated if there is a newer one.
func (w *Writer) modification(ctx context.Context, row *rules.Kind, key object.Key, options Options, change change) (*step, error) {
	old, err := w.find(ctx, key)
	if err != nil {
		return nil, err
	}
	_, span := tracing.Start(ctx, "admission")
	changed, err := change(old)
	if span.End(err); err != nil {
		return nil, err
	}
	if err := options.checkLimit(changed.object, old.Object); err != nil {
		return nil, err
	}
	s := w.replacement(row, old, changed.object, options)
	s.conditional, s.warnings = changed.conditional, changed.warnings
	return s, nil
}

// checkCurrent returns a conflict if a newer version than old exists. That can happen only on a
// replica whose view has fallen behind.
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

// replacement returns the step that stores updated in the place of old, unless they are equal. The
// step removes the object instead if updated takes away the last reason that kept it from being
// deleted.
func (w *Writer) replacement(row *rules.Kind, old *view.Item, updated object.Object, options Options) *step {
	meta := object.MetaOf(updated)
	meta.ResourceVersion = old.Revision
	if !sameBody(updated, old.Object) {
		meta.Generation++
	}
	s := &step{row: row, old: old}
	if equal(updated, old.Object) {
		s.result = &Result{Object: updated}
	} else if ends, ok := RemovalTime(updated); ok && !ends.After(w.validationContext(options).Now) {
		s.removes, s.result = true, &Result{Object: updated, Changed: true, Removed: true}
	} else {
		s.write = &pendingWrite{row: row, old: old, o: updated, options: options}
	}
	return s
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
