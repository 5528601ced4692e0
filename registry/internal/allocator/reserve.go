package allocator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/obs"
)

// reserveTimeout is the longest that a call to renew the reserve may take. It is short because the
// warning of an outage waits for it.
const reserveTimeout = 3 * time.Second

// reserve keeps the stock: it creates the holder, and calls the allocator in the background, one call
// at a time.
type reserve struct {
	allocator allocatorv1.AllocatorServiceClient
	leases    Leases
	health    *health.Registry
	log       *slog.Logger
	stock     *stock

	opening chan struct{} // has an element while a holder is being created
	none    atomic.Bool   // the allocator has no reserves
	closed  atomic.Bool   // no holder may be created any more

	outage   obs.Outage
	answered time.Time // last answer of the allocator, or the begin of the first reserve; used by run only
	renewed  time.Time // when run replaced a holder last
}

func newReserve(allocator allocatorv1.AllocatorServiceClient, leases Leases, health *health.Registry, log *slog.Logger) *reserve {
	return &reserve{
		allocator: allocator, leases: leases, health: health, log: log, stock: newStock(), opening: make(chan struct{}, 1),
		outage: obs.Outage{Log: log, Down: "the allocator does not renew the reserve", Up: "the allocator renews the reserve again"},
	}
}

// open returns the present holder. If there is none, open creates one. It returns nil if the
// allocator has no reserves.
func (r *reserve) open(ctx context.Context) (*holder, error) {
	if h := r.stock.current(); h != nil {
		return h, nil
	}
	select {
	case r.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-r.opening }()
	switch h := r.stock.current(); {
	case h != nil, r.none.Load():
		return h, nil
	case r.closed.Load():
		return nil, store.ErrClosed
	}
	h, err := newHolder(ctx, r.leases)
	if errors.Is(err, store.ErrUnknown) { // only the outcome for the Lease is unknown
		err = fmt.Errorf("%w: %v", store.ErrUnavailable, err) //nolint:errorlint // the write of the service has not begun
	}
	if err != nil {
		return nil, fmt.Errorf("create the Lease of the reserve: %w", err)
	}
	r.stock.begin(h)
	r.log.Info("a reserve of addresses begins", "lease", h.name)
	return h, nil
}

// end drops the stock if h is its holder.
func (r *reserve) end(h *holder, why error) {
	if r.stock.end(h) {
		r.log.Warn("the addresses at hand are dropped", "lease", h.name, "err", why)
	}
}

// observeLog drops the stock if it is for a log of another epoch.
func (r *reserve) observeLog(epoch string) {
	if h := r.stock.endOtherLog(epoch); h != nil {
		r.log.Warn("the addresses at hand are dropped because the log has another epoch", "lease", h.name)
	}
}

// run renews the reserve until ctx is done, and then closes it. It does nothing before the first
// holder, so an installation without services makes no calls.
func (r *reserve) run(ctx context.Context) {
	for ctx.Err() == nil {
		if !r.wait(ctx) {
			break
		}
		if x := r.stock.next(time.Now()); x != nil {
			r.exchange(ctx, x)
		}
	}
	r.close(context.WithoutCancel(ctx))
}

// wait waits until the next call is due. It returns false if ctx ends first.
func (r *reserve) wait(ctx context.Context) bool {
	for {
		delay, has := r.stock.due(time.Now())
		if has && delay == 0 {
			return true
		}
		if !has {
			delay = time.Hour // until the first holder, or a new one, wakes the loop
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-r.stock.wake:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return false
		}
	}
}

// exchange makes one call and applies its answer.
func (r *reserve) exchange(ctx context.Context, x *exchange) {
	if r.answered.IsZero() {
		r.answered = time.Now()
	}
	answer, err := r.call(ctx, x.request)
	now := time.Now()
	switch code := apierr.Code(err); {
	case err == nil:
		r.answered = now
		r.outage.Over()
		r.health.Warn("allocator", nil)
		if why := r.stock.answered(x, answer, now); why != nil {
			r.renew(ctx, x.holder, why)
		}
	case code == codes.FailedPrecondition:
		r.renew(ctx, x.holder, err)
	case code == codes.Unimplemented:
		r.giveUp(ctx, x.holder)
	case code == codes.Aborted, apierr.IsUnavailable(unavailable(err)):
		r.stock.unanswered(x, now)
		r.fail(err, now)
	default:
		r.log.Error("settlements are left to the verifier", "settlements", x.settled, "returned", x.returned, "err", err)
		r.stock.refused(x, now)
		r.fail(err, now)
	}
}

func (r *reserve) call(ctx context.Context, request *allocatorv1.ReserveRequest) (*allocatorv1.ReserveResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, reserveTimeout)
	defer cancel()
	return r.allocator.Reserve(ctx, request)
}

// renew replaces a holder after its reserve has ended, at most once in the time of a heartbeat. If that
// fails, the next allocation tries it again.
func (r *reserve) renew(ctx context.Context, h *holder, why error) {
	r.end(h, why)
	if !app.Pause(ctx, heartbeat-time.Since(r.renewed)) {
		return
	}
	r.renewed = time.Now()
	if _, err := r.open(ctx); err != nil {
		r.log.Warn("no new reserve yet", "err", err)
	}
}

// giveUp notes that the allocator has no reserves, and deletes the Lease, because the allocator will not.
func (r *reserve) giveUp(ctx context.Context, h *holder) {
	r.none.Store(true)
	r.stock.end(h)
	r.log.Info("the allocator has no reserves: every address is asked for")
	r.deleteLease(ctx, h)
}

func (r *reserve) deleteLease(ctx context.Context, h *holder) {
	if err := r.leases.DeleteLease(ctx, h.name); err != nil {
		r.log.Warn("the Lease of a reserve is left behind", "lease", h.name, "err", err)
	}
}

// close ends the reserve at a clean stop, when no write is under way any more: it settles everything,
// gives the free values back and deletes the Lease. If that does not succeed, the allocator closes
// the reserve later, as after the death of a process.
func (r *reserve) close(ctx context.Context) {
	r.closed.Store(true)
	for {
		x, complete := r.stock.last()
		if x == nil {
			return
		}
		answer, err := r.call(ctx, x.request)
		if err != nil {
			r.log.Warn("the reserve is left to the allocator", "lease", x.holder.name, "err", err)
			return
		}
		if complete {
			r.stock.end(x.holder)
			r.deleteLease(ctx, x.holder)
			return
		}
		if r.stock.answered(x, answer, time.Now()) != nil {
			return
		}
	}
}
