package allocator

import (
	"context"
	"slices"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
)

const (
	maxBatch      = 500
	batchDelay    = 100 * time.Millisecond
	retryInterval = time.Second
	// findTimeout is the longest that a write that only gives up values is delayed if the allocator
	// does not answer.
	findTimeout = time.Second
)

// pendingCall is a confirmation or a release that is sent later.
type pendingCall struct {
	slots   *allocatorv1.OwnerSlots
	release bool
}

// Confirm confirms the values of a plan after the service is stored. It does not wait.
func (c *Client) Confirm(p *Plan) {
	if len(p.Claims) > 0 {
		c.sendLater(pendingCall{slots: &allocatorv1.OwnerSlots{OwnerUid: p.svc.GetMetadata().GetUid(), Slots: p.Slots()}})
	}
}

// ReleaseClaims releases the values of a plan. The caller must be certain that the service was not
// stored.
func (c *Client) ReleaseClaims(ctx context.Context, p *Plan) {
	if len(p.Claims) > 0 {
		c.release(ctx, &allocatorv1.OwnerSlots{OwnerUid: p.svc.GetMetadata().GetUid(), Slots: p.Slots()})
	}
}

// ReleaseAll releases all values of a service. The caller must be certain that the service is
// deleted.
func (c *Client) ReleaseAll(ctx context.Context, svc *corev1.Service) {
	if hasValues(svc) {
		c.release(ctx, &allocatorv1.OwnerSlots{OwnerUid: svc.GetMetadata().GetUid()})
	}
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

// ReleaseFound releases the slots that FindReleased found, after the new version is stored.
func (c *Client) ReleaseFound(ctx context.Context, p *Plan) {
	if len(p.releasedSlots) > 0 {
		c.release(ctx, &allocatorv1.OwnerSlots{OwnerUid: p.svc.GetMetadata().GetUid(), Slots: p.releasedSlots})
	}
}

// release releases slots at once, also if the caller has given up, so that a value is free when a
// delete returns. If that fails, it is tried again later.
func (c *Client) release(ctx context.Context, slots *allocatorv1.OwnerSlots) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if _, err := c.allocator.Release(ctx, &allocatorv1.ReleaseRequest{Owners: []*allocatorv1.OwnerSlots{slots}}); err != nil {
		c.sendLater(pendingCall{slots: slots, release: true})
	}
}

func (c *Client) sendLater(s pendingCall) {
	select {
	case c.pending <- s:
	default:
		c.dropped.Inc()
	}
}

// Run sends waiting confirmations and releases in batches until ctx is done. Those that remain then
// are left to the allocator's verifier.
func (c *Client) Run(ctx context.Context) error {
	for {
		batch := c.collect(ctx)
		if batch == nil {
			return nil
		}
		for !c.sendBatch(ctx, batch) {
			if !app.Pause(ctx, retryInterval) {
				return nil
			}
		}
	}
}

// collect waits for a call and adds those that follow within batchDelay. It returns nil
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
// batch must be sent again. Any other error would repeat, so it is logged and the batch is left to
// the allocator's verifier.
func (c *Client) sendBatch(ctx context.Context, batch []pendingCall) bool {
	confirm, release := &allocatorv1.ConfirmRequest{}, &allocatorv1.ReleaseRequest{}
	for _, s := range batch {
		if s.release {
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
