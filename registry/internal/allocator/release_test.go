package allocator_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	allocatorv1 "portolan.dev/api/allocator/v1"
	"portolan.dev/registry/internal/allocator"
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
		server := &counting{}
		host := kittest.Host(t, nil, "")
		client := allocator.NewClient(server, host.Log, host.Metrics)
		t.Cleanup(client.Close)
		kittest.Run(t, "settle", client.Run)
		for i := range 9 {
			svc := nodePortService()
			svc.Metadata.Uid = fmt.Sprint("u", i)
			client.Finish(t.Context(), allocator.NewPlan(svc, nil), nil)
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if server.confirms != 1 || server.confirmed != 9 {
			t.Errorf("%d owners were confirmed in %d calls, want 9 in one", server.confirmed, server.confirms)
		}
		client.Finish(t.Context(), allocator.NewPlan(nodePortService(), nil), nil)
		time.Sleep(time.Second)
		synctest.Wait()
		if server.confirms != 2 || server.confirmed != 10 {
			t.Errorf("a later one was not confirmed: %d in %d calls", server.confirmed, server.confirms)
		}
	})
}
