package lease

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/app"
)

// elector competes for one lease.
type elector struct {
	cfg   *Config
	name  string
	level slog.Level // of the log lines about holding it
	lead  func(ctx context.Context, epoch, revision uint64)

	// unknown is set if the lease could not be read. seen is the last observed version of the lease,
	// or nil if it does not exist, and seenAt the time at which it was first observed.
	unknown bool
	seen    *corev1.Lease
	seenAt  time.Time

	// until is the time at which this replica gives the lease up unless it is renewed; nil: it has never
	// held it.
	until atomic.Pointer[time.Time]
}

// read reads the lease, from a registry that has reached a revision.
func (e *elector) read(ctx context.Context, revision uint64) error {
	resp, err := e.cfg.Client.GetLease(ctx, &registryv1.GetLeaseRequest{Namespace: e.cfg.Namespace, Name: e.name, MinRevision: revision})
	e.unknown = err != nil && status.Code(err) != codes.NotFound
	switch now := resp.GetLease(); {
	case e.unknown:
		return err
	case err != nil:
		e.seen = nil
	case e.seen == nil || e.seen.GetMetadata().GetResourceVersion() != now.GetMetadata().GetResourceVersion():
		e.seen, e.seenAt = now, time.Now()
	}
	return nil
}

// holder returns the observed holder of the lease.
func (e *elector) holder() string { return e.seen.GetSpec().GetHolderIdentity() }

// vacant reports whether the lease does not exist or has no holder, or its holder has not renewed it
// for its duration. The holder may also be this replica, if the response to a request was lost.
func (e *elector) vacant() bool {
	if e.unknown {
		return false
	}
	duration := time.Duration(e.seen.GetSpec().GetLeaseDurationSeconds()) * time.Second
	return e.holder() == "" || e.holder() == e.cfg.Identity || time.Since(e.seenAt) >= duration
}

// take takes the lease as it was last observed. It returns the lease and the time of the request.
func (e *elector) take(ctx context.Context, shards int) (*corev1.Lease, time.Time, error) {
	at := time.Now()
	held, err := e.put(ctx, e.heldByMe(e.seen, shards))
	return held, at, err
}

// put stores the lease, unless it has changed since it was observed.
func (e *elector) put(ctx context.Context, lease *corev1.Lease) (*corev1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Duration/2)
	defer cancel()
	if lease.GetMetadata().GetResourceVersion() == 0 {
		created, err := e.cfg.Client.CreateLease(ctx, &registryv1.CreateLeaseRequest{Lease: lease})
		return created.GetLease(), err
	}
	updated, err := e.cfg.Client.UpdateLease(ctx, &registryv1.UpdateLeaseRequest{Lease: lease})
	return updated.GetLease(), err
}

// heldByMe returns the lease with this replica as its holder. old is nil if the lease does not
// exist.
func (e *elector) heldByMe(old *corev1.Lease, shards int) *corev1.Lease {
	now := timestamppb.Now()
	seconds := int32((e.cfg.Duration + time.Second - 1) / time.Second)
	fresh := &corev1.Lease{
		Metadata: &corev1.ObjectMeta{Namespace: e.cfg.Namespace, Name: e.name},
		Spec:     &corev1.LeaseSpec{HolderIdentity: e.cfg.Identity, LeaseDurationSeconds: seconds, AcquireTime: now, RenewTime: now, Shards: stored(shards)},
	}
	if old != nil {
		fresh.Metadata = old.GetMetadata()
		fresh.Spec.LeaseTransitions = old.GetSpec().GetLeaseTransitions() + 1
		fresh.Spec.Epoch = old.GetSpec().GetEpoch()
	}
	return fresh
}

// hold leads as long as the lease can be renewed.
func (e *elector) hold(ctx context.Context, held *corev1.Lease, at time.Time) {
	epoch := held.GetSpec().GetEpoch()
	e.cfg.Log.Log(ctx, e.level, "leading", "lease", e.name, "epoch", epoch)
	leading, stop := context.WithCancel(Fence(ctx, e.cfg.Namespace, e.name, epoch))
	revision := held.GetMetadata().GetResourceVersion()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.lead(leading, epoch, revision)
	}()
	held = e.renew(ctx, held, at)
	stop()
	<-ended
	e.cfg.Log.Log(ctx, e.level, "no longer leading", "lease", e.name, "epoch", epoch)
	if ctx.Err() != nil && held != nil {
		e.release(held)
	}
}

// renew renews the lease until ctx is done, and then returns its last version. It returns nil if
// the lease is lost: another replica has taken it, or it could not be renewed for two thirds of its
// duration.
func (e *elector) renew(ctx context.Context, held *corev1.Lease, at time.Time) *corev1.Lease {
	for {
		until := at.Add(e.cfg.Duration * 2 / 3)
		e.until.Store(&until)
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
			e.cfg.Log.Warn("lease lost", "lease", e.name, "err", err)
			return nil
		case !time.Now().Before(until):
			e.cfg.Log.Warn("lease not renewed in time", "lease", e.name, "err", err)
			return nil
		}
	}
}

func (e *elector) renewOnce(ctx context.Context, held *corev1.Lease, until time.Time) (*corev1.Lease, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	next := held.CloneVT()
	next.Spec.RenewTime = timestamppb.Now()
	resp, err := e.cfg.Client.UpdateLease(ctx, &registryv1.UpdateLeaseRequest{Lease: next})
	return resp.GetLease(), err
}

// release releases the lease, so that another replica can take over at once. If that fails, the
// lease expires.
func (e *elector) release(held *corev1.Lease) {
	ctx, cancel := context.WithTimeout(context.Background(), e.cfg.Duration/2)
	defer cancel()
	next := held.CloneVT()
	next.Spec.HolderIdentity = ""
	if _, err := e.cfg.Client.UpdateLease(ctx, &registryv1.UpdateLeaseRequest{Lease: next}); err != nil {
		e.cfg.Log.Debug("lease not released", "lease", e.name, "err", err)
	}
}
