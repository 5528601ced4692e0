package offers

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/lbctl/internal/providers"
)

const (
	// duration is the time for which a report counts. It is some intervals long, because a provider that does not
	// answer delays a report, and a write may have to be repeated.
	duration = 30 * time.Second
	// interval is the time between two reports.
	interval = 10 * time.Second
	// retryAfter is the pause after a report that failed.
	retryAfter = 2 * time.Second
	// answerTimeout is the time that a provider has to answer before it is left out of a report.
	answerTimeout = 5 * time.Second
)

// Reporter reports the capabilities of providers.
type Reporter struct {
	Leases    registryv1.LeaseServiceClient
	Providers *providers.Set
	Log       *slog.Logger
	// LeaseName is the name of the Lease of lbctl's replicas.
	LeaseName string
	// Identity is the name of this replica.
	Identity string
}

// Run reports at once and then regularly, until ctx is done. The context fences the writes.
func (r *Reporter) Run(ctx context.Context) {
	for {
		pause := interval
		if err := r.report(ctx); err != nil && ctx.Err() == nil {
			r.Log.Info("capabilities of providers not reported; the registry does not check the protocols of load balancers", "err", err)
			pause = retryAfter
		}
		if !app.Pause(ctx, pause) {
			return
		}
	}
}

// report writes the present capabilities into the Lease.
func (r *Reporter) report(ctx context.Context) error {
	name := spec.BalancerOffersLease(r.LeaseName)
	resp, err := r.Leases.GetLease(ctx, &registryv1.GetLeaseRequest{Namespace: object.DefaultNamespace, Name: name})
	if err != nil && apierr.Code(err) != codes.NotFound {
		return err
	}
	lease := resp.GetLease()
	if lease == nil {
		lease = &corev1.Lease{Metadata: &corev1.ObjectMeta{Namespace: object.DefaultNamespace, Name: name}, Spec: &corev1.LeaseSpec{}}
	}
	if err := spec.SetBalancerOffers(lease, r.collect(ctx)); err != nil {
		return err
	}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = r.Identity, int32(duration/time.Second), timestamppb.Now()
	if resp == nil {
		_, err = r.Leases.CreateLease(ctx, &registryv1.CreateLeaseRequest{Lease: lease})
	} else {
		_, err = r.Leases.UpdateLease(ctx, &registryv1.UpdateLeaseRequest{Lease: lease})
	}
	return err
}

// collect returns the capabilities of all providers that answer.
func (r *Reporter) collect(ctx context.Context) spec.BalancerOffers {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var mu sync.Mutex
	var running sync.WaitGroup
	offers := spec.BalancerOffers{}
	for _, provider := range r.Providers.All() {
		running.Go(func() {
			can, err := provider.Capabilities(ctx)
			if err != nil {
				return
			}
			offer := spec.BalancerOffer{Protocols: []string{}, MixedProtocols: can.GetMixedProtocols()}
			for _, protocol := range can.GetProtocols() {
				offer.Protocols = append(offer.Protocols, spec.EnumName(protocol))
			}
			mu.Lock()
			defer mu.Unlock()
			offers[provider.Class()] = offer
		})
	}
	running.Wait()
	return offers
}
