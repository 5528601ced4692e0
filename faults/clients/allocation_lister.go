package clients

import (
	"context"
	"time"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/kit/app"
)

// allocationLister periodically lists the values that the allocator has allocated.
type allocationLister struct {
	allocator grpc.ClientConnInterface
	recorder  *history.Recorder
	interval  time.Duration
}

func (l *allocationLister) run(ctx context.Context) {
	for app.Pause(ctx, l.interval) {
		if allocations, err := l.list(ctx); err == nil {
			l.recorder.AddAllocationList(allocations)
		}
	}
}

// list returns the allocated values. Pages are read one after the other. If a value changes its
// owner meanwhile, the result has it with the old owner, the new owner, both, or neither.
func (l *allocationLister) list(ctx context.Context) (history.AllocationList, error) {
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	result := history.AllocationList{Began: time.Now()}
	client := allocatorv1.NewAllocatorServiceClient(l.allocator)
	for request := (&allocatorv1.ListAllocationsRequest{PageSize: 1000}); ; {
		page, err := client.ListAllocations(ctx, request)
		if err != nil {
			return result, err
		}
		for _, a := range page.GetAllocations() {
			switch a.GetState() {
			case allocatorv1.AllocationState_ALLOCATION_STATE_RESTING:
			case allocatorv1.AllocationState_ALLOCATION_STATE_RESERVED:
				result.AtHand = append(result.AtHand, a.GetValue())
			default:
				result.Allocations = append(result.Allocations, history.Allocation{Value: a.GetValue(), UID: a.GetOwner().GetUid()})
			}
		}
		if page.GetNextPageToken() == "" {
			result.Ended = time.Now()
			return result, nil
		}
		request.PageToken = page.GetNextPageToken()
	}
}
