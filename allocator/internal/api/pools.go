package api

import (
	"cmp"
	"context"
	"fmt"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/services/kit/apierr"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/pool"
	"portolan.dev/allocator/store"
)

// ListPools implements AllocatorService. It returns the pools that any process has stored before the call.
func (s *Server) ListPools(ctx context.Context, _ *allocatorv1.ListPoolsRequest) (*allocatorv1.ListPoolsResponse, error) {
	if err := s.refresh(ctx); err != nil {
		return nil, err
	}
	resp := &allocatorv1.ListPoolsResponse{}
	for _, f := range s.engine.Pools() {
		resp.Pools = append(resp.Pools, writePool(f))
	}
	return resp, nil
}

// CreatePool implements AllocatorService.
func (s *Server) CreatePool(ctx context.Context, req *allocatorv1.CreatePoolRequest) (*allocatorv1.CreatePoolResponse, error) {
	if err := s.checkNodes(ctx, req.GetPool().GetRange()); err != nil {
		return nil, err
	}
	f, err := s.putPool(ctx, readPool(req.GetPool()), allocatorv1.PoolState_POOL_STATE_ACTIVE, s.engine.CreatePool)
	if err != nil {
		return nil, err
	}
	return &allocatorv1.CreatePoolResponse{Pool: writePool(f)}, nil
}

// UpdatePool implements AllocatorService.
func (s *Server) UpdatePool(ctx context.Context, req *allocatorv1.UpdatePoolRequest) (*allocatorv1.UpdatePoolResponse, error) {
	if err := s.checkNodes(ctx, s.newRange(req.GetPool())); err != nil {
		return nil, err
	}
	f, err := s.putPool(ctx, readPool(req.GetPool()), s.stateOf(req.GetPool().GetName()), s.engine.UpdatePool)
	if err != nil {
		return nil, err
	}
	return &allocatorv1.UpdatePoolResponse{Pool: writePool(f)}, nil
}

// putPool creates or changes a pool. Objects may have values in its range already, for example because the store was lost
// with the pool. Then the pool is stored as one that drains, from which nothing is allocated unless it is named. It
// becomes active when these values are allocated to their objects. present is the state if the request has none.
func (s *Server) putPool(ctx context.Context, p store.Pool, present allocatorv1.PoolState, put func(context.Context, store.Pool) (allocation.PoolStatus, error)) (allocation.PoolStatus, error) {
	wanted := cmp.Or(p.State, present)
	space, err := pool.Parse(p.Range)
	if err != nil || wanted != allocatorv1.PoolState_POOL_STATE_ACTIVE || !s.values.HasUnknown(space) {
		return put(ctx, p)
	}
	p.State = allocatorv1.PoolState_POOL_STATE_DRAINING
	f, err := put(ctx, p)
	if err != nil {
		return f, err
	}
	if err := s.values.AdoptWithin(ctx, space); err != nil {
		return f, err
	}
	return s.engine.UpdatePool(ctx, store.Pool{Name: p.Name, State: wanted})
}

// stateOf returns the state of a pool.
func (s *Server) stateOf(name string) allocatorv1.PoolState {
	for _, f := range s.engine.Pools() {
		if f.Name == name {
			return f.State
		}
	}
	return allocatorv1.PoolState_POOL_STATE_UNSPECIFIED
}

// DeletePool implements AllocatorService.
func (s *Server) DeletePool(ctx context.Context, req *allocatorv1.DeletePoolRequest) (*allocatorv1.DeletePoolResponse, error) {
	if err := s.engine.DeletePool(ctx, req.GetName()); err != nil {
		return nil, err
	}
	return &allocatorv1.DeletePoolResponse{}, nil
}

// newRange returns the range of an updated pool, or "" if the update does not change it. A pool that
// has the address of a node can be drained all the same.
func (s *Server) newRange(p *allocatorv1.Pool) string {
	for _, f := range s.engine.Pools() {
		if f.Name == p.GetName() && f.Range == p.GetRange() {
			return ""
		}
	}
	return p.GetRange()
}

// checkNodes returns an error of the API if a node has an address in a range. Services would get
// that address, and the node could no longer be reached. Everything else that may be wrong with the
// range is left to the engine.
func (s *Server) checkNodes(ctx context.Context, text string) error {
	space, err := pool.Parse(text)
	if err != nil || !space.IsAddresses() {
		return nil
	}
	if _, err := s.waitUntilAdopted(ctx); err != nil {
		return err
	}
	if node, address := s.nodes.NodeIn(space); node != "" {
		return apierr.FailedPrecondition(fmt.Sprintf("range: %s has %s, which is an address of node %s; choose a range without addresses of nodes", space, address, node))
	}
	return nil
}

func readPool(p *allocatorv1.Pool) store.Pool {
	return store.Pool{
		Name: p.GetName(), Use: p.GetUse(), Range: p.GetRange(), State: p.GetState(), Band: p.GetStaticBand(),
		PerProtocol: p.GetPerProtocol(), AvoidBuggyIPs: p.GetAvoidBuggyIps(),
	}
}

func writePool(f allocation.PoolStatus) *allocatorv1.Pool {
	return &allocatorv1.Pool{
		Name: f.Name, Use: f.Use, Range: f.Range, State: f.State, StaticBand: f.Band,
		Size: f.Size, Used: f.Used, StaticUsed: f.StaticUsed, Resting: f.Resting, Reserved: f.Reserved,
		PerProtocol: f.PerProtocol, AvoidBuggyIps: f.AvoidBuggyIPs,
	}
}
