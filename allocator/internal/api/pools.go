package api

import (
	"context"

	allocatorv1 "portolan.dev/api/allocator/v1"

	"portolan.dev/allocator/internal/allocation"
	"portolan.dev/allocator/store"
)

// ListPools implements AllocatorService.
func (s *Server) ListPools(context.Context, *allocatorv1.ListPoolsRequest) (*allocatorv1.ListPoolsResponse, error) {
	resp := &allocatorv1.ListPoolsResponse{}
	for _, f := range s.engine.Pools() {
		resp.Pools = append(resp.Pools, writePool(f))
	}
	return resp, nil
}

// CreatePool implements AllocatorService.
func (s *Server) CreatePool(ctx context.Context, req *allocatorv1.CreatePoolRequest) (*allocatorv1.CreatePoolResponse, error) {
	f, err := s.engine.CreatePool(ctx, readPool(req.GetPool()))
	if err != nil {
		return nil, err
	}
	return &allocatorv1.CreatePoolResponse{Pool: writePool(f)}, nil
}

// UpdatePool implements AllocatorService.
func (s *Server) UpdatePool(ctx context.Context, req *allocatorv1.UpdatePoolRequest) (*allocatorv1.UpdatePoolResponse, error) {
	f, err := s.engine.UpdatePool(ctx, readPool(req.GetPool()))
	if err != nil {
		return nil, err
	}
	return &allocatorv1.UpdatePoolResponse{Pool: writePool(f)}, nil
}

// DeletePool implements AllocatorService.
func (s *Server) DeletePool(ctx context.Context, req *allocatorv1.DeletePoolRequest) (*allocatorv1.DeletePoolResponse, error) {
	if err := s.engine.DeletePool(ctx, req.GetName()); err != nil {
		return nil, err
	}
	return &allocatorv1.DeletePoolResponse{}, nil
}

func readPool(p *allocatorv1.Pool) store.Pool {
	return store.Pool{Name: p.GetName(), Use: p.GetUse(), Range: p.GetRange(), State: p.GetState(), Band: p.GetStaticBand()}
}

func writePool(f allocation.PoolStatus) *allocatorv1.Pool {
	return &allocatorv1.Pool{
		Name: f.Name, Use: f.Use, Range: f.Range, State: f.State, StaticBand: f.Band,
		Size: f.Size, Used: f.Used, Resting: f.Resting,
	}
}
