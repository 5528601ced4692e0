package check

import (
	"context"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/portolan/e2e/churn/model"
	"portolan.dev/services/object"
)

// Allocations checks that the values of services are allocated, and no others.
type Allocations struct{ Allocator grpc.ClientConnInterface }

// Name implements Checker.
func (Allocations) Name() string { return "allocations" }

// Check implements Checker.
func (c Allocations) Check(ctx context.Context, want *model.World) ([]Finding, error) {
	got := model.Lines{}
	allocator := allocatorv1.NewAllocatorServiceClient(c.Allocator)
	for request := (&allocatorv1.ListAllocationsRequest{PageSize: 1000}); ; {
		page, err := allocator.ListAllocations(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, a := range page.GetAllocations() {
			switch a.GetState() {
			case allocatorv1.AllocationState_ALLOCATION_STATE_RESTING, allocatorv1.AllocationState_ALLOCATION_STATE_RESERVED:
				continue // no object has it
			}
			owner := a.GetOwner()
			key := object.Key{Kind: owner.GetKind(), Namespace: owner.GetNamespace(), Name: owner.GetName()}
			line := model.Allocated(a.GetValue(), owner.GetUid())
			if a.GetState() != allocatorv1.AllocationState_ALLOCATION_STATE_CONFIRMED {
				line += ", not confirmed"
			}
			got[key] = append(got[key], line)
		}
		if page.GetNextPageToken() == "" {
			got.Compact()
			return compare(c.Name(), want.Allocations(), got, false), nil
		}
		request.PageToken = page.GetNextPageToken()
	}
}
