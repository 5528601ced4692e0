package admission

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/registry/kinds"
	"portolan.dev/registry/store"
	"portolan.dev/registry/view"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Update replaces an object but for its status. Where the object names a resource_version, only that version.
func (w *Writer) Update(ctx context.Context, o object.Object, options Options) (*Result, error) {
	spec.Default(o)
	return w.update(ctx, o, options, func(old object.Object) (object.Object, []*corev1.ManagedFields) {
		return object.Clone(o), old.GetMetadata().GetManagedFields() // shared, since entries are never changed
	})
}

// update replaces an object by what renew makes of the stored version and of the client's object, which is o. renew also
// returns the managed fields, which no client sets. A retry calls it again with the newer version.
func (w *Writer) update(
	ctx context.Context, o object.Object, options Options, renew func(old object.Object) (object.Object, []*corev1.ManagedFields),
) (*Result, error) {
	if err := checkSize(o); err != nil {
		return nil, err
	}
	row := kinds.Of(o)
	result, err := w.modify(ctx, row, object.KeyOf(o), options, func(old *view.Item) (object.Object, bool, error) {
		if err := w.checkVersion(ctx, o, old); err != nil {
			return nil, false, err
		}
		updated, managed := renew(old.Object)
		err := w.judge(row, updated, old.Object, options)
		object.MetaOf(updated).ManagedFields = managed
		return updated, o.GetMetadata().GetResourceVersion() != 0, err
	})
	if err == nil {
		result.Warnings = options.warnings(result.Object)
	}
	return result, err
}

// judge prepares and validates an update.
func (w *Writer) judge(row *kinds.Row, updated, old object.Object, options Options) error {
	world := w.world(options)
	spec.PrepareUpdate(updated, old)
	var found apierr.Violations
	if row.Settle != nil {
		found = row.Settle(world, updated, old)
	}
	found = append(found, spec.ValidateUpdate(updated, old, world.Rules)...)
	if row.Check != nil {
		found = append(found, row.Check(world, updated, old)...)
	}
	if err := invalid(updated, found); err != nil {
		return err
	}
	if row.Stamp != nil {
		row.Stamp(world, updated, old)
	}
	return nil
}

// UpdateStatus replaces an object's status and nothing else.
func (w *Writer) UpdateStatus(ctx context.Context, o object.Object, options Options) (*Result, error) {
	if err := checkSize(o); err != nil {
		return nil, err
	}
	row := kinds.Of(o)
	spec.Default(o)
	return w.modify(ctx, row, object.KeyOf(o), options, func(old *view.Item) (object.Object, bool, error) {
		if err := w.checkVersion(ctx, o, old); err != nil {
			return nil, false, err
		}
		updated := object.Clone(o)
		spec.PrepareStatusUpdate(updated, old.Object)
		found := spec.ValidateStatus(updated, w.Rules)
		if row.CheckStatus != nil {
			found = append(found, row.CheckStatus(w.world(options), updated, old.Object)...)
		}
		return updated, o.GetMetadata().GetResourceVersion() != 0, invalid(updated, found)
	})
}

// checkVersion holds what the client has seen against what there is. The client may have seen on another replica what the
// view here lacks, so a view that may be behind catches up before anything is refused.
func (w *Writer) checkVersion(ctx context.Context, o object.Object, old *view.Item) error {
	meta := o.GetMetadata()
	if matches(meta, old) {
		return nil
	}
	sameObject := meta.GetUid() == "" || meta.GetUid() == old.Object.GetMetadata().GetUid()
	if sameObject && meta.GetResourceVersion() < old.Revision { // the view is newer than the client
		return conflict(old, meta.GetResourceVersion())
	}
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	now := w.View.State().Get(old.Key)
	if now == nil || matches(meta, now) {
		return errAgain
	}
	return conflict(now, meta.GetResourceVersion())
}

// matches reports whether an object is the one that the client has seen, at the version that the client has seen.
func matches(seen *corev1.ObjectMeta, item *view.Item) bool {
	uid, version := seen.GetUid(), seen.GetResourceVersion()
	return (uid == "" || uid == item.Object.GetMetadata().GetUid()) && (version == 0 || version == item.Revision)
}

// errAgain makes modify look at the object again.
var errAgain = errors.New("the view has a newer version")

// modify replaces an object by what change makes of it. change also says whether the client insists on the version it was given.
func (w *Writer) modify(
	ctx context.Context, row *kinds.Row, key object.Key, options Options, change func(old *view.Item) (updated object.Object, conditional bool, err error),
) (*Result, error) {
	for attempt := 0; ; attempt++ {
		old, err := w.find(ctx, key)
		if err != nil {
			return nil, err
		}
		_, span := tracing.Start(ctx, "admission")
		updated, conditional, err := change(old)
		span.End(err)
		if errors.Is(err, errAgain) {
			continue
		}
		if err == nil {
			err = options.allow(updated, old.Object)
		}
		if err != nil {
			return nil, err
		}
		result, err := w.replace(ctx, row, old, updated, options)
		if err == nil && !result.Changed { // the store did not see this write, which may have been judged against an old version
			err = w.checkCurrent(ctx, old)
		}
		newer, lost := retriable(err)
		switch {
		case !lost && !errors.Is(err, store.ErrNotFound):
			return result, err
		case conditional && lost:
			return nil, apierr.Conflict(key.Kind, key.Path(), newer, old.Revision)
		case attempt == maxRetries:
			return nil, apierr.Conflict(key.Kind, key.Path(), newer, old.Revision)
		}
		if err := w.catchUp(ctx); err != nil {
			return nil, err
		}
	}
}

// checkCurrent returns the conflict of a write that was judged against an outdated version. Only a replica whose view has
// fallen behind has one.
func (w *Writer) checkCurrent(ctx context.Context, old *view.Item) error {
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	now := w.View.State().Get(old.Key)
	if now == nil {
		return store.ErrNotFound
	}
	if now.Revision != old.Revision {
		return &store.Conflict{Have: now.Revision, HaveUID: now.Object.GetMetadata().GetUid()}
	}
	return nil
}

// replace puts updated in the place of old, unless there is nothing to it; or removes the object, where the last that kept it from going is done.
func (w *Writer) replace(ctx context.Context, row *kinds.Row, old *view.Item, updated object.Object, options Options) (*Result, error) {
	meta := object.MetaOf(updated)
	meta.ResourceVersion = old.Revision
	if !sameBody(updated, old.Object) {
		meta.Generation++
	}
	if equal(updated, old.Object) {
		return &Result{Object: updated}, nil
	}
	if ends, ok := Ends(updated); ok && !ends.After(w.world(options).Now) {
		if options.DryRun {
			return &Result{Object: updated, Changed: true}, nil
		}
		return &Result{Object: updated, Changed: true}, w.remove(ctx, row, old, options)
	}
	return w.store(ctx, &write{row: row, old: old, o: updated, options: options})
}

func equal(a, b object.Object) bool {
	if vt, ok := a.(interface{ EqualMessageVT(proto.Message) bool }); ok {
		return vt.EqualMessageVT(b)
	}
	return object.Equal(a, b)
}

// sameBody says whether two objects are the same but for metadata and status.
func sameBody(a, b object.Object) bool { return proto.Equal(body(a), body(b)) }

// body returns the object without metadata and status; it shares the rest.
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
