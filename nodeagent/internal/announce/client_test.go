package announce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/kit/kittest"
)

// fakeController is an lbctl that gives every node one address.
type fakeController struct {
	loadbalancerv1.UnsafeAnnouncerServiceServer
	leads, mute atomic.Bool // mute: it receives messages and does not answer

	mu       sync.Mutex
	messages []*loadbalancerv1.AnnounceRequest
}

func (f *fakeController) Announce(stream grpc.BidiStreamingServer[loadbalancerv1.AnnounceRequest, loadbalancerv1.AnnounceResponse]) error {
	if !f.leads.Load() {
		return status.Error(codes.Unavailable, "it does not lead")
	}
	if err := stream.Send(&loadbalancerv1.AnnounceResponse{Sequence: 1}); err != nil {
		return err
	}
	for sequence := uint64(2); ; sequence++ {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		f.mu.Lock()
		f.messages = append(f.messages, m)
		f.mu.Unlock()
		if !f.leads.Load() {
			return status.Error(codes.Unavailable, "it leads no longer")
		}
		if f.mute.Load() {
			continue
		}
		if err := stream.Send(&loadbalancerv1.AnnounceResponse{
			Sequence: sequence, AnsweredMessage: m.GetSequence(), Validity: durationpb.New(2 * time.Second), Addresses: []string{pool[0].String()},
		}); err != nil {
			return err
		}
	}
}

// first returns the first message, or nil if there was none.
func (f *fakeController) first() *loadbalancerv1.AnnounceRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.messages) == 0 {
		return nil
	}
	return f.messages[0]
}

// last returns the last message, or nil if there was none.
func (f *fakeController) last() *loadbalancerv1.AnnounceRequest {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.messages) == 0 {
		return nil
	}
	return f.messages[len(f.messages)-1]
}

// TestClientFollowsTheLeader checks that the client finds the leader among several, also when the
// leader resigns or no longer answers, and that its last message says that it stops.
func TestClientFollowsTheLeader(t *testing.T) {
	var fakes []*fakeController
	var controllers []Controller
	for n := range 3 {
		f := &fakeController{}
		fakes = append(fakes, f)
		controllers = append(controllers, Controller{Addr: fmt.Sprint("lbctl-", n), Conn: kittest.Conn(t, func(r grpc.ServiceRegistrar) {
			loadbalancerv1.RegisterAnnouncerServiceServer(r, f)
		})})
	}
	holder := NewHolder(bootTime, "i", fakeProxy{}.Serves)
	var stopping, draining atomic.Bool
	client := newClient(controllers, holder, func() State {
		return State{Node: "n1", Ready: true, Restarting: stopping.Load(), Draining: draining.Load()}
	}, func([]handOver) {}, func(_, _ []netip.Addr) {}, kittest.Logger(t))
	stop := kittest.Run(t, "client", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { stopping.Store(true) })()
		return client.Run(ctx)
	})
	kittest.Eventually(t, "the refusal of all", func() error {
		if _, err := client.Connected(); err == nil {
			return errors.New("no error")
		}
		return nil
	})
	lead := func(n int) {
		t.Helper()
		fakes[n].leads.Store(true)
		kittest.Eventually(t, "the leader", func() error {
			if addr, err := client.Connected(); addr != controllers[n].Addr || !slices.Equal(holder.Held(), pool[:1]) {
				return fmt.Errorf("connected to %q, %v; held %v", addr, err, holder.Held())
			}
			return nil
		})
	}
	lead(1)
	fakes[1].leads.Store(false)
	lead(2)
	kittest.Eventually(t, "the first message to the new leader", func() error {
		if fakes[2].first() == nil {
			return errors.New("none")
		}
		return nil
	})
	if got := fakes[2].first().GetAddresses(); !slices.Equal(got, texts(pool[:1])) {
		t.Errorf("the new leader is told of %v, want the address that the former one has given", got)
	}
	fakes[2].mute.Store(true)
	lead(0)

	draining.Store(true)
	client.Wake()
	kittest.Eventually(t, "the message that the node drains", func() error {
		if m := fakes[0].last(); !m.GetDraining() {
			return fmt.Errorf("%v", m)
		}
		return nil
	})
	stopping.Store(true)
	stop()
	if m := fakes[0].last(); !m.GetRestarting() || len(m.GetAddresses()) > 0 || len(holder.Held()) > 0 {
		t.Errorf("the last message is %v, and held are %v", m, holder.Held())
	}
}
