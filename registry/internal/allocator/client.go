package allocator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/batch"
	"portolan.dev/services/kit/health"
)

const (
	callTimeout = 5 * time.Second // for one call to the allocator
	maxSkipped  = 16              // virtual IPs that are passed over for one service
	retryAfter  = time.Second     // returned to clients while the allocator does not answer
	mostSets    = 500             // claim sets in one call
	mostPending = 100_000         // confirmations and releases that may wait
)

// Client calls the allocator. Concurrent allocations share calls. Confirmations, and releases that
// failed at first, are sent in the background (see [Client.Run]), and so are the calls that keep the
// reserve.
type Client struct {
	allocator allocatorv1.AllocatorServiceClient
	log       *slog.Logger
	group     *batch.Group[*allocatorv1.ClaimSet, allocated]
	pending   chan pendingCall
	dropped   prometheus.Counter

	reserve *reserve // nil: every value is asked for
	metrics reserveMetrics
}

// allocated are the values of a claim set.
type allocated struct {
	values []string
	epoch  string // epoch of the log that the values may be stored in; empty: any
}

// NewClient returns a client without a reserve.
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

// KeepReserve makes the client keep a reserve of addresses from the first allocation on. It must be
// called before the client is used. health gets a warning while the allocator does not answer.
func (c *Client) KeepReserve(leases Leases, health *health.Registry, metrics prometheus.Registerer) {
	c.reserve = newReserve(c.allocator, leases, health, c.log)
	c.metrics = newReserveMetrics(c.reserve.stock, metrics)
}

// ObserveLog drops the reserve if it is for a log of another epoch than the present one.
func (c *Client) ObserveLog(epoch string) {
	if c.reserve != nil {
		c.reserve.observeLog(epoch)
	}
}

// Close refuses further allocations and waits for the current call.
func (c *Client) Close() { c.group.Close() }

// Terms are the circumstances of a write that needs values.
type Terms struct {
	// DryRun chooses values without holding them.
	DryRun bool
	// Fenced is set if the commit has a fence of the client. It cannot have the fence of the reserve then.
	Fenced bool
	// InUse reports whether an address is in use by a backend.
	InUse func(address string) bool
}

// Allocate allocates the values of a plan and writes them into its service. It returns errors of
// the API: violations for values that were requested explicitly, RESOURCE_EXHAUSTED if a range is
// full, UNAVAILABLE if the allocator does not answer.
//
// The commit must have the conditions that [Plan.Conditions] returns, and then Finish must be called
// with its outcome.
func (c *Client) Allocate(ctx context.Context, p *Plan, terms Terms) error {
	if len(p.Claims) == 0 {
		return nil
	}
	if c.reserve != nil && !terms.DryRun && !terms.Fenced {
		var err error
		if p.holder, err = c.reserve.open(ctx); err != nil {
			return err
		}
		if c.takeAtHand(p, terms.InUse) {
			return nil
		}
	}
	return c.ask(ctx, p, terms)
}

// AllocateAtHand serves a plan like Allocate if that needs no call and no wait: all its claims are for
// virtual IPs that are at hand, and no value is released. It reports whether it has served the plan.
func (c *Client) AllocateAtHand(p *Plan, terms Terms) bool {
	if c.reserve == nil || terms.DryRun || terms.Fenced || len(p.Claims) == 0 || len(p.Released) > 0 {
		return false
	}
	p.holder = c.reserve.stock.current()
	return c.takeAtHand(p, terms.InUse)
}

// takeAtHand serves a plan from the reserve if the reserve has all values, and reports whether it did.
func (c *Client) takeAtHand(p *Plan, inUse func(address string) bool) bool {
	if p.holder == nil || !p.needsAddressesOnly() {
		return false
	}
	p.taken = c.reserve.stock.take(p.Claims, inUse)
	if p.taken == nil {
		c.metrics.misses.Inc()
		return false
	}
	c.metrics.taken.Add(float64(len(p.taken.values)))
	p.holder, p.logEpoch = p.taken.holder, p.taken.epoch
	for i, value := range p.taken.values {
		p.assign[i](value.value)
	}
	return true
}

// ask gets the values of a plan by a call to the allocator.
//
// The allocator does not know which virtual IPs are in use by backends. Such an address is skipped:
// it stays allocated until the plan is settled, so that the next attempt gets another one.
func (c *Client) ask(ctx context.Context, p *Plan, terms Terms) error {
	for attempt := 0; ; attempt++ {
		got, err := c.askOnce(ctx, p, terms.DryRun)
		switch {
		case err == nil && (terms.DryRun || !p.skip(got.values, terms.InUse)):
			c.releaseSkipped(ctx, p, nil)
			p.logEpoch = got.epoch
			if err := p.Assign(got.values); err != nil {
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

func (c *Client) askOnce(ctx context.Context, p *Plan, dryRun bool) (allocated, error) {
	set := &allocatorv1.ClaimSet{Owner: ownerOf(p.svc), Claims: p.Claims}
	if dryRun {
		return c.askAlone(ctx, p, set, true)
	}
	got, err := c.group.Do(ctx, set)
	failed, ok := err.(*claimsError) //nolint:errorlint // made in call, never wrapped
	switch {
	case ok && failed.onlyAtHand():
		return c.askAlone(ctx, p, set, false)
	case ok:
		return allocated{}, p.toAPIError(failed.failures)
	}
	return got, err
}

// askAlone allocates a claim set by a call of its own. The call waits until other registries have returned
// values that they have at hand. Other claims must not wait for that.
func (c *Client) askAlone(ctx context.Context, p *Plan, set *allocatorv1.ClaimSet, dryRun bool) (allocated, error) {
	outcome := c.call(ctx, &allocatorv1.AllocateRequest{Sets: []*allocatorv1.ClaimSet{set}, DryRun: dryRun, Wait: true})[0]
	got, err := outcome.Value, outcome.Err
	if failed, ok := err.(*claimsError); ok { //nolint:errorlint // made in call, never wrapped
		return allocated{}, p.toAPIError(failed.failures)
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

func (c *Client) allocate(ctx context.Context, sets []*allocatorv1.ClaimSet) []batch.Outcome[allocated] {
	return c.call(ctx, &allocatorv1.AllocateRequest{Sets: sets})
}

func (c *Client) call(ctx context.Context, req *allocatorv1.AllocateRequest) []batch.Outcome[allocated] {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	sets := req.GetSets()
	answer, err := c.allocator.Allocate(ctx, req)
	if apierr.Code(err) == codes.Unavailable {
		// The allocator may have ended during the call, and another one serves. A repeated claim gets
		// the same value.
		answer, err = c.allocator.Allocate(ctx, req)
	}
	if err != nil {
		return batch.Fail[allocated](len(sets), unavailable(err))
	}
	if len(answer.GetResults()) != len(sets) {
		return batch.Fail[allocated](len(sets), apierr.Internal(fmt.Errorf("the allocator answered %d sets with %d results", len(sets), len(answer.GetResults()))))
	}
	outcomes := make([]batch.Outcome[allocated], len(sets))
	for i, result := range answer.GetResults() {
		if failures := result.GetFailures(); len(failures) > 0 {
			outcomes[i].Err = &claimsError{failures}
		} else {
			outcomes[i].Value = allocated{values: result.GetValues(), epoch: answer.GetLogEpoch()}
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

// onlyAtHand reports whether all claims failed only because the values are at hand at registries.
func (e *claimsError) onlyAtHand() bool {
	return !slices.ContainsFunc(e.failures, func(f *allocatorv1.ClaimFailure) bool {
		return f.GetReason() != allocatorv1.FailureReason_FAILURE_REASON_AT_HAND
	})
}

// Error returns the message of the first failure.
func (e *claimsError) Error() string { return e.failures[0].GetMessage() }

// toAPIError converts failures to an error that names the fields.
func (p *Plan) toAPIError(failures []*allocatorv1.ClaimFailure) error {
	var violations apierr.Violations
	for _, failure := range failures {
		field, value := p.fieldOf(failure.GetSlot())
		switch {
		case failure.GetReason() == allocatorv1.FailureReason_FAILURE_REASON_AT_HAND:
			return apierr.Unavailable(fmt.Sprintf("%s: nothing to allocate at present: %s", field, failure.GetMessage()), retryAfter)
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
