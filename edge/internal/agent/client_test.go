package agent

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/kit/kittest"
)

var first, second = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")

// fakeAgent makes addresses local as its answer function says.
type fakeAgent struct {
	nodeagentv1.UnimplementedLocalProxyServiceServer
	mu     sync.Mutex
	answer func(*nodeagentv1.ServeRequest) *nodeagentv1.ServeResponse // nil: it refuses streams
	last   *nodeagentv1.ServeRequest
	end    chan struct{} // ends the stream
}

func (f *fakeAgent) Serve(stream grpc.BidiStreamingServer[nodeagentv1.ServeRequest, nodeagentv1.ServeResponse]) error {
	failed := make(chan error, 1)
	go func() {
		for {
			m, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			f.mu.Lock()
			answer := f.answer
			f.last = m
			f.mu.Unlock()
			if answer == nil {
				failed <- status.Error(codes.Unavailable, "the agent stops")
				return
			}
			if err := stream.Send(answer(m)); err != nil {
				failed <- err
				return
			}
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-f.end:
		return status.Error(codes.Unavailable, "the agent stops")
	}
}

func (f *fakeAgent) set(answer func(*nodeagentv1.ServeRequest) *nodeagentv1.ServeResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

// got returns an error unless the last message is this one.
func (f *fakeAgent) got(wanted, ready []netip.Addr, draining bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.last.GetAddresses(), texts(wanted)) || !slices.Equal(f.last.GetReady(), texts(ready)) || f.last.GetDraining() != draining {
		return fmt.Errorf("the last message is %v", f.last)
	}
	return nil
}

func all(m *nodeagentv1.ServeRequest) *nodeagentv1.ServeResponse {
	return &nodeagentv1.ServeResponse{Local: m.GetAddresses()}
}

func none(*nodeagentv1.ServeRequest) *nodeagentv1.ServeResponse { return &nodeagentv1.ServeResponse{} }

// TestClient follows an edge from its first address until it drains, over a restart of the agent.
func TestClient(t *testing.T) {
	fake := &fakeAgent{end: make(chan struct{})}
	conn := kittest.Conn(t, func(r grpc.ServiceRegistrar) { nodeagentv1.RegisterLocalProxyServiceServer(r, fake) })
	var changes atomic.Int64
	c := New(conn, func() { changes.Add(1) }, kittest.Logger(t))
	stop := kittest.Run(t, "client", c.Run)
	c.Want([]netip.Addr{first, second})
	kittest.Eventually(t, "the problem", func() error {
		if text := c.Problem(first); c.IsLocal(first) || !strings.Contains(text, "the agent stops") {
			return fmt.Errorf("local %v, %q", c.IsLocal(first), text)
		}
		return nil
	})

	fake.set(func(m *nodeagentv1.ServeRequest) *nodeagentv1.ServeResponse {
		return &nodeagentv1.ServeResponse{Local: texts([]netip.Addr{first}), Errors: []*nodeagentv1.AddressError{{Address: second.String(), Error: "not of a service"}}}
	})
	kittest.Eventually(t, "the first address", func() error {
		if !c.IsLocal(first) || c.Problem(first) != "" || c.IsLocal(second) || c.Problem(second) != "not of a service" || changes.Load() == 0 {
			return fmt.Errorf("%v %q, %v %q, %d changes", c.IsLocal(first), c.Problem(first), c.IsLocal(second), c.Problem(second), changes.Load())
		}
		return nil
	})
	c.Serve([]netip.Addr{first})
	kittest.Eventually(t, "the message", func() error { return fake.got([]netip.Addr{first, second}, []netip.Addr{first}, false) })

	before := changes.Load()
	fake.set(none) // of an agent that has not looked at the addresses yet
	fake.end <- struct{}{}
	kittest.Eventually(t, "the next stream", func() error { return fake.got([]netip.Addr{first, second}, []netip.Addr{first}, false) })
	if !c.IsLocal(first) || changes.Load() != before {
		t.Errorf("after a restart of the agent: local %v, %d changes", c.IsLocal(first), changes.Load()-before)
	}
	fake.set(all)
	c.Want([]netip.Addr{second})
	kittest.Eventually(t, "the second address", func() error {
		if c.IsLocal(first) || !c.IsLocal(second) {
			return fmt.Errorf("first %v, second %v: %q", c.IsLocal(first), c.IsLocal(second), c.Problem(second))
		}
		return nil
	})
	c.Drain()
	kittest.Eventually(t, "the message that it drains", func() error { return fake.got([]netip.Addr{second}, []netip.Addr{first}, true) })
	stop()
}

// TestWithoutAnAgent checks that each address counts as local.
func TestWithoutAnAgent(t *testing.T) {
	c := New(nil, func() {}, kittest.Logger(t))
	stop := kittest.Run(t, "client", c.Run)
	c.Want([]netip.Addr{first})
	if !c.IsLocal(first) || c.Problem(first) != "" {
		t.Errorf("local %v, %q", c.IsLocal(first), c.Problem(first))
	}
	stop()
}

// TestManyChanges checks that many changes in a short time are few messages, and that the last one has
// the last state.
func TestManyChanges(t *testing.T) {
	fake := &fakeAgent{end: make(chan struct{})}
	var messages atomic.Int64
	fake.set(func(m *nodeagentv1.ServeRequest) *nodeagentv1.ServeResponse { messages.Add(1); return all(m) })
	conn := kittest.Conn(t, func(r grpc.ServiceRegistrar) { nodeagentv1.RegisterLocalProxyServiceServer(r, fake) })
	c := New(conn, func() {}, kittest.Logger(t))
	kittest.Run(t, "client", func(ctx context.Context) error { return c.Run(ctx) })
	for n := range 1000 {
		c.Serve([]netip.Addr{netip.AddrFrom4([4]byte{192, 0, byte(n >> 8), byte(n)})})
	}
	last := []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 999 >> 8, 999 & 0xff})}
	kittest.Eventually(t, "the last state", func() error { return fake.got(nil, last, false) })
	if n := messages.Load(); n > 100 {
		t.Errorf("%d messages for 1000 changes", n)
	}
}
