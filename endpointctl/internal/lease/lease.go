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

	corev1 "portolan.dev/proto/portolan/core/v1"
	registryv1 "portolan.dev/proto/portolan/registry/v1"
	"portolan.dev/services/kit/app"
)

// fenceHeader ties a write to a lease.
const fenceHeader = "portolan-fence"

// Fence returns a context whose writes the registry refuses unless the lease is
// at this epoch.
func Fence(ctx context.Context, namespace, name string, epoch uint64) context.Context {
	return metadata.AppendToOutgoingContext(ctx, fenceHeader, fmt.Sprintf("%s/%s=%d", namespace, name, epoch))
}

// Config is what an elector needs.
type Config struct {
	Client    registryv1.LeaseServiceClient
	Log       *slog.Logger
	Namespace string
	Name      string
	// Identity is unique among replicas and from one start to the next.
	Identity string
	// Duration is how long a lease counts that is not renewed.
	Duration time.Duration
	// Lead is called when the lease is won. It must end when its context does, which is before the lease runs out.
	// The context fences writes. All that a leader before has written is at or before the revision.
	Lead func(ctx context.Context, epoch, revision uint64)
}

// Elector competes for a lease.
type Elector struct {
	cfg Config

	// seen is the lease as it last changed, and when that was noticed.
	seen   *corev1.Lease
	seenAt time.Time
}

// New returns an elector.
func New(cfg Config) *Elector { return &Elector{cfg: cfg} }

// Run competes until ctx is done, and then gives the lease back.
func (e *Elector) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		held, at := e.compete(ctx)
		if held == nil {
			return nil
		}
		e.lead(ctx, held, at)
	}
	return nil
}

// compete tries until the lease is won, and returns it and when it was asked
// for, or nil when ctx is done.
func (e *Elector) compete(ctx context.Context) (*corev1.Lease, time.Time) {
	for {
		at := time.Now()
		held, err := e.try(ctx)
		switch {
		case held != nil:
			return held, at
		case err != nil && ctx.Err() == nil:
			e.cfg.Log.Debug("lease not to be had", "err", err)
		}
		if !app.Pause(ctx, e.cfg.Duration/5) {
			return nil, at
		}
	}
}

// try takes the lease if nobody has it, or who has it has not renewed it for its
// duration. Nil without an error: somebody has it.
func (e *Elector) try(ctx context.Context) (*corev1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Duration/2)
	defer cancel()
	resp, err := e.cfg.Client.GetLease(ctx, &registryv1.GetLeaseRequest{Namespace: e.cfg.Namespace, Name: e.cfg.Name})
	if status.Code(err) == codes.NotFound {
		created, err := e.cfg.Client.CreateLease(ctx, &registryv1.CreateLeaseRequest{Lease: e.taken(nil)})
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
	// That it is our own happens when the answer to a renewal was lost.
	if holder != "" && holder != e.cfg.Identity && time.Since(e.seenAt) < duration {
		return nil, nil
	}
	updated, err := e.cfg.Client.UpdateLease(ctx, &registryv1.UpdateLeaseRequest{Lease: e.taken(now)})
	return updated.GetLease(), err
}

// taken is the lease when this replica has taken it; old is nil if there is none.
func (e *Elector) taken(old *corev1.Lease) *corev1.Lease {
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

// lead leads while the lease can be renewed.
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
	e.cfg.Log.Info("leading no more", "lease", e.cfg.Name, "epoch", epoch)
	if ctx.Err() != nil && held != nil {
		e.giveBack(held)
	}
}

// renew renews the lease until ctx is done, and then returns it as it is; or
// nil if it is lost: to somebody else, or because it could not be renewed for
// two thirds of its duration.
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

// giveBack lets another replica take over at once. That it may fail is why
// leases run out.
func (e *Elector) giveBack(held *corev1.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Duration/2)
	defer cancel()
	next := held.CloneVT()
	next.Spec.HolderIdentity = ""
	if _, err := e.cfg.Client.UpdateLease(ctx, &registryv1.UpdateLeaseRequest{Lease: next}); err != nil {
		e.cfg.Log.Debug("lease not given back", "lease", e.cfg.Name, "err", err)
	}
}
