package events

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
)

// refused is the reason of events that the registry refuses.
const refused = "Refused"

// absent is a registry that is unavailable for some calls.
type absent struct {
	registryv1.EventServiceClient
	away int
	got  []*corev1.Event
}

func (a *absent) CreateEvent(_ context.Context, req *registryv1.CreateEventRequest, _ ...grpc.CallOption) (*registryv1.CreateEventResponse, error) {
	if a.away > 0 {
		a.away--
		return nil, status.Error(codes.Unavailable, "away")
	}
	a.got = append(a.got, req.GetEvent())
	if req.GetEvent().GetReason() == refused {
		return nil, status.Error(codes.InvalidArgument, "no")
	}
	return &registryv1.CreateEventResponse{}, nil
}

// TestEventsWaitForTheRegistry checks that findings of an agent that starts alone are reported
// later, and that events that the registry refuses are not sent again.
func TestEventsWaitForTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := &absent{away: 20}
		r := NewRecorder("nodeagent", "here", registry, slog.New(slog.DiscardHandler))
		r.WarnNode("First", "one")
		r.WarnNode(refused, "two")
		r.WarnNode("Third", "three")
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { r.Run(ctx) })
		time.Sleep(time.Hour)
		synctest.Wait()
		cancel()
		wg.Wait()
		if len(registry.got) != 3 || registry.got[0].GetMessage() != "one" || registry.got[2].GetMessage() != "three" {
			t.Errorf("events %v", registry.got)
		}
	})
}
