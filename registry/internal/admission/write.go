package admission

import (
	"context"
	"errors"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/internal/rules"
	"portolan.dev/registry/store"
	"portolan.dev/services/apply"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/tracing"
	"portolan.dev/services/object"
)

// Action is the kind of a write.
type Action uint8

// The actions, each of which is a method of [Writer].
const (
	Create Action = iota + 1
	Update
	UpdateStatus
	Apply
	Delete
)

// Write is a write of one object, as a client requests it.
type Write struct {
	Action Action
	// Key is the key of the object, with its namespace. The name is empty if it is generated.
	Key object.Key
	// Object is the object. It is nil for Delete. The writer modifies it.
	Object object.Object
	// Deletion holds the parameters of Delete.
	Deletion Deletion
}

// Create stores a new object. It modifies o.
func (w *Writer) Create(ctx context.Context, o object.Object, options Options) (*Result, error) {
	return w.write(ctx, Write{Action: Create, Object: o}, options)
}

// Update replaces an object except for its status. If the object has a resource_version, it
// replaces only that version.
func (w *Writer) Update(ctx context.Context, o object.Object, options Options) (*Result, error) {
	return w.write(ctx, Write{Action: Update, Object: o}, options)
}

// UpdateStatus replaces an object's status and nothing else.
func (w *Writer) UpdateStatus(ctx context.Context, o object.Object, options Options) (*Result, error) {
	return w.write(ctx, Write{Action: UpdateStatus, Object: o}, options)
}

// Apply creates an object, or merges it into the stored one. Fields that were applied before and
// are no longer in o are removed, unless another manager owns them. Fields that were set by the
// registry or by other clients stay. See package apply.
func (w *Writer) Apply(ctx context.Context, o object.Object, options Options) (*Result, error) {
	return w.write(ctx, Write{Action: Apply, Object: o}, options)
}

// Delete removes an object. If finalizers, a grace period or its kind keep the object, Delete marks
// it instead. It returns the object as it last was, or as it is marked.
func (w *Writer) Delete(ctx context.Context, key object.Key, deletion Deletion, options Options) (*Result, error) {
	return w.write(ctx, Write{Action: Delete, Key: key, Deletion: deletion}, options)
}

// write makes a write by itself, not together with others.
func (w *Writer) write(ctx context.Context, write Write, options Options) (*Result, error) {
	r, err := newRequest(write, options)
	if err != nil {
		return nil, err
	}
	return w.complete(ctx, &r, step{})
}

// request is a write with the parts that are computed once, however often it is prepared.
type request struct {
	Write
	options Options
	row     *rules.Kind

	generated   bool                    // the registry generates the name
	managed     []*corev1.ManagedFields // managed fields of the object that Create stores
	application *apply.Application      // nil except for Apply
}

// newRequest sets the defaults of the object, and makes the checks that need no other object. Apply sets
// the defaults later, because a manifest with defaults would own the fields that they fill.
func newRequest(write Write, options Options) (request, error) {
	r := request{Write: write, options: options}
	if write.Action == Delete {
		r.row = rules.Named(write.Key.Kind)
		return r, nil
	}
	o := write.Object
	r.row = rules.Of(o)
	err := error(nil)
	switch write.Action {
	case Create:
		if r.managed, err = entriesOfNew(o, options); err == nil {
			err = r.beginCreate(o)
		}
	case Apply:
		r.application = apply.New(o) // before defaults, which are not applied fields
		setNamespace(o)
		err = checkSize(o)
	default:
		r.row.Default(o)
		err = checkSize(o)
	}
	r.Key = object.KeyOf(o)
	r.generated = r.mayCreate() && r.Key.Name == "" && o.GetMetadata().GetGenerateName() != ""
	return r, err
}

// setNamespace gives an object of a kind with namespaces the default namespace if it has none.
func setNamespace(o object.Object) {
	if meta := object.MetaOf(o); meta.Namespace == "" && rules.Of(o).Namespaced {
		meta.Namespace = object.DefaultNamespace
	}
}

// mayCreate reports whether the write may store a new object.
func (r *request) mayCreate() bool { return r.Action == Create || r.Action == Apply }

// precondition returns the UID and the version that the stored object must have. An empty UID and
// version 0 stand for any.
func (r *request) precondition() (uid string, version uint64) {
	if r.Action == Delete {
		return r.Deletion.UID, r.Deletion.Revision
	}
	meta := r.Object.GetMetadata()
	return meta.GetUid(), meta.GetResourceVersion()
}

// complete prepares and performs a write. If the write loses a race against another one and named no
// version, complete begins again with the newer version of the object. s is the step of the first
// attempt if it has been prepared already, otherwise zero.
func (w *Writer) complete(ctx context.Context, r *request, s step) (*Result, error) {
	for attempt := 0; ; attempt++ {
		var err error
		if !s.isPrepared() {
			admission, span := tracing.Start(ctx, "admission")
			s, err = w.prepare(admission, r)
			span.End(err)
		}
		if err == nil {
			var result *Result
			if result, err = w.perform(ctx, &s); err == nil {
				return r.finish(&s, result), nil
			}
		}
		again, err := r.explain(&s, err)
		if !again || attempt == maxRetries {
			return nil, err
		}
		if err := w.catchUp(ctx); err != nil {
			return nil, err
		}
		s = step{}
	}
}

// prepare validates a write against the objects in the view and returns the step that makes it. The
// error is store.ErrExists if the object exists already, and errViewOutdated if the view has a newer
// version now.
func (w *Writer) prepare(ctx context.Context, r *request) (step, error) {
	if r.Action == Create || r.generated {
		return w.prepareCreate(ctx, r)
	}
	old := w.View.State().Get(r.Key)
	if old == nil && r.Action == Apply {
		return w.prepareCreate(ctx, r)
	}
	if old == nil {
		var err error
		if old, err = w.find(ctx, r.Key); err != nil {
			return step{}, err
		}
	}
	if r.Action == Delete {
		return w.prepareDelete(ctx, r, old)
	}
	return w.prepareUpdate(ctx, r, old)
}

// explain returns the error for the client of a write that failed with err. again reports whether the
// write lost a race and may succeed if it is prepared again. s is the step that failed; it is zero
// if the write failed before it had one.
func (r *request) explain(s *step, err error) (again bool, forClient error) {
	newer, lost := conflictingVersion(err)
	switch {
	case errors.Is(err, errViewOutdated):
		_, version := r.precondition()
		return true, apierr.Conflict(r.Key.Kind, r.Key.Path(), 0, version)
	case errors.Is(err, store.ErrExists):
		return r.Action == Apply || r.generated, apierr.AlreadyExists(r.Key.Kind, r.Key.Path())
	case r.Action == Delete && errors.Is(err, store.ErrNotFound):
		return false, apierr.NotFound(r.Key.Kind, r.Key.Path())
	case lost:
		return !s.conditional, apierr.Conflict(s.old.Key.Kind, s.old.Key.Path(), newer, s.old.Revision)
	case errors.Is(err, store.ErrNotFound):
		return true, apierr.Conflict(s.old.Key.Kind, s.old.Key.Path(), 0, s.old.Revision)
	}
	return false, err
}

// finish adds the warnings to the result of a step.
func (r *request) finish(s *step, result *Result) *Result {
	if s.warns {
		result.Warnings = append(r.options.warnings(r.row, result.Object), s.warnings...)
	}
	return result
}
