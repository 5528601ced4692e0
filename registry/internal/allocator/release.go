package allocator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
)

const (
	maxBatch      = 500
	batchDelay    = 100 * time.Millisecond
	retryInterval = time.Second
	// findTimeout is the longest delay of a write that only releases values if the allocator does not
	// answer.
	findTimeout = time.Second
	// valuesAge is the time after which a release that waits is sent without values of reserves. The
	// allocator may have executed the release although its answer was lost, and may grant such a value to
	// another process later. The limit is below the time for which a value rests.
	valuesAge = time.Minute
)

// pendingCall is a confirmation or a release that is sent later.
type pendingCall struct {
	slots   *allocatorv1.OwnerSlots
	release bool
	since   time.Time
}

// Finish settles a plan after its commit. err is the error of the commit. Finish returns true if the commit
// was refused because the values may not be used any more: the reserve has ended, or the log has another
// epoch. The values are released then, and the caller plans, allocates and commits again.
func (c *Client) Finish(ctx context.Context, p *Plan, err error) (again bool) {
	switch again = c.observeRefusal(p, err); {
	case err == nil:
		c.confirm(p)
		c.releaseFound(ctx, p)
	case errors.Is(err, store.ErrUnknown):
		if p.taken != nil {
			c.reserve.stock.settle(p.taken, ownerOf(p.svc), p.Slots(), false)
		}
	case p.taken != nil:
		c.reserve.stock.putBack(p.taken)
	case len(p.Claims) > 0:
		c.release(ctx, &allocatorv1.OwnerSlots{OwnerUid: p.svc.GetMetadata().GetUid(), Slots: p.Slots()})
	}
	return again
}

// observeRefusal ends the reserve if err is the refusal of a commit because its Lease is gone or the
// log has another epoch. It reports whether err is such a refusal.
func (c *Client) observeRefusal(p *Plan, err error) bool {
	other, otherLog := errors.AsType[*store.EpochError](err)
	switch {
	case p.holder.refuses(err):
		c.reserve.end(p.holder, err)
	case otherLog:
		c.ObserveLog(other.Have)
	default:
		return false
	}
	return true
}

// confirm confirms the values of a plan after the service is stored. It does not wait.
func (c *Client) confirm(p *Plan) {
	switch {
	case p.taken != nil:
		c.reserve.stock.settle(p.taken, ownerOf(p.svc), p.Slots(), true)
	case len(p.Claims) > 0:
		c.sendLater(pendingCall{slots: &allocatorv1.OwnerSlots{OwnerUid: p.svc.GetMetadata().GetUid(), Slots: p.Slots()}})
	}
}

// ReleaseAll releases all values of a service. The caller must be certain that the service is
// deleted.
func (c *Client) ReleaseAll(ctx context.Context, svc *corev1.Service) {
	if hasValues(svc) {
		c.release(ctx, &allocatorv1.OwnerSlots{OwnerUid: svc.GetMetadata().GetUid(), Values: addresses(values(svc))})
	}
}

// addresses returns the virtual IPs among values, sorted.
func addresses(values map[string]bool) []string {
	var found []string
	for value := range values {
		if strings.ContainsAny(value, ".:") {
			found = append(found, value)
		}
	}
	slices.Sort(found)
	return found
}

// FindReleased finds the slots of the values that the new version of the service no longer has.
// Only the allocator has this information. It is called before the commit, because a later version
// may claim such a value again in a slot of its own, which then is not among the slots to release.
// If the allocator does not answer, its verifier will free the values.
func (c *Client) FindReleased(ctx context.Context, p *Plan) {
	if len(p.Released) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	answer, err := c.allocator.ListAllocations(ctx, &allocatorv1.ListAllocationsRequest{OwnerUid: p.svc.GetMetadata().GetUid(), PageSize: 1000})
	if err != nil {
		c.log.Warn("values of a former version are left to the verifier", "service", p.svc.GetMetadata().GetName(), "err", err)
		return
	}
	for _, allocation := range answer.GetAllocations() {
		if slices.Contains(p.Released, allocation.GetValue()) && allocation.GetState() != allocatorv1.AllocationState_ALLOCATION_STATE_RESTING {
			p.releasedSlots = append(p.releasedSlots, allocation.GetSlot())
		}
	}
}

// noSlot is a slot that no value has. It makes a release apply to values of reserves only, because
// no slots stand for all slots.
const noSlot = "-"

// releaseFound releases the slots that FindReleased found, after the new version is stored. A virtual IP
// that the new version lacks may still be in the reserve that it came from. It has no slot there yet.
func (c *Client) releaseFound(ctx context.Context, p *Plan) {
	vanished := map[string]bool{}
	for _, value := range p.Released {
		vanished[value] = true
	}
	values := addresses(vanished)
	if len(p.releasedSlots) == 0 && len(values) == 0 {
		return
	}
	c.release(ctx, &allocatorv1.OwnerSlots{OwnerUid: p.svc.GetMetadata().GetUid(), Slots: append(p.releasedSlots, noSlot), Values: values})
}

// release releases slots at once, also if the caller has given up, so that a value is free when a
// delete returns. If that fails, it is tried again later.
func (c *Client) release(ctx context.Context, slots *allocatorv1.OwnerSlots) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if _, err := c.allocator.Release(ctx, &allocatorv1.ReleaseRequest{Owners: []*allocatorv1.OwnerSlots{slots}}); err != nil {
		c.sendLater(pendingCall{slots: slots, release: true, since: time.Now()})
	}
}

func (c *Client) sendLater(s pendingCall) {
	select {
	case c.pending <- s:
	default:
		c.dropped.Inc()
	}
}

// Run keeps the reserve, and sends waiting confirmations and releases in batches, until ctx is done.
// Confirmations and releases that remain then are left to the allocator's verifier. Allocations must have
// ended before, so that the reserve can be closed.
func (c *Client) Run(ctx context.Context) error {
	var tasks sync.WaitGroup
	if c.reserve != nil {
		tasks.Go(func() { c.reserve.run(ctx) })
	}
	tasks.Go(func() { c.sendPending(ctx) })
	tasks.Wait()
	return nil
}

func (c *Client) sendPending(ctx context.Context) {
	for {
		batch := c.collect(ctx)
		if batch == nil {
			return
		}
		for !c.sendBatch(ctx, batch) {
			if !app.Pause(ctx, retryInterval) {
				return
			}
		}
	}
}

// collect waits for a call and collects further calls within batchDelay. It returns nil
// when ctx is done. Batching keeps the number of calls low: each call is a commit of the allocator,
// and allocations wait for it.
func (c *Client) collect(ctx context.Context) []pendingCall {
	var batch []pendingCall
	select {
	case s := <-c.pending:
		batch = append(batch, s)
	case <-ctx.Done():
		return nil
	}
	over := time.NewTimer(batchDelay)
	defer over.Stop()
	for len(batch) < maxBatch {
		select {
		case s := <-c.pending:
			batch = append(batch, s)
		case <-over.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// sendBatch sends a batch and reports whether it is done. If the allocator does not answer, the
// batch must be sent again. Any other error would occur again, so it is logged and the batch is left to
// the allocator's verifier.
func (c *Client) sendBatch(ctx context.Context, batch []pendingCall) bool {
	confirm, release := &allocatorv1.ConfirmRequest{}, &allocatorv1.ReleaseRequest{}
	for _, s := range batch {
		if s.release {
			if time.Since(s.since) > valuesAge {
				s.slots.Values = nil
			}
			release.Owners = append(release.Owners, s.slots)
		} else {
			confirm.Owners = append(confirm.Owners, s.slots)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var err error
	if len(confirm.GetOwners()) > 0 {
		_, err = c.allocator.Confirm(ctx, confirm)
	}
	if err == nil && len(release.GetOwners()) > 0 {
		_, err = c.allocator.Release(ctx, release)
	}
	if err == nil {
		return true
	}
	if apierr.IsUnavailable(unavailable(err)) {
		return false
	}
	c.log.Error("confirmations and releases are left to the verifier", "err", err)
	return true
}
