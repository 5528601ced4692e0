package clients

import (
	"context"
	"time"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/faults/history"
	"portolan.dev/services/kit/app"
)

// holdingsReader lists the values that the allocator has allocated.
type holdingsReader struct {
	allocator grpc.ClientConnInterface
	recorder  *history.Recorder
	every     time.Duration
}

func (h *holdingsReader) run(ctx context.Context) {
	for app.Pause(ctx, h.every) {
		if holdings, err := h.ask(ctx); err == nil {
			h.recorder.AddAllocationList(holdings)
		}
	}
}

// ask returns the allocated values. Pages are read one after the other, so a value that changes its
// owner meanwhile may be in the answer for either owner, for both, or for neither.
func (h *holdingsReader) ask(ctx context.Context) (history.AllocationList, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found := history.AllocationList{Began: time.Now()}
	client := allocatorv1.NewAllocatorServiceClient(h.allocator)
	for request := (&allocatorv1.ListAllocationsRequest{PageSize: 1000}); ; {
		page, err := client.ListAllocations(ctx, request)
		if err != nil {
			return found, err
		}
		for _, a := range page.GetAllocations() {
			if a.GetState() != allocatorv1.AllocationState_ALLOCATION_STATE_RESTING {
				found.Allocations = append(found.Allocations, history.Allocation{Value: a.GetValue(), UID: a.GetOwner().GetUid()})
			}
		}
		if page.GetNextPageToken() == "" {
			found.Ended = time.Now()
			return found, nil
		}
		request.PageToken = page.GetNextPageToken()
	}
}
