package alloc_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/registry/internal/alloc"
	"portolan.dev/services/kit/kittest"
)

// counting is an allocator that counts Confirm and Release calls, and the owners in them.
type counting struct {
	allocatorv1.AllocatorServiceClient
	confirms, confirmed int
}

func (c *counting) Confirm(_ context.Context, req *allocatorv1.ConfirmRequest, _ ...grpc.CallOption) (*allocatorv1.ConfirmResponse, error) {
	c.confirms++
	c.confirmed += len(req.GetOwners())
	return &allocatorv1.ConfirmResponse{}, nil
}

// TestConfirmationsShareACall checks that services which are stored shortly after one another are
// confirmed in one call, because each call is a commit of the allocator.
func TestConfirmationsShareACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		allocator := &counting{}
		host := kittest.Host(t, nil, "")
		client := alloc.NewClient(allocator, host.Log, host.Metrics)
		t.Cleanup(client.Close)
		kittest.Run(t, "settle", client.Run)
		for i := range 9 {
			svc := nodePortService()
			svc.Metadata.Uid = fmt.Sprint("u", i)
			client.Confirm(alloc.NewPlan(svc, nil))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if allocator.confirms != 1 || allocator.confirmed != 9 {
			t.Errorf("%d owners were confirmed in %d calls, want 9 in one", allocator.confirmed, allocator.confirms)
		}
		client.Confirm(alloc.NewPlan(nodePortService(), nil))
		time.Sleep(time.Second)
		synctest.Wait()
		if allocator.confirms != 2 || allocator.confirmed != 10 {
			t.Errorf("a later one was not confirmed: %d in %d calls", allocator.confirmed, allocator.confirms)
		}
	})
}
