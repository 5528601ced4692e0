package allocator

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/batch"
)

const (
	callTimeout = 5 * time.Second // for one call to the allocator
	maxSkipped  = 16              // virtual IPs that are passed over for one service
	retryAfter  = time.Second     // returned to clients while the allocator does not answer
	mostSets    = 500             // claim sets in one call
	mostPending = 100_000         // confirmations and releases that may wait
)

// Client calls the allocator. Concurrent allocations share calls. Confirmations, and releases that
// failed at first, are sent in the background (see [Client.Run]).
type Client struct {
	allocator allocatorv1.AllocatorServiceClient
	log       *slog.Logger
	group     *batch.Group[*allocatorv1.ClaimSet, []string]
	pending   chan pendingCall
	dropped   prometheus.Counter
}

// NewClient returns a client.
func NewClient(allocator allocatorv1.AllocatorServiceClient, log *slog.Logger, metrics prometheus.Registerer) *Client {
	c := &Client{
		allocator: allocator, log: log, pending: make(chan pendingCall, mostPending),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "portolan_registry_settlements_dropped_total",
			Help: "Confirmations and releases left to the allocator's verifier because too many were waiting.",
		}),
	}
	metrics.MustRegister(c.dropped)
	c.group = batch.New(batch.Options[*allocatorv1.ClaimSet]{MaxItems: mostSets, Timeout: callTimeout}, c.allocate)
	return c
}

// Close refuses further allocations and waits for the current call.
func (c *Client) Close() { c.group.Close() }

// Allocate allocates the values of a plan and writes them into its service. It returns errors of
// the API: violations for values that were requested explicitly, RESOURCE_EXHAUSTED if a range is
// full, UNAVAILABLE if the allocator does not answer.
//
// The allocator does not know which virtual IPs are in use by backends. Such an address is skipped:
// it stays allocated until the plan is settled, so that the next attempt gets another one.
func (c *Client) Allocate(ctx context.Context, p *Plan, dryRun bool, inUse func(address string) bool) error {
	if len(p.Claims) == 0 {
		return nil
	}
	for attempt := 0; ; attempt++ {
		got, err := c.allocateOnce(ctx, p, dryRun)
		switch {
		case err == nil && (dryRun || !p.skip(got, inUse)):
			c.releaseSkipped(ctx, p, nil)
			if err := p.Assign(got); err != nil {
				return apierr.Internal(err)
			}
			return nil
		case err == nil && attempt == maxSkipped:
			err = apierr.Exhausted("spec.clusterIPs", fmt.Sprintf("spec.clusterIPs: %d addresses in turn are in use by backends", attempt+1))
		case err == nil:
			continue
		}
		c.releaseSkipped(ctx, p, p.Slots())
		return err
	}
}

// releaseSkipped releases the virtual IPs that were skipped. If there are any, earlier attempts also
// allocated slots, which are released too.
func (c *Client) releaseSkipped(ctx context.Context, p *Plan, slots []string) {
	if len(p.skipped) > 0 {
		c.release(ctx, &allocatorv1.OwnerSlots{OwnerUid: p.svc.GetMetadata().GetUid(), Slots: append(p.skipped, slots...)})
		p.skipped = nil
	}
}

func (c *Client) allocateOnce(ctx context.Context, p *Plan, dryRun bool) ([]string, error) {
	set := &allocatorv1.ClaimSet{Owner: ownerOf(p.svc), Claims: p.Claims}
	var got []string
	var err error
	if dryRun {
		outcome := c.call(ctx, []*allocatorv1.ClaimSet{set}, true)[0]
		got, err = outcome.Value, outcome.Err
	} else {
		got, err = c.group.Do(ctx, set)
	}
	if failed, ok := err.(*claimsError); ok { //nolint:errorlint // made in call, never wrapped
		return nil, p.toAPIError(failed.failures)
	}
	return got, err
}

// settingsTimeout bounds calls for values that are only displayed to people.
const settingsTimeout = time.Second

// NodePorts returns the allocator's ranges of node ports, separated by commas. It returns "" if the
// allocator does not answer.
func (c *Client) NodePorts(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, settingsTimeout)
	defer cancel()
	answer, err := c.allocator.ListPools(ctx, &allocatorv1.ListPoolsRequest{})
	if err != nil {
		return ""
	}
	var ranges []string
	for _, pool := range answer.GetPools() {
		if pool.GetUse() == allocatorv1.Use_USE_NODE_PORT && pool.GetState() != allocatorv1.PoolState_POOL_STATE_RETIRED {
			ranges = append(ranges, pool.GetRange())
		}
	}
	return strings.Join(ranges, ",")
}

func ownerOf(svc *corev1.Service) *allocatorv1.Owner {
	meta := svc.GetMetadata()
	return &allocatorv1.Owner{Uid: meta.GetUid(), Kind: "Service", Namespace: meta.GetNamespace(), Name: meta.GetName()}
}

func (c *Client) allocate(ctx context.Context, sets []*allocatorv1.ClaimSet) []batch.Outcome[[]string] {
	return c.call(ctx, sets, false)
}

func (c *Client) call(ctx context.Context, sets []*allocatorv1.ClaimSet, dryRun bool) []batch.Outcome[[]string] {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := c.allocator.Allocate(ctx, &allocatorv1.AllocateRequest{Sets: sets, DryRun: dryRun})
	if err != nil {
		return batch.Fail[[]string](len(sets), unavailable(err))
	}
	if len(answer.GetResults()) != len(sets) {
		return batch.Fail[[]string](len(sets), apierr.Internal(fmt.Errorf("the allocator answered %d sets with %d results", len(sets), len(answer.GetResults()))))
	}
	outcomes := make([]batch.Outcome[[]string], len(sets))
	for i, result := range answer.GetResults() {
		if failures := result.GetFailures(); len(failures) > 0 {
			outcomes[i].Err = &claimsError{failures}
		} else {
			outcomes[i].Value = result.GetValues()
		}
	}
	return outcomes
}

// unavailable converts an error of the allocator to an error of the API. Any error other than a
// missing answer is a fault between registry and allocator, and so an internal error.
func unavailable(err error) error {
	switch apierr.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return apierr.Unavailable("the allocator does not answer: "+apierr.ToStatus(err).Message(), retryAfter)
	}
	return apierr.Internal(fmt.Errorf("allocator: %w", err))
}

// claimsError carries the failures of one claim set to its plan, which maps them to fields.
type claimsError struct{ failures []*allocatorv1.ClaimFailure }

// Error returns the message of the first failure.
func (e *claimsError) Error() string { return e.failures[0].GetMessage() }

// toAPIError converts failures to an error that names the fields.
func (p *Plan) toAPIError(failures []*allocatorv1.ClaimFailure) error {
	var violations apierr.Violations
	for _, failure := range failures {
		field, value := p.fieldOf(failure.GetSlot())
		switch {
		case failure.GetReason() == allocatorv1.FailureReason_FAILURE_REASON_FULL:
			return apierr.Exhausted(field, fmt.Sprintf("%s: nothing left to allocate: %s", field, failure.GetMessage()))
		case value == "":
			return apierr.Internal(fmt.Errorf("allocate %s: %s", field, failure.GetMessage()))
		}
		violations.Add(field, apierr.ReasonInvalid, "invalid value %q: %s", value, failure.GetMessage())
	}
	meta := p.svc.GetMetadata()
	return apierr.Invalid("Service", meta.GetNamespace()+"/"+meta.GetName(), violations)
}

func (p *Plan) fieldOf(slot string) (field, value string) {
	for i, claim := range p.Claims {
		if claim.GetSlot() == slot {
			return p.fields[i], claim.GetValue()
		}
	}
	return "spec", ""
}
