package verifier

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"portolan.dev/services/changes"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/object"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/store"
)

const (
	// HealthCheck is the name of the health check that fails until the verifier has adopted the
	// values of objects.
	HealthCheck = "values"
	// adoptBatchSize is the number of values that are adopted in one transaction.
	adoptBatchSize = 500
	// adoptRetry is the pause after a failure of the store.
	adoptRetry = time.Second
)

var errNotAdopted = errors.New("the values that services and pods have are not known yet: no snapshot from the registry")

// Adopted returns a channel that is closed once every value of the objects in a complete snapshot
// is allocated. Before that, a newly allocated value could be in use, because the store may be new
// or an old copy.
func (v *Verifier) Adopted() <-chan struct{} { return v.adopted }

// adoptSnapshot allocates to the objects of the first snapshot the values that they have. If two
// objects have the same value, the older one gets it, and Run reports the other. Unlike
// [Verifier.allocate], it does not ask the registry about each object: a value of an object that
// was deleted in the meantime is freed after the grace.
func (v *Verifier) adoptSnapshot(ctx context.Context, snapshot []changes.Change) error {
	missing := v.missing(snapshot)
	outage := obs.Outage{Log: v.cfg.Log, Down: "values of objects not adopted, still trying", Up: "values of objects adopted"}
	for batch := range slices.Chunk(missing, adoptBatchSize) {
		for {
			err := v.adoptBatch(ctx, batch)
			if err == nil {
				outage.Over()
				break
			}
			outage.Failed(err)
			if !app.Pause(ctx, adoptRetry) {
				return ctx.Err()
			}
		}
	}
	v.cfg.Log.Info("values of objects are known", "objects", len(snapshot), "taken_up", len(missing))
	v.cfg.Health.Set(HealthCheck, nil)
	close(v.adopted)
	return nil
}

// missing returns a set for each value that an object has without an allocation, the older objects
// first.
func (v *Verifier) missing(snapshot []changes.Change) []engine.Set {
	objects := make([]object.Object, 0, len(snapshot))
	for _, c := range snapshot {
		objects = append(objects, c.New)
	}
	slices.SortFunc(objects, byAge)
	var sets []engine.Set
	for _, o := range objects {
		owner := ownerOf(o)
		for _, w := range valuesOf(o) {
			value, err := parse(w)
			if err != nil || v.cfg.Engine.Owns(owner.UID, value) {
				continue // a malformed value is reported by Run
			}
			sets = append(sets, engine.Set{Owner: owner, Requests: []allocation.ClaimRequest{
				{Slot: repairedSlots + value.String(), Use: w.use, Value: w.text, Repair: true},
			}})
		}
	}
	return sets
}

// adoptBatch allocates and confirms the values that can be allocated. A value that another owner
// has, or that is in no pool, is left to Run, which reports it.
func (v *Verifier) adoptBatch(ctx context.Context, sets []engine.Set) error {
	results, err := v.cfg.Engine.Allocate(ctx, sets, false)
	if err != nil {
		return err
	}
	var slots []engine.OwnerSlots
	for i, r := range results {
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
