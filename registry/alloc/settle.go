package alloc

import (
	"context"
	"slices"
	"time"

	allocatorv1 "portolan.dev/proto/portolan/allocator/v1"
	corev1 "portolan.dev/proto/portolan/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
)

const (
	settleBatch  = 500
	settleLinger = 100 * time.Millisecond
	settleRetry  = time.Second
	findTimeout  = time.Second // a write that only gives values up is held up for no longer without the allocator
)

// settlement is a confirmation or a release that can wait.
type settlement struct {
	slots   *allocatorv1.OwnerSlots
	release bool
}

// Confirm makes the values of a plan permanent, now that the service is stored. It does not wait.
func (c *Client) Confirm(p *Plan) {
	if len(p.Claims) > 0 {
		c.settleLater(settlement{slots: &allocatorv1.OwnerSlots{OwnerUid: p.svc.GetMetadata().GetUid(), Slots: p.Slots()}})
	}
}

// Undo gives back what a plan was allocated: its service is certainly not stored.
func (c *Client) Undo(ctx context.Context, p *Plan) {
	if len(p.Claims) > 0 {
		c.release(ctx, &allocatorv1.OwnerSlots{OwnerUid: p.svc.GetMetadata().GetUid(), Slots: p.Slots()})
	}
}

// ReleaseAll gives back everything of a service that is certainly gone.
func (c *Client) ReleaseAll(ctx context.Context, svc *corev1.Service) {
	if hasValues(svc) {
		c.release(ctx, &allocatorv1.OwnerSlots{OwnerUid: svc.GetMetadata().GetUid()})
	}
}

// FindVanished looks up which slots have the values that the new version of a plan's service no longer has. Only the allocator knows. It is called
// before the commit: a later version may take such a value again, under a slot of its own, which is then not among those that are released. Where
// the allocator does not answer, its verifier will see to the values.
func (c *Client) FindVanished(ctx context.Context, p *Plan) {
	if len(p.Vanished) == 0 {
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
		if slices.Contains(p.Vanished, allocation.GetValue()) && allocation.GetState() != allocatorv1.AllocationState_ALLOCATION_STATE_RESTING {
			p.vanished = append(p.vanished, allocation.GetSlot())
		}
	}
}

// ReleaseVanished gives back what FindVanished has found, now that the plan's service is stored without it.
func (c *Client) ReleaseVanished(ctx context.Context, p *Plan) {
	if len(p.vanished) > 0 {
		c.release(ctx, &allocatorv1.OwnerSlots{OwnerUid: p.svc.GetMetadata().GetUid(), Slots: p.vanished})
	}
}

// release tries at once, also where the caller has given up, so that a value is free when the answer to a delete is there; and later where that fails.
func (c *Client) release(ctx context.Context, slots *allocatorv1.OwnerSlots) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if _, err := c.allocator.Release(ctx, &allocatorv1.ReleaseRequest{Owners: []*allocatorv1.OwnerSlots{slots}}); err != nil {
		c.settleLater(settlement{slots: slots, release: true})
	}
}

func (c *Client) settleLater(s settlement) {
	select {
	case c.pending <- s:
	default:
		c.dropped.Inc()
	}
}

// Run settles in batches what can wait, until ctx is done. What is left then is the verifier's.
func (c *Client) Run(ctx context.Context) error {
	for {
		batch := c.collect(ctx)
		if batch == nil {
			return nil
		}
		for !c.settle(ctx, batch) {
			if !app.Pause(ctx, settleRetry) {
				return nil
			}
		}
	}
}

// collect waits for something to settle and takes along what comes soon after it; nil when ctx is done. The wait is what keeps settling cheap: each
// call is a commit of the allocator, and somebody's allocation waits for it.
func (c *Client) collect(ctx context.Context) []settlement {
	var batch []settlement
	select {
	case s := <-c.pending:
		batch = append(batch, s)
	case <-ctx.Done():
		return nil
	}
	over := time.NewTimer(settleLinger)
	defer over.Stop()
	for len(batch) < settleBatch {
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

// settle says whether the batch is settled. An answer that is no lack of an answer will be the same next time: it is logged, and the verifier's to cure.
func (c *Client) settle(ctx context.Context, batch []settlement) bool {
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
