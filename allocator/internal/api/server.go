package api

import (
	"context"
	"fmt"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/apierr"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/store"
)

// Limits of a request.
const (
	maxSets   = 1000
	maxOwners = 1000
	maxSlots  = 1000 // per owner
	maxText   = 512  // bytes
)

// adoptTimeout is how long Allocate waits until the values in use are known. It is shorter than
// the timeout of the registry's call, so that the registry gets the reason.
const adoptTimeout = 3 * time.Second

// Server implements AllocatorService.
type Server struct {
	allocatorv1.UnsafeAllocatorServiceServer

	engine  *engine.Engine
	adopted <-chan struct{}
}

var _ allocatorv1.AllocatorServiceServer = (*Server)(nil)

// New returns a server on an engine. It allocates nothing before adopted is closed.
func New(e *engine.Engine, adopted <-chan struct{}) *Server {
	return &Server{engine: e, adopted: adopted}
}

// waitUntilAdopted waits for a short time until the values in use are known. They are known right
// after the start, unless the registry is unavailable.
func (s *Server) waitUntilAdopted(ctx context.Context) error {
	patience := time.NewTimer(adoptTimeout)
	defer patience.Stop()
	select {
	case <-s.adopted:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-patience.C:
		return apierr.Unavailable("the allocator has not read from the registry yet which values are in use", time.Second)
	}
}

// Allocate implements AllocatorService.
func (s *Server) Allocate(ctx context.Context, req *allocatorv1.AllocateRequest) (*allocatorv1.AllocateResponse, error) {
	var v apierr.Violations
	if n := len(req.GetSets()); n > maxSets {
		v.Add("sets", apierr.ReasonTooLong, "%d sets; at most %d", n, maxSets)
		return nil, apierr.Invalid("AllocateRequest", "", v)
	}
	sets := make([]engine.Set, len(req.GetSets()))
	for i, set := range req.GetSets() {
		sets[i] = readSet(fmt.Sprintf("sets[%d]", i), set, &v)
	}
	if len(v) > 0 {
		return nil, apierr.Invalid("AllocateRequest", "", v)
	}
	if err := s.waitUntilAdopted(ctx); err != nil {
		return nil, err
	}
	results, err := s.engine.Allocate(ctx, sets, req.GetDryRun())
	if err != nil {
		return nil, err
	}
	resp := &allocatorv1.AllocateResponse{Results: make([]*allocatorv1.ClaimSetResult, len(results))}
	for i, r := range results {
		resp.Results[i] = writeResult(r)
	}
	return resp, nil
}

// Confirm implements AllocatorService.
func (s *Server) Confirm(ctx context.Context, req *allocatorv1.ConfirmRequest) (*allocatorv1.ConfirmResponse, error) {
	owners, err := readOwners("ConfirmRequest", req.GetOwners())
	if err != nil {
		return nil, err
	}
	confirmed, unknown, err := s.engine.Confirm(ctx, owners)
	if err != nil {
		return nil, err
	}
	return &allocatorv1.ConfirmResponse{Confirmed: uint32(confirmed), Unknown: unknown}, nil
}

// Release implements AllocatorService.
func (s *Server) Release(ctx context.Context, req *allocatorv1.ReleaseRequest) (*allocatorv1.ReleaseResponse, error) {
	owners, err := readOwners("ReleaseRequest", req.GetOwners())
	if err != nil {
		return nil, err
	}
	released, err := s.engine.Release(ctx, owners)
	if err != nil {
		return nil, err
	}
	return &allocatorv1.ReleaseResponse{Released: uint32(released)}, nil
}

func readSet(path string, set *allocatorv1.ClaimSet, v *apierr.Violations) engine.Set {
	o := set.GetOwner()
	checkText(path+".owner.uid", o.GetUid(), v)
	checkText(path+".owner.kind", o.GetKind(), v)
	checkText(path+".owner.namespace", o.GetNamespace(), v)
	checkText(path+".owner.name", o.GetName(), v)
	if n := len(set.GetClaims()); n > maxSlots {
		v.Add(path+".claims", apierr.ReasonTooLong, "%d claims; at most %d", n, maxSlots)
		return engine.Set{}
	}
	read := engine.Set{
		Owner:    store.Owner{UID: o.GetUid(), Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName()},
		Requests: make([]allocation.ClaimRequest, len(set.GetClaims())),
	}
	for i, c := range set.GetClaims() {
		checkText(fmt.Sprintf("%s.claims[%d].slot", path, i), c.GetSlot(), v)
		read.Requests[i] = allocation.ClaimRequest{Slot: c.GetSlot(), Use: c.GetUse(), Family: c.GetFamily(), Value: c.GetValue(), Pool: c.GetPool()}
	}
	return read
}

func readOwners(request string, owners []*allocatorv1.OwnerSlots) ([]engine.OwnerSlots, error) {
	var v apierr.Violations
	if n := len(owners); n > maxOwners {
		v.Add("owners", apierr.ReasonTooLong, "%d owners; at most %d", n, maxOwners)
		return nil, apierr.Invalid(request, "", v)
	}
	read := make([]engine.OwnerSlots, len(owners))
	for i, o := range owners {
		path := fmt.Sprintf("owners[%d]", i)
		if o.GetOwnerUid() == "" {
			v.Add(path+".ownerUid", apierr.ReasonRequired, "ownerUid is required")
		}
		if n := len(o.GetSlots()); n > maxSlots {
			v.Add(path+".slots", apierr.ReasonTooLong, "%d slots; at most %d", n, maxSlots)
		}
		read[i] = engine.OwnerSlots{UID: o.GetOwnerUid(), Slots: o.GetSlots()}
	}
	if len(v) > 0 {
		return nil, apierr.Invalid(request, "", v)
	}
	return read, nil
}

func checkText(path, text string, v *apierr.Violations) {
	if len(text) > maxText {
		v.Add(path, apierr.ReasonTooLong, "%d bytes; at most %d", len(text), maxText)
	}
}

func writeResult(r engine.SetResult) *allocatorv1.ClaimSetResult {
	out := &allocatorv1.ClaimSetResult{}
	for _, f := range r.Failures {
		out.Failures = append(out.Failures, &allocatorv1.ClaimFailure{Slot: f.Slot, Reason: f.Reason, Message: f.Message})
	}
	if len(out.Failures) > 0 {
		return out
	}
	out.Values = make([]string, len(r.Results))
	for i, g := range r.Results {
		out.Values[i] = g.Value.String()
	}
	return out
}
