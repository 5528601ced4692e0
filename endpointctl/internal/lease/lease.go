package lease

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
)

// fenceHeader is the metadata key that ties a write to a lease.
const fenceHeader = "portolan-fence"

// Fence returns a context for writes that the registry refuses unless the lease has this epoch.
func Fence(ctx context.Context, namespace, name string, epoch uint64) context.Context {
	return metadata.AppendToOutgoingContext(ctx, fenceHeader, fmt.Sprintf("%s/%s=%d", namespace, name, epoch))
}

// Config is the configuration of an elector.
type Config struct {
	Client    registryv1.LeaseServiceClient
	Log       *slog.Logger
	Namespace string
	Name      string
	// Identity is the name of this replica in the lease. No other running replica may have it. A
	// replica with the same identity after a restart takes its lease back at once.
	Identity string
	// Duration is the time after which a lease that is not renewed expires.
	Duration time.Duration
	// Lead is called when the lease is won. It must return when its context ends, which is before
	// the lease expires. The context fences writes. All writes of the previous leader are at or
	// before the revision.
	Lead func(ctx context.Context, epoch, revision uint64)
}

// Elector competes for a lease.
type Elector struct {
	cfg Config

	// seen is the last observed version of the lease, and seenAt the time at which it was first
	// observed.
	seen   *corev1.Lease
	seenAt time.Time
}

// New returns an elector.
func New(cfg Config) *Elector { return &Elector{cfg: cfg} }

// Run competes until ctx is done, and then releases the lease.
func (e *Elector) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		held, at := e.acquire(ctx)
		if held == nil {
			return nil
		}
		e.lead(ctx, held, at)
	}
	return nil
}

// acquire tries until the lease is won. It returns the lease and the time of the request that won
// it, or nil when ctx is done.
func (e *Elector) acquire(ctx context.Context) (*corev1.Lease, time.Time) {
	for {
		at := time.Now()
		held, err := e.tryAcquire(ctx)
		switch {
		case held != nil:
			return held, at
		case err != nil && ctx.Err() == nil:
			e.cfg.Log.Debug("lease not acquired", "err", err)
		}
		if !app.Pause(ctx, e.cfg.Duration/5) {
			return nil, at
		}
	}
}

// tryAcquire takes the lease if it has no holder, or if its holder has not renewed it for its
// duration. It returns nil without an error if another replica holds it.
func (e *Elector) tryAcquire(ctx context.Context) (*corev1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Duration/2)
	defer cancel()
	resp, err := e.cfg.Client.GetLease(ctx, &registryv1.GetLeaseRequest{Namespace: e.cfg.Namespace, Name: e.cfg.Name})
	if status.Code(err) == codes.NotFound {
		created, err := e.cfg.Client.CreateLease(ctx, &registryv1.CreateLeaseRequest{Lease: e.heldByMe(nil)})
		return created.GetLease(), err
	}
	if err != nil {
		return nil, err
	}
	now := resp.GetLease()
	if e.seen == nil || e.seen.GetMetadata().GetResourceVersion() != now.GetMetadata().GetResourceVersion() {
		e.seen, e.seenAt = now, time.Now()
	}
	duration := time.Duration(now.GetSpec().GetLeaseDurationSeconds()) * time.Second
	holder := now.GetSpec().GetHolderIdentity()
	// The holder is this replica if the response to a renewal was lost.
	if holder != "" && holder != e.cfg.Identity && time.Since(e.seenAt) < duration {
		return nil, nil
	}
	updated, err := e.cfg.Client.UpdateLease(ctx, &registryv1.UpdateLeaseRequest{Lease: e.heldByMe(now)})
	return updated.GetLease(), err
}

// heldByMe returns the lease with this replica as its holder. old is nil if the lease does not
// exist.
func (e *Elector) heldByMe(old *corev1.Lease) *corev1.Lease {
	now := timestamppb.Now()
	seconds := int32((e.cfg.Duration + time.Second - 1) / time.Second)
	fresh := &corev1.Lease{
		Metadata: &corev1.ObjectMeta{Namespace: e.cfg.Namespace, Name: e.cfg.Name},
		Spec:     &corev1.LeaseSpec{HolderIdentity: e.cfg.Identity, LeaseDurationSeconds: seconds, AcquireTime: now, RenewTime: now},
	}
	if old != nil {
		fresh.Metadata = old.GetMetadata()
		fresh.Spec.LeaseTransitions = old.GetSpec().GetLeaseTransitions() + 1
		fresh.Spec.Epoch = old.GetSpec().GetEpoch()
	}
	return fresh
}

// lead leads as long as the lease can be renewed.
func (e *Elector) lead(ctx context.Context, held *corev1.Lease, at time.Time) {
	epoch := held.GetSpec().GetEpoch()
	e.cfg.Log.Info("leading", "lease", e.cfg.Name, "epoch", epoch)
	leading, stop := context.WithCancel(Fence(ctx, e.cfg.Namespace, e.cfg.Name, epoch))
	revision := held.GetMetadata().GetResourceVersion()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.cfg.Lead(leading, epoch, revision)
	}()
	held = e.renew(ctx, held, at)
	stop()
	<-ended
	e.cfg.Log.Info("no longer leading", "lease", e.cfg.Name, "epoch", epoch)
	if ctx.Err() != nil && held != nil {
		e.release(held)
	}
}

// renew renews the lease until ctx is done, and then returns its last version. It returns nil if
// the lease is lost: another replica has taken it, or it could not be renewed for two thirds of its
// duration.
func (e *Elector) renew(ctx context.Context, held *corev1.Lease, at time.Time) *corev1.Lease {
	for {
		until := at.Add(e.cfg.Duration * 2 / 3)
		if !app.Pause(ctx, min(e.cfg.Duration/4, time.Until(until))) {
			return held
		}
		asked := time.Now()
		renewed, err := e.renewOnce(ctx, held, until)
		switch {
		case err == nil:
			held, at = renewed, asked
		case ctx.Err() != nil:
			return held
		case status.Code(err) == codes.Aborted || status.Code(err) == codes.NotFound:
			e.cfg.Log.Warn("lease lost", "lease", e.cfg.Name, "err", err)
			return nil
		case !time.Now().Before(until):
			e.cfg.Log.Warn("lease not renewed in time", "lease", e.cfg.Name, "err", err)
			return nil
		}
	}
}

func (e *Elector) renewOnce(ctx context.Context, held *corev1.Lease, until time.Time) (*corev1.Lease, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	next := held.CloneVT()
	next.Spec.RenewTime = timestamppb.Now()
	resp, err := e.cfg.Client.UpdateLease(ctx, &registryv1.UpdateLeaseRequest{Lease: next})
	return resp.GetLease(), err
}

// release releases the lease, so that another replica can take over at once. If that fails, the
// lease expires.
func (e *Elector) release(held *corev1.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Duration/2)
	defer cancel()
	next := held.CloneVT()
	next.Spec.HolderIdentity = ""
	if _, err := e.cfg.Client.UpdateLease(ctx, &registryv1.UpdateLeaseRequest{Lease: next}); err != nil {
		e.cfg.Log.Debug("lease not released", "lease", e.cfg.Name, "err", err)
	}
}
