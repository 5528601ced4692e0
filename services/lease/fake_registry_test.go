package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
)

// fakeRegistry is a registry of leases. Calls take no time. They fail for a holder that cannot reach
// it.
type fakeRegistry struct {
	registryv1.LeaseServiceClient

	mu          sync.Mutex
	leases      map[string]*corev1.Lease // by name
	revision    uint64
	history     []version
	unreachable map[string]bool // holders that cannot reach the registry
	lostAcks    int             // updates that are stored and return an error
	gets        int
	violations  []string
}

// version is a lease as it was from a time on.
type version struct {
	at    time.Time
	lease *corev1.Lease
}

func newFakeRegistry() *fakeRegistry {
	return &fakeRegistry{leases: map[string]*corev1.Lease{}, unreachable: map[string]bool{}}
}

var errUnreachable = errors.New("away")

func (l *fakeRegistry) GetLease(_ context.Context, req *registryv1.GetLeaseRequest, _ ...grpc.CallOption) (*registryv1.GetLeaseResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gets++
	lease := l.leases[req.GetName()]
	if lease == nil {
		return nil, apierr.NotFound("Lease", req.GetName())
	}
	return &registryv1.GetLeaseResponse{Lease: lease.CloneVT()}, nil
}

func (l *fakeRegistry) CreateLease(ctx context.Context, req *registryv1.CreateLeaseRequest, _ ...grpc.CallOption) (*registryv1.CreateLeaseResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	name := req.GetLease().GetMetadata().GetName()
	if l.leases[name] != nil {
		return nil, apierr.AlreadyExists("Lease", name)
	}
	if err := l.checkFence(ctx); err != nil {
		return nil, err
	}
	l.checkCount(ctx, nil, req.GetLease())
	return &registryv1.CreateLeaseResponse{Lease: l.put(req.GetLease(), l.revision+1)}, nil
}

func (l *fakeRegistry) UpdateLease(ctx context.Context, req *registryv1.UpdateLeaseRequest, _ ...grpc.CallOption) (*registryv1.UpdateLeaseResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := req.GetLease()
	name := next.GetMetadata().GetName()
	holder, before := next.GetSpec().GetHolderIdentity(), l.leases[name]
	if l.unreachable[holder] {
		return nil, errUnreachable
	}
	if before == nil {
		return nil, apierr.NotFound("Lease", name)
	}
	if have, want := before.GetMetadata().GetResourceVersion(), next.GetMetadata().GetResourceVersion(); have != want {
		return nil, apierr.Conflict("Lease", name, have, want)
	}
	if err := l.checkFence(ctx); err != nil {
		return nil, err
	}
	l.checkCount(ctx, before, next)
	epoch := before.GetSpec().GetEpoch()
	if holder != "" && holder != before.GetSpec().GetHolderIdentity() {
		epoch++
	}
	stored := l.put(next, epoch)
	if l.lostAcks > 0 {
		l.lostAcks--
		return nil, errUnreachable
	}
	return &registryv1.UpdateLeaseResponse{Lease: stored}, nil
}

// getOld returns a lease as it was at a time. It returns an error if the revision is later, because the
// registry that is asked does not reach it.
func (l *fakeRegistry) getOld(at time.Time, req *registryv1.GetLeaseRequest) (*registryv1.GetLeaseResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lease *corev1.Lease
	reached := uint64(0)
	for _, v := range l.history {
		if v.at.After(at) {
			break
		}
		reached = v.lease.GetMetadata().GetResourceVersion()
		if v.lease.GetMetadata().GetName() == req.GetName() {
			lease = v.lease
		}
	}
	switch {
	case reached < req.GetMinRevision():
		return nil, errUnreachable
	case lease == nil:
		return nil, apierr.NotFound("Lease", req.GetName())
	}
	return &registryv1.GetLeaseResponse{Lease: lease.CloneVT()}, nil
}

// checkFence returns an error if the fence of a call does not hold. The caller holds the lock.
func (l *fakeRegistry) checkFence(ctx context.Context) error {
	md, _ := metadata.FromOutgoingContext(ctx)
	for _, fence := range md.Get(fenceHeader) {
		name, epoch, _ := strings.Cut(strings.TrimPrefix(fence, "default/"), "=")
		if want, err := strconv.ParseUint(epoch, 10, 64); err != nil || l.leases[name].GetSpec().GetEpoch() != want {
			return apierr.FailedPrecondition("the writer does not hold " + name)
		}
	}
	return nil
}

// checkCount records a violation if a write opens or closes the lease of a shard without the fence of
// shard 0. The caller holds the lock.
func (l *fakeRegistry) checkCount(ctx context.Context, before, next *corev1.Lease) {
	md, _ := metadata.FromOutgoingContext(ctx)
	name := next.GetMetadata().GetName()
	if strings.Contains(name, "-shard-") && len(md.Get(fenceHeader)) == 0 && before.GetSpec().GetShards() != next.GetSpec().GetShards() {
		l.violations = append(l.violations, fmt.Sprintf("%s: %v replaces %v without a fence", name, next.GetSpec(), before.GetSpec()))
	}
}

func (l *fakeRegistry) put(lease *corev1.Lease, epoch uint64) *corev1.Lease {
	lease = lease.CloneVT()
	lease.Spec.Epoch = epoch
	l.revision++
	lease.Metadata.ResourceVersion = l.revision
	l.leases[lease.GetMetadata().GetName()] = lease
	l.history = append(l.history, version{time.Now(), lease})
	return lease.CloneVT()
}

func (l *fakeRegistry) set(fn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn()
}
