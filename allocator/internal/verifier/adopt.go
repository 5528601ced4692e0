package verifier

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

const (
	// HealthCheck is the name of the health check that fails until the verifier has adopted the
	// values of objects.
	HealthCheck = "values"
	// adoptBatchSize is the number of values that are adopted in one transaction.
	adoptBatchSize = 500
)

var (
	errNotAdopted = errors.New("the values that services and pods have are not known yet: no snapshot from the registry")
	errStoreLost  = errors.New("the allocator's store went back to an older state, and the values that services and pods have are not all known again yet")
	errNewLog     = errors.New("the registry's log has begun anew, and the values that services and pods have are not all known yet")
)

// Adopted waits until every value of the objects in a complete view is allocated, and returns the
// epoch of the view's log. Before that, a newly allocated value could be in use, because the store may
// be new or an old copy, or the registry may have been restored from a backup. Its only error is ctx.Err().
func (v *Verifier) Adopted(ctx context.Context) (epoch string, err error) { return v.gate.wait(ctx) }

// adopt makes the allocations complete for the log of the view: it closes all reserves, so that no
// value is stored in an object any more that is not known here, and allocates to the objects of the
// view the values that they have. If two objects have the same value, the older one gets it, and the
// comparison reports the other. Unlike [Verifier.allocate], adopt does not ask the registry about each
// object: a value of an object that was deleted in the meantime is freed after the grace.
//
// The view may be behind the log, for example while NATS is away. closeReserves waits until the view has
// all objects that were written before, even if there are no reserves, because the store may be older than
// these objects.
//
// losses is how often the allocator's store has gone back. If it goes back again meanwhile, the engine
// still refuses clients afterwards.
func (v *Verifier) adopt(ctx context.Context, epoch string, losses uint64) error {
	if err := v.cfg.Engine.Refresh(ctx); err != nil {
		return err
	}
	if err := v.closeReserves(ctx, v.allReserves()); err != nil {
		return err
	}
	objects := v.view.all()
	if err := v.cfg.Engine.Refresh(ctx); err != nil { // other replicas have allocated values for new objects
		return err
	}
	missing := v.missing(objects)
	for batch := range slices.Chunk(missing, adoptBatchSize) {
		if err := v.adoptBatch(ctx, batch); err != nil {
			return err
		}
	}
	if at, _ := v.view.position(); at.epoch != epoch {
		return errNewLog
	}
	v.cfg.Log.Info("values of objects are known", "objects", len(objects), "taken_up", len(missing), "epoch", epoch)
	v.cfg.Engine.Adopted(losses)
	v.losses = losses
	v.gate.open(epoch)
	v.cfg.Health.Set(HealthCheck, nil)
	return nil
}

// allReserves returns the holders of all reserves, of the store and of the registry. The store may be
// an old copy that does not know the reserves of the registry.
func (v *Verifier) allReserves() []string {
	holders := v.view.reserveLeases()
	for _, r := range v.cfg.Engine.Reserves() {
		holders = append(holders, r.Holder)
	}
	slices.Sort(holders)
	return slices.Compact(holders)
}

// missing returns a set for each value that an object has without an allocation, the older objects
// first.
func (v *Verifier) missing(objects []object.Object) []engine.Set {
	slices.SortFunc(objects, byAge)
	shared, taken := newSharing(servicesOf(objects)), map[sharedSlot]pool.Value{}
	var sets []engine.Set
	for _, o := range objects {
		v.cfg.Guard.Run(stepAllocate, guard.Object(object.KeyOf(o)), func() {
			for _, a := range v.allocatablesOf(o) {
				owner := ownerOfValue(o, a.use)
				if a.err != nil || v.cfg.Engine.Owns(owner.UID, a.value) {
					continue // a malformed value is reported by Run
				}
				request := a.request()
				if slot := (sharedSlot{owner.UID, request.Slot}); owner.Kind == spec.KindAddressShare {
					if other, ok := taken[slot]; ok && other != a.value || v.holdsAnother(shared, slot, a.value) {
						request = a.repairRequest()
					} else {
						taken[slot] = a.value
					}
				}
				sets = append(sets, engine.Set{Owner: owner, Requests: []allocation.ClaimRequest{request}})
			}
		})
	}
	return sets
}

// adoptBatch allocates and confirms the values that can be allocated. A value that another object has
// too, or that is in no pool, is left to the comparison, which reports it.
func (v *Verifier) adoptBatch(ctx context.Context, sets []engine.Set) error {
	results, err := v.cfg.Engine.Adopt(ctx, sets)
	if err != nil {
		return err
	}
	var slots []engine.OwnerSlots
	for i, r := range results {
		if len(r.Failures) > 0 {
			if r, err = v.adoptFromGone(ctx, sets[i], r); err != nil {
				return err
			}
		}
		if len(r.Failures) == 0 {
			slots = append(slots, engine.OwnerSlots{UID: sets[i].Owner.UID, Slots: []string{sets[i].Requests[0].Slot}})
		}
	}
	if _, _, err := v.cfg.Engine.Confirm(ctx, slots); err != nil {
		return err
	}
	v.metrics.readded.Add(float64(len(slots)))
	return nil
}

// adoptFromGone gives a value to an object if the store, which may be an old copy, has it for an object that
// no longer has it. If the value were freed first and allocated later, others could get it in between.
func (v *Verifier) adoptFromGone(ctx context.Context, set engine.Set, refused engine.SetResult) (engine.SetResult, error) {
	w := set.Requests[0]
	value, err := parse(objectValue{use: w.Use, text: w.Value})
	if err != nil {
		return refused, nil
	}
	seen, ok := v.cfg.Engine.AllocationOf(value)
	if !ok || seen.Owner.Kind == store.KindReserve || v.classify(seen, newSharing(v.view.services())) != unowned {
		return refused, nil
	}
	return v.cfg.Engine.Replace(ctx, seen, set)
}

// HasUnknown reports whether an object of the view has a value in a range that is not allocated to it.
func (v *Verifier) HasUnknown(space pool.Space) bool {
	for _, o := range v.view.all() {
		for _, w := range valuesOf(o) {
			value, err := parse(w)
			if err == nil && space.HasNumber(value) && !v.cfg.Engine.Owns(ownerOfValue(o, w.use).UID, value) {
				return true
			}
		}
	}
	return false
}

// AdoptWithin allocates the values in a range to the objects of the view that have them.
func (v *Verifier) AdoptWithin(ctx context.Context, space pool.Space) error {
	missing := slices.DeleteFunc(v.missing(v.view.all()), func(set engine.Set) bool {
		w := set.Requests[0]
		value, err := parse(objectValue{use: w.Use, text: w.Value})
		return err != nil || !space.HasNumber(value)
	})
	for batch := range slices.Chunk(missing, adoptBatchSize) {
		if err := v.adoptBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// servicesOf returns the services among objects.
func servicesOf(objects []object.Object) []*corev1.Service {
	var all []*corev1.Service
	for _, o := range objects {
		if svc, ok := o.(*corev1.Service); ok {
			all = append(all, svc)
		}
	}
	return all
}

func byAge(a, b object.Object) int {
	x, y := a.GetMetadata(), b.GetMetadata()
	return cmp.Or(
		x.GetCreationTimestamp().AsTime().Compare(y.GetCreationTimestamp().AsTime()),
		strings.Compare(x.GetUid(), y.GetUid()))
}

func ownerOf(o object.Object) store.Owner {
	meta := o.GetMetadata()
	return store.Owner{UID: meta.GetUid(), Kind: object.KindOf(o), Namespace: meta.GetNamespace(), Name: meta.GetName()}
}
