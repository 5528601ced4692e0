package changestest

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// families are the families of service addresses.
var families = []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4, corev1.IPFamily_IP_FAMILY_IPV6}

// Call is a call of a method for one object.
type Call struct {
	Verb    kinds.Verb    // Create, Get, Update, UpdateStatus or Delete
	Object  object.Object // nil for Get and Delete, which have Key
	Key     object.Key
	UID     string // of a deletion; empty: any
	Version uint64 // of a deletion; 0: any
}

// Writes executes calls on a log, by the rules of the registry that its clients depend on: defaults,
// generated names, conflicts of versions, and epochs of Leases. The caller makes sure that one call is
// executed at a time.
type Writes struct {
	Log *Log
	// Admit, if set, returns the error of a write that must fail. It gets the object of the call, and the
	// stored object for a deletion.
	Admit func(ctx context.Context, verb kinds.Verb, o object.Object) error

	names int // generated so far
}

// Do executes a call. It returns the stored object, or the last state of a deleted one.
func (w *Writes) Do(ctx context.Context, c Call) (object.Object, error) {
	switch c.Verb {
	case kinds.Get:
		if o := w.Log.Get(c.Key); o != nil {
			return o, nil
		}
		return nil, apierr.NotFound(c.Key.Kind, c.Key.Path())
	case kinds.Create:
		return w.create(ctx, object.Clone(c.Object))
	case kinds.Update, kinds.UpdateStatus:
		return w.update(ctx, object.Clone(c.Object), c.Verb)
	case kinds.Delete:
		return w.remove(ctx, c)
	}
	return nil, status.Errorf(codes.Unimplemented, "the registry of a test has no verb %q", c.Verb)
}

func (w *Writes) create(ctx context.Context, o object.Object) (object.Object, error) {
	meta := object.MetaOf(o)
	if meta.GetName() == "" {
		w.names++
		meta.Name = fmt.Sprintf("%s%d", meta.GetGenerateName(), w.names)
	}
	key := object.KeyOf(o)
	if w.Log.Get(key) != nil {
		return nil, apierr.AlreadyExists(key.Kind, key.Path())
	}
	if err := w.admit(ctx, kinds.Create, o); err != nil {
		return nil, err
	}
	kinds.Of(o).PrepareCreate(o)
	kinds.Of(o).Default(o)
	meta = object.MetaOf(o)
	meta.Uid, meta.ResourceVersion, meta.CreationTimestamp = "", 0, timestamppb.Now()
	return w.put(o, nil), nil
}

func (w *Writes) update(ctx context.Context, o object.Object, verb kinds.Verb) (object.Object, error) {
	old, err := w.stored(object.KeyOf(o), o.GetMetadata().GetUid(), o.GetMetadata().GetResourceVersion())
	if err == nil {
		err = w.admit(ctx, verb, o)
	}
	if err != nil {
		return nil, err
	}
	if verb == kinds.UpdateStatus {
		kinds.Of(o).PrepareStatusUpdate(o, old)
	} else {
		kinds.Of(o).PrepareUpdate(o, old)
		kinds.Of(o).Default(o)
	}
	object.MetaOf(o).Uid = old.GetMetadata().GetUid()
	return w.put(o, old), nil
}

func (w *Writes) remove(ctx context.Context, c Call) (object.Object, error) {
	old, err := w.stored(c.Key, c.UID, c.Version)
	if err == nil {
		err = w.admit(ctx, kinds.Delete, old)
	}
	if err != nil {
		return nil, err
	}
	w.Log.Delete(c.Key)
	return old, nil
}

func (w *Writes) admit(ctx context.Context, verb kinds.Verb, o object.Object) error {
	if w.Admit == nil {
		return nil
	}
	return w.Admit(ctx, verb, o)
}

// stored returns the stored object that a client means.
func (w *Writes) stored(key object.Key, uid string, version uint64) (object.Object, error) {
	old := w.Log.Get(key)
	if old == nil || uid != "" && uid != old.GetMetadata().GetUid() {
		return nil, apierr.NotFound(key.Kind, key.Path())
	}
	if have := old.GetMetadata().GetResourceVersion(); version != 0 && have != version {
		return nil, apierr.Conflict(key.Kind, key.Path(), have, version)
	}
	return old, nil
}

// put stores an object. It resolves the families of a service, and sets the epoch of a Lease, which
// increases with each new holder.
func (w *Writes) put(o, old object.Object) object.Object {
	switch o := o.(type) {
	case *corev1.Service:
		before, _ := old.(*corev1.Service)
		spec.ResolveFamilies(o, before, families)
	case *corev1.Lease:
		before, _ := old.(*corev1.Lease)
		o.Spec.Epoch = before.GetSpec().GetEpoch()
		if holder := o.GetSpec().GetHolderIdentity(); before == nil || holder != "" && holder != before.GetSpec().GetHolderIdentity() {
			o.Spec.Epoch = max(o.Spec.Epoch, w.Log.Revision()) + 1
		}
	}
	w.Log.Put(o)
	return w.Log.Get(object.KeyOf(o))
}
