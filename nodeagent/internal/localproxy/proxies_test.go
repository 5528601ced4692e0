package localproxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/services/access"
	"portolan.dev/services/kit/health"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
	"portolan.dev/services/kit/rpc"
)

// fakeRoutes are routes in memory, which outlive an agent.
type fakeRoutes struct {
	mu      sync.Mutex
	have    map[netip.Prefix]bool
	own     map[netip.Addr]bool
	refused map[netip.Addr]bool
	lost    chan struct{}
}

func newRoutes() *fakeRoutes {
	return &fakeRoutes{have: map[netip.Prefix]bool{}, own: map[netip.Addr]bool{}, refused: map[netip.Addr]bool{}, lost: make(chan struct{}, 1)}
}

func (f *fakeRoutes) Read() error { return nil }
func (f *fakeRoutes) All() []netip.Prefix {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.have))
}

func (f *fakeRoutes) Add(p netip.Prefix) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused[p.Addr()] {
		return errors.New("refused")
	}
	f.have[p] = true
	return nil
}

func (f *fakeRoutes) Delete(p netip.Prefix) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.have, p)
	return nil
}
func (f *fakeRoutes) Addresses() (map[netip.Addr]bool, error) { return f.own, nil }
func (f *fakeRoutes) Lost() <-chan struct{}                   { return f.lost }
func (f *fakeRoutes) Close()                                  {}

// rig is an agent's part for proxies with a fake kernel.
type rig struct {
	*testing.T
	*Proxies
	routes   *fakeRoutes
	client   nodeagentv1.LocalProxyServiceClient
	stop     func()
	eligible atomic.Bool
	changes  atomic.Int64
	mu       sync.Mutex
	allowed  map[netip.Addr]bool
	live     bool
}

// The addresses of services, and one that no service has.
var first, second, foreign = netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.66")

// start starts an agent's part with routes that an earlier one may have left.
func start(t *testing.T, routes *fakeRoutes, change func(*rig)) *rig {
	t.Helper()
	r := &rig{T: t, routes: routes, allowed: map[netip.Addr]bool{first: true, second: true}, live: true}
	r.eligible.Store(true)
	r.Proxies = New(Options{
		Node: "n1", Kernel: true, Open: func() (machine.LocalRoutes, error) { return r.routes, nil },
		Addresses: func() (map[netip.Addr]bool, bool) { r.mu.Lock(); defer r.mu.Unlock(); return r.allowed, r.live },
		Eligible:  r.eligible.Load, Changed: func() { r.changes.Add(1) }, Metrics: obs.NewMetrics(), Log: kittest.Logger(t),
	})
	r.keepRoutes, r.awaitProxy = time.Hour, time.Hour
	if change != nil {
		change(r)
	}
	r.Open()
	r.stop = kittest.Run(t, "proxies", r.Proxies.Run)
	conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) { nodeagentv1.RegisterLocalProxyServiceServer(s, r.Proxies) })
	r.client = nodeagentv1.NewLocalProxyServiceClient(conn)
	return r
}

func (r *rig) allow(live bool, addrs ...netip.Addr) {
	r.mu.Lock()
	r.allowed, r.live = map[netip.Addr]bool{}, live
	for _, addr := range addrs {
		r.allowed[addr] = true
	}
	r.mu.Unlock()
	r.Wake()
}

// connect opens the stream of a proxy, which ends with the test or by the returned function.
func (r *rig) connect() (send func(draining bool, wanted, ready []netip.Addr), answers func() *nodeagentv1.ServeResponse, failed func() error, end func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(r.Context())
	stream, err := r.client.Serve(ctx)
	if err != nil {
		r.Fatal(err)
	}
	var mu sync.Mutex
	var last *nodeagentv1.ServeResponse
	reason := make(chan error, 1)
	go func() {
		for {
			answer, err := stream.Recv()
			if err != nil {
				reason <- err
				return
			}
			mu.Lock()
			last = answer
			mu.Unlock()
		}
	}()
	send = func(draining bool, wanted, ready []netip.Addr) {
		r.Helper()
		if err := stream.Send(&nodeagentv1.ServeRequest{Addresses: texts(wanted), Ready: texts(ready), Draining: draining}); err != nil {
			r.Fatal(err)
		}
	}
	answers = func() *nodeagentv1.ServeResponse { mu.Lock(); defer mu.Unlock(); return last }
	return send, answers, func() error { return <-reason }, cancel
}

func texts(addrs []netip.Addr) (all []string) {
	for _, addr := range addrs {
		all = append(all, addr.String())
	}
	return all
}

// expect waits until these addresses are served and kept.
func (r *rig) expect(when string, served, kept []netip.Addr) {
	r.Helper()
	kittest.Eventually(r, when, func() error {
		var routes []netip.Addr
		for _, route := range r.routes.All() {
			routes = append(routes, route.Addr())
		}
		slices.SortFunc(routes, netip.Addr.Compare)
		if got := r.Served(); !slices.Equal(got, served) {
			return fmt.Errorf("served are %v, want %v", got, served)
		}
		if got := r.Kept(); !slices.Equal(got, kept) || !slices.Equal(routes, kept) {
			return fmt.Errorf("kept are %v by routes to %v, want %v", got, routes, kept)
		}
		return nil
	})
}

func addrs(all ...netip.Addr) []netip.Addr { return all }

// TestServe follows a proxy from its first message to its end.
func TestServe(t *testing.T) {
	r := start(t, newRoutes(), nil)
	if r.Status() != nil {
		t.Errorf("without a proxy the status is %v", r.Status())
	}
	send, answers, _, end := r.connect()
	send(false, addrs(first, second, foreign), nil)
	r.expect("routes", nil, addrs(first, second))
	kittest.Eventually(t, "the answer", func() error {
		a := answers()
		if !slices.Equal(a.GetLocal(), texts(addrs(first, second))) || len(a.GetErrors()) != 1 || a.GetErrors()[0].GetAddress() != foreign.String() || !strings.Contains(a.GetErrors()[0].GetError(), "portolan.dev/edge") {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	send(false, addrs(first, second, foreign), addrs(second, first, foreign))
	r.expect("service", addrs(first, second), addrs(first, second))
	if s := r.Status(); !s.GetConnected() || len(s.GetAddresses()) != 3 || !s.GetAddresses()[0].GetServed() || s.GetAddresses()[1].GetError() == "" || s.GetAddresses()[1].GetLocal() {
		t.Errorf("the status is %v", s)
	}

	r.allow(true, first)
	r.expect("the end of the second address", addrs(first), addrs(first))
	r.allow(true, first, second)
	r.expect("the second address again", addrs(first, second), addrs(first, second))
	send(true, addrs(first, second), addrs(first, second))
	r.expect("draining", nil, addrs(first, second))
	send(false, addrs(first), addrs(first))
	r.expect("one address", addrs(first), addrs(first))

	changes := r.changes.Load()
	end()
	r.expect("the end of the proxy", nil, addrs(first))
	if r.changes.Load() == changes {
		t.Error("the end of the proxy was not reported")
	}
}

// TestRoutesOfAProxyThatHasGone checks that the routes of a proxy go some time after it.
func TestRoutesOfAProxyThatHasGone(t *testing.T) {
	r := start(t, newRoutes(), func(r *rig) { r.keepRoutes = 50 * time.Millisecond })
	send, _, _, end := r.connect()
	send(false, addrs(first), addrs(first))
	r.expect("service", addrs(first), addrs(first))
	end()
	r.expect("the end of the routes", nil, nil)
	kittest.Eventually(t, "no status", func() error {
		if s := r.Status(); s != nil {
			return fmt.Errorf("%v", s)
		}
		return nil
	})
}

// TestEligible checks that a node that takes no traffic keeps its addresses, and gets no more.
func TestEligible(t *testing.T) {
	r := start(t, newRoutes(), nil)
	send, answers, _, _ := r.connect()
	send(false, addrs(first), addrs(first))
	r.expect("service", addrs(first), addrs(first))
	r.eligible.Store(false)
	send(false, addrs(first, second), addrs(first, second))
	kittest.Eventually(t, "the refusal", func() error {
		if a := answers(); len(a.GetErrors()) != 1 || a.GetErrors()[0].GetError() != notEligible {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	r.expect("the first address only", addrs(first), addrs(first))
	r.eligible.Store(true)
	r.Wake()
	r.expect("both", addrs(first, second), addrs(first, second))
}

// TestTheAgentIsRestarted checks that the addresses stay over a restart of the agent, and that the next
// one waits for the proxy, even if its view lacks the service.
func TestTheAgentIsRestarted(t *testing.T) {
	r := start(t, newRoutes(), nil)
	send, _, _, end := r.connect()
	send(false, addrs(first), addrs(first))
	r.expect("service", addrs(first), addrs(first))
	r.stop()
	end()
	if !slices.Equal(r.Served(), addrs(first)) {
		t.Errorf("an agent that stops says that %v are served", r.Served())
	}

	next := start(t, r.routes, func(r *rig) { r.allowed, r.live = nil, false })
	if !next.Awaits() || !slices.Equal(next.Kept(), addrs(first)) || !slices.Equal(next.Advertised(), addrs(first)) || len(next.Served()) > 0 {
		t.Errorf("after the start: awaits %v, keeps %v, advertises %v, served are %v", next.Awaits(), next.Kept(), next.Advertised(), next.Served())
	}
	send, _, _, _ = next.connect()
	send(false, addrs(first), addrs(first))
	next.expect("service again", addrs(first), addrs(first))
	if next.Awaits() {
		t.Error("it still waits for the proxy")
	}
	next.allow(true)
	next.expect("the end of the service", nil, nil)
}

// TestTheProxyDoesNotComeBack checks that a restarted agent waits for the proxy for a limited time.
func TestTheProxyDoesNotComeBack(t *testing.T) {
	routes := newRoutes()
	routes.have[netip.PrefixFrom(first, 32)] = true
	r := start(t, routes, func(r *rig) { r.awaitProxy, r.keepRoutes = 20*time.Millisecond, 60*time.Millisecond })
	r.expect("the end of the routes", nil, nil)
	if r.Awaits() || r.changes.Load() == 0 {
		t.Errorf("awaits %v after %d changes", r.Awaits(), r.changes.Load())
	}
}

// TestASecondStreamEndsTheFirst checks that the proxy's addresses stay served when it connects again.
func TestASecondStreamEndsTheFirst(t *testing.T) {
	r := start(t, newRoutes(), nil)
	send, _, failed, _ := r.connect()
	send(false, addrs(first), addrs(first))
	r.expect("service", addrs(first), addrs(first))
	again, _, _, _ := r.connect()
	again(false, addrs(first), addrs(first))
	if err := failed(); status.Code(err) != codes.Aborted {
		t.Errorf("the first stream has ended with %v", err)
	}
	r.expect("service by the second stream", addrs(first), addrs(first))
}

// TestOnlyTheEdgeOfTheNode checks the role and the name in the certificate of a proxy.
func TestOnlyTheEdgeOfTheNode(t *testing.T) {
	certs, log := kittest.NewCertificates(t), kittest.Logger(t)
	r := start(t, newRoutes(), nil)
	srv := rpc.NewServer(rpc.ServerOptions{
		Log: log, Metrics: obs.NewMetrics(), Health: health.New(log), Identity: certs.Source("nodeagent/n1"), Authorizer: access.Methods(),
	})
	nodeagentv1.RegisterLocalProxyServiceServer(srv, r.Proxies)
	lis := kittest.Listen(t)
	kittest.Run(t, "server", func(ctx context.Context) error { return srv.Serve(ctx, lis) })
	for id, want := range map[string]string{
		"edge/n1": "", "edge/n2": "use the certificate of edge/n1", "nodeagent/n1": "may not call", "operator": "may not call",
	} {
		conn, err := rpc.TCP().Dial(lis.Addr().String(), certs.Source(id).DialOption(identity.NodeAgent))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		stream, err := nodeagentv1.NewLocalProxyServiceClient(conn).Serve(t.Context())
		if err == nil {
			_ = stream.Send(&nodeagentv1.ServeRequest{}) // an error comes from receiving
			_, err = stream.Recv()
		}
		if want == "" && err != nil || want != "" && (status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", id, err, want)
		}
	}
}

// TestRefusals checks the limits of messages, and an address that the kernel refuses.
func TestRefusals(t *testing.T) {
	r := start(t, newRoutes(), nil)
	for name, c := range map[string]struct {
		request *nodeagentv1.ServeRequest
		times   int
		want    codes.Code
	}{
		"no address":         {&nodeagentv1.ServeRequest{Addresses: []string{"web"}}, 1, codes.InvalidArgument},
		"an address mapped":  {&nodeagentv1.ServeRequest{Ready: []string{"::ffff:192.0.2.1"}}, 1, codes.InvalidArgument},
		"too many addresses": {&nodeagentv1.ServeRequest{Addresses: make([]string, maxAddresses+1)}, 1, codes.InvalidArgument},
		"too many messages":  {&nodeagentv1.ServeRequest{}, 1000, codes.ResourceExhausted},
	} {
		stream, err := r.client.Serve(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range c.times {
			if stream.Send(c.request) != nil {
				break // the reason comes from receiving
			}
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	r.routes.mu.Lock()
	r.routes.refused[first] = true
	r.routes.mu.Unlock()
	send, answers, _, _ := r.connect()
	send(false, addrs(first), addrs(first))
	kittest.Eventually(t, "the error", func() error {
		if a := answers(); len(a.GetErrors()) != 1 || a.GetErrors()[0].GetError() != "refused" {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	r.routes.mu.Lock()
	delete(r.routes.refused, first)
	r.routes.mu.Unlock()
	r.expect("the next try", addrs(first), addrs(first))
}

// TestAddressesOfTheMachine checks that an address of a device needs no route. A node that does not forward
// in its kernel makes no routes, and removes the routes of an earlier agent.
func TestAddressesOfTheMachine(t *testing.T) {
	routes := newRoutes()
	routes.own[first] = true
	r := start(t, routes, nil)
	send, _, _, _ := r.connect()
	send(false, addrs(first), addrs(first))
	kittest.Eventually(t, "service", func() error {
		if got := r.Served(); !slices.Equal(got, addrs(first)) {
			return fmt.Errorf("%v", got)
		}
		return nil
	})
	if got := routes.All(); len(got) > 0 {
		t.Errorf("routes to %v", got)
	}

	routes = newRoutes()
	routes.have[netip.PrefixFrom(second, 128)] = true
	r = start(t, routes, func(r *rig) { r.opts.Kernel = false })
	if got := routes.All(); len(got) > 0 || r.Awaits() {
		t.Errorf("routes to %v, awaits %v", got, r.Awaits())
	}
	send, answers, _, _ := r.connect()
	send(false, addrs(first), addrs(first))
	kittest.Eventually(t, "the answer", func() error {
		if a := answers(); !slices.Equal(a.GetLocal(), texts(addrs(first))) {
			return fmt.Errorf("%v", a)
		}
		return nil
	})
	if got := routes.All(); len(got) > 0 {
		t.Errorf("routes to %v", got)
	}
}
