package verifier

import (
	"context"
	"fmt"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

const (
	// lookForLapsed is the time between two looks for reserves that were not renewed, and between two
	// attempts to close some.
	lookForLapsed = time.Second
	// reachTimeout is how long the verifier waits until its view has reached a place in the log,
	// before it begins the closing anew.
	reachTimeout = 10 * time.Second
)

// keepReserves adopts the values of objects at the start, when the registry's log has another epoch, and
// when the allocator's store went back to an older state. It also closes reserves that were not renewed.
// It runs until ctx is done. Nothing else closes reserves.
func (v *Verifier) keepReserves(ctx context.Context) error {
	ticker := time.NewTicker(lookForLapsed)
	defer ticker.Stop()
	for {
		v.keepReservesOnce(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-v.moved:
		case <-v.cfg.Engine.Lost():
		}
	}
}

// keepReservesOnce makes one pass over the reserves.
func (v *Verifier) keepReservesOnce(ctx context.Context) {
	at, filled := v.view.position()
	if !filled {
		return
	}
	losses := v.cfg.Engine.Losses()
	if losses != v.losses {
		v.cfg.Health.Set(HealthCheck, errStoreLost)
	}
	var err error
	if losses == v.losses && v.gate.isOpenFor(at.epoch) {
		err = v.closeLapsed(ctx)
	} else {
		v.gate.shut()
		err = v.adopt(ctx, at.epoch, losses)
	}
	switch {
	case err == nil:
		v.keeping.Over()
	case ctx.Err() == nil:
		v.keeping.Failed(err)
	}
}

// closeLapsed closes the reserves that were not renewed in time.
func (v *Verifier) closeLapsed(ctx context.Context) error {
	lapsed, err := v.cfg.Engine.Lapsed(ctx)
	if err != nil || len(lapsed) == 0 {
		return err
	}
	for _, holder := range lapsed {
		v.cfg.Log.Warn("reserve was not renewed and is closed", "holder", holder)
	}
	return v.closeReserves(ctx, lapsed)
}

// closeReserves ends reserves. After their Leases were deleted no value of them is stored in an object
// any more, because each such write depends on the Lease. Once the view has everything that was written
// before, it shows which of the values objects have. All other values can be allocated to other objects.
// When closeReserves returns, the view has everything that was written before the call, even if holders
// is empty.
func (v *Verifier) closeReserves(ctx context.Context, holders []string) error {
	for _, holder := range holders {
		if err := v.cfg.Registry.DeleteLease(ctx, holder); err != nil {
			return fmt.Errorf("delete lease %s: %w", holder, err)
		}
	}
	epoch, revision, err := v.cfg.Registry.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the head of the registry's log: %w", err)
	}
	if err := v.reach(ctx, position{epoch, revision}); err != nil || len(holders) == 0 {
		return err
	}
	closed, err := v.cfg.Engine.CloseReserves(ctx, holders, v.servicesByIP().ownerOf)
	if closed > 0 {
		v.cfg.Log.Info("reserves closed", "reserves", closed, "revision", revision)
	}
	return err
}

// reach waits until the view has everything up to a place in the log.
func (v *Verifier) reach(ctx context.Context, want position) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for {
		at, _ := v.view.position()
		if at.epoch == want.epoch && at.revision >= want.revision {
			return nil
		}
		select {
		case <-v.moved:
		case <-ctx.Done():
			return fmt.Errorf("the view is at revision %d of epoch %s, not at %d of %s: %w", at.revision, at.epoch, want.revision, want.epoch, ctx.Err())
		}
	}
}

// serviceIndex holds services by their virtual IPs.
type serviceIndex map[pool.Value]*corev1.Service

// servicesByIP returns the services of the view by their virtual IPs. If two have the same one, it is
// the older service.
func (v *Verifier) servicesByIP() serviceIndex {
	index := serviceIndex{}
	for _, svc := range v.view.services() {
		for _, w := range valuesOf(svc) {
			value, err := parse(w)
			if err != nil || w.use != allocatorv1.Use_USE_CLUSTER_IP {
				continue
			}
			if other := index[value]; other == nil || byAge(svc, other) < 0 {
				index[value] = svc
			}
		}
	}
	return index
}

// ownerOf is an allocation.OwnerOf.
func (index serviceIndex) ownerOf(value pool.Value) (store.Owner, string, bool) {
	svc := index[value]
	if svc == nil {
		return store.Owner{}, "", false
	}
	return ownerOf(svc), repairedSlots + value.String(), true
}

// settleReserved settles values that are in reserves although objects have had them for the grace. The
// holders' settlements were lost.
func (v *Verifier) settleReserved(ctx context.Context, reserved []allocation.Allocation, before map[valueOwner]time.Time) {
	if len(reserved) == 0 {
		return
	}
	now := time.Now()
	index := v.servicesByIP()
	var settlements []engine.HolderSettlement
	for _, h := range reserved {
		svc := index[h.Value]
		if svc == nil || v.ageOf(valueOwner{svc.GetMetadata().GetUid(), h.Value}, before, now) < v.cfg.Grace {
			continue
		}
		if v.confirmedByRegistry(ctx, svc, objectValue{use: h.Use, text: h.Value.String()}, h.Value) {
			owner, slot, _ := index.ownerOf(h.Value)
			settlements = append(settlements, engine.HolderSettlement{Holder: h.Owner.UID, Settlement: allocation.Settlement{
				ReservedValue: allocation.ReservedValue{Value: h.Value, Grant: h.Grant}, Owner: owner, Slot: slot, Confirmed: true,
			}})
		}
	}
	if len(settlements) == 0 {
		return
	}
	settled, err := v.cfg.Engine.Settle(ctx, settlements)
	if err != nil {
		v.cfg.Log.Warn("values of services not taken out of reserves", "err", err)
		return
	}
	v.metrics.settled.Add(float64(settled))
}
