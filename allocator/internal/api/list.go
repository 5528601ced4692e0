package api

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/services/kit/apierr"

	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// Sizes of a page.
const (
	defaultPage = 500
	maxPage     = 1000
)

// ListAllocations implements AllocatorService. A value of several slots is returned once per slot, always on
// one page.
func (s *Server) ListAllocations(ctx context.Context, req *allocatorv1.ListAllocationsRequest) (*allocatorv1.ListAllocationsResponse, error) {
	var v apierr.Violations
	size := int(req.GetPageSize())
	switch {
	case size < 0:
		v.Add("pageSize", apierr.ReasonInvalid, "pageSize is negative")
	case size == 0:
		size = defaultPage
	}
	q := store.Query{Pool: req.GetPool(), Limit: min(size, maxPage) + 1}
	checkText("pool", q.Pool, &v)
	if err := readToken(req.GetPageToken(), &q); err != nil {
		v.Add("pageToken", apierr.ReasonInvalid, "pageToken is none of ours")
	}
	if len(v) > 0 {
		return nil, apierr.Invalid("ListAllocationsRequest", "", v)
	}
	found, err := s.list(ctx, req.GetOwnerUid(), q)
	if err != nil {
		return nil, err
	}
	resp := &allocatorv1.ListAllocationsResponse{}
	if len(found) == q.Limit {
		found = found[:len(found)-1]
		resp.NextPageToken = writeToken(found[len(found)-1])
	}
	for _, h := range found {
		resp.Allocations = append(resp.Allocations, writeHolding(h)...)
	}
	return resp, nil
}

func (s *Server) list(ctx context.Context, uid string, q store.Query) ([]store.Allocation, error) {
	if uid == "" {
		found, err := s.engine.List(ctx, q)
		if err != nil {
			return nil, apierr.Internal(err)
		}
		return found, nil
	}
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	return s.engine.ListBy(uid, q), nil
}

// refresh makes the engine agree with the store, or returns an error of the API.
func (s *Server) refresh(ctx context.Context) error {
	if err := s.engine.Refresh(ctx); err != nil {
		return apierr.Unavailable("the allocator's store is not available", time.Second)
	}
	return nil
}

func writeToken(h store.Allocation) string {
	return base64.RawURLEncoding.EncodeToString([]byte(h.Pool + "/" + string(h.Value.Key())))
}

func readToken(token string, q *store.Query) error {
	if token == "" {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return err
	}
	name, key, ok := strings.Cut(string(raw), "/")
	if !ok || strings.ContainsRune(name, 0) {
		return errors.New("no name of a pool")
	}
	q.AfterPool = name
	q.AfterValue, err = pool.ValueOfKey([]byte(key))
	return err
}

func writeOwner(o store.Owner) *allocatorv1.Owner {
	return &allocatorv1.Owner{Uid: o.UID, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

func writeHolding(h store.Allocation) []*allocatorv1.Allocation {
	base := func() *allocatorv1.Allocation {
		return &allocatorv1.Allocation{
			Pool: h.Pool, Value: h.Value.String(),
			Owner: writeOwner(h.Owner),
		}
	}
	if !h.Released.IsZero() {
		a := base()
		a.State, a.Since = allocatorv1.AllocationState_ALLOCATION_STATE_RESTING, timestamppb.New(h.Released)
		return []*allocatorv1.Allocation{a}
	}
	if h.Owner.Kind == store.KindReserve {
		a := base()
		a.State = allocatorv1.AllocationState_ALLOCATION_STATE_RESERVED
		for _, c := range h.Claims[:min(len(h.Claims), 1)] { // the grant; the other claim says that the value was recalled
			a.Slot, a.Since = c.Slot, timestamppb.New(c.Since)
		}
		return []*allocatorv1.Allocation{a}
	}
	all := make([]*allocatorv1.Allocation, len(h.Claims))
	for i, c := range h.Claims {
		a := base()
		a.Slot, a.Since, a.State = c.Slot, timestamppb.New(c.Since), allocatorv1.AllocationState_ALLOCATION_STATE_HELD
		if c.Confirmed {
			a.State = allocatorv1.AllocationState_ALLOCATION_STATE_CONFIRMED
		}
		all[i] = a
	}
	return all
}
