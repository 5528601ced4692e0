package api

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/apierr"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/internal/engine"
	"portolan.dev/allocator/pool"
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

	engine *engine.Engine
	values Values
	leases Leases
	nodes  Nodes
}

var _ allocatorv1.AllocatorServiceServer = (*Server)(nil)

// Values waits until the values in use are known.
type Values interface {
	// Adopted waits until the values of all objects are allocated to them, and returns the epoch of
	// the registry's log at that time. Its only error is ctx.Err().
	Adopted(ctx context.Context) (epoch string, err error)
	// HasUnknown reports whether an object has a value in a range that is not allocated to it.
	HasUnknown(space pool.Space) bool
	// AdoptWithin allocates the values in a range to the objects that have them.
	AdoptWithin(ctx context.Context, space pool.Space) error
}

// Nodes knows the addresses of nodes.
type Nodes interface {
	// NodeIn returns a node that has an address in a range, and that address; "" if there is none.
	NodeIn(space pool.Space) (node string, address netip.Addr)
}

// New returns a server on an engine. The server allocates nothing, and adds no range, before the values in
// use are known. From then on nodes has the addresses that no pool may have.
func New(e *engine.Engine, values Values, leases Leases, nodes Nodes) *Server {
	return &Server{engine: e, values: values, leases: leases, nodes: nodes}
}

// waitUntilAdopted waits for a short time until the values in use are known, and returns the epoch of
// the registry's log. They are known right after the start, unless the registry is unavailable.
func (s *Server) waitUntilAdopted(ctx context.Context) (epoch string, err error) {
	patient, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	epoch, err = s.values.Adopted(patient)
	if err != nil && ctx.Err() == nil {
		return "", apierr.Unavailable("the allocator has not read from the registry yet which values are in use, and which addresses nodes have", time.Second)
	}
	return epoch, err
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
		for _, c := range set.GetClaims() {
			if err := access.CheckClaim(ctx, c.GetUse(), c.GetSlot()); err != nil {
				return nil, err
			}
		}
		sets[i] = readSet(fmt.Sprintf("sets[%d]", i), set, &v)
	}
	if len(v) > 0 {
		return nil, apierr.Invalid("AllocateRequest", "", v)
	}
	epoch, err := s.waitUntilAdopted(ctx)
	if err != nil {
		return nil, err
	}
	allocate := s.engine.Allocate
	if req.GetWait() {
		allocate = s.engine.AllocatePatiently
	}
	results, err := allocate(ctx, sets, req.GetDryRun())
	if err != nil {
		return nil, err
	}
	resp := &allocatorv1.AllocateResponse{Results: make([]*allocatorv1.ClaimSetResult, len(results)), LogEpoch: epoch}
	for i, r := range results {
		resp.Results[i] = writeResult(r)
	}
	return resp, nil
}

// Confirm implements AllocatorService.
func (s *Server) Confirm(ctx context.Context, req *allocatorv1.ConfirmRequest) (*allocatorv1.ConfirmResponse, error) {
	if err := checkSettlement(ctx, req.GetOwners()); err != nil {
		return nil, err
	}
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
	if err := checkSettlement(ctx, req.GetOwners()); err != nil {
		return nil, err
	}
	owners, err := readReleases(req.GetOwners())
	if err != nil {
		return nil, err
	}
	released, err := s.engine.Release(ctx, owners)
	if err != nil {
		return nil, err
	}
	return &allocatorv1.ReleaseResponse{Released: uint32(released)}, nil
}

// checkSettlement returns an error if the caller may not confirm or release values of these owners.
func checkSettlement(ctx context.Context, owners []*allocatorv1.OwnerSlots) error {
	for _, o := range owners {
		if err := access.CheckSettlement(ctx, o.GetSlots(), len(o.GetValues())); err != nil {
			return err
		}
	}
	return nil
}

func readSet(path string, set *allocatorv1.ClaimSet, v *apierr.Violations) engine.Set {
	owner := readOwner(path+".owner", set.GetOwner(), v)
	if n := len(set.GetClaims()); n > maxSlots {
		v.Add(path+".claims", apierr.ReasonTooLong, "%d claims; at most %d", n, maxSlots)
		return engine.Set{}
	}
	read := engine.Set{
		Owner:    owner,
		Requests: make([]allocation.ClaimRequest, len(set.GetClaims())),
	}
	for i, c := range set.GetClaims() {
		checkText(fmt.Sprintf("%s.claims[%d].slot", path, i), c.GetSlot(), v)
		read.Requests[i] = allocation.ClaimRequest{
			Slot: c.GetSlot(), Use: c.GetUse(), Family: c.GetFamily(), Value: c.GetValue(), Pool: c.GetPool(), MovesFrom: c.GetMovesFrom(),
			Protocols: readProtocols(fmt.Sprintf("%s.claims[%d].protocols", path, i), c.GetProtocols(), v),
		}
	}
	return read
}

// protocols are the protocols of ports.
var protocols = map[corev1.Protocol]pool.Protocol{
	corev1.Protocol_PROTOCOL_TCP: pool.TCP, corev1.Protocol_PROTOCOL_UDP: pool.UDP, corev1.Protocol_PROTOCOL_SCTP: pool.SCTP,
}

// readProtocols returns protocols in the order of their numbers, each once.
func readProtocols(path string, requested []corev1.Protocol, v *apierr.Violations) []pool.Protocol {
	var read []pool.Protocol
	for _, p := range requested {
		protocol, known := protocols[p]
		if !known {
			v.Add(path, apierr.ReasonNotSupported, "protocol %d is not known; protocols are TCP, UDP and SCTP", p)
			return nil
		}
		read = append(read, protocol)
	}
	slices.Sort(read)
	return slices.Compact(read)
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

// readReleases reads the owners of a Release, with their values in reserves.
func readReleases(owners []*allocatorv1.OwnerSlots) ([]engine.OwnerSlots, error) {
	const request = "ReleaseRequest"
	read, err := readOwners(request, owners)
	if err != nil {
		return nil, err
	}
	var v apierr.Violations
	for i, o := range owners {
		path := fmt.Sprintf("owners[%d].values", i)
		if n := len(o.GetValues()); n > maxSlots {
			v.Add(path, apierr.ReasonTooLong, "%d values; at most %d", n, maxSlots)
			continue
		}
		for n, text := range o.GetValues() {
			value, err := pool.ParseAddr(text)
			if err != nil {
				v.Add(fmt.Sprintf("%s[%d]", path, n), apierr.ReasonInvalid, "%v", err)
			}
			read[i].Values = append(read[i].Values, value)
		}
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
	if strings.ContainsRune(text, 0) {
		v.Add(path, apierr.ReasonInvalid, "has a NUL character, which no database keeps")
	}
}

func writeResult(r engine.SetResult) *allocatorv1.ClaimSetResult {
	out := &allocatorv1.ClaimSetResult{}
	for _, f := range r.Failures {
		failure := &allocatorv1.ClaimFailure{Slot: f.Slot, Reason: f.Reason, Message: f.Message}
		if f.Owner != (store.Owner{}) {
			failure.Owner = writeOwner(f.Owner)
		}
		out.Failures = append(out.Failures, failure)
	}
	if len(out.Failures) > 0 {
		return out
	}
	out.Values = make([]string, len(r.Results))
	for i, g := range r.Results {
		out.Values[i] = g.Value.Without().String()
	}
	return out
}
