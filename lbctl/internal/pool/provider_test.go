package pool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"

	"portolan.dev/lbctl/internal/view"
	"portolan.dev/lbctl/providertest"
)

// TestConformance runs the suite of providers against the built-in providers.
func TestConformance(t *testing.T) {
	for _, kind := range []Kind{Nodes, Edges} {
		t.Run(kind.Name, func(t *testing.T) {
			f, client := newAllocator(t, "192.0.2.0/28", "10.0.0.0/28")
			p := New(Config{Kind: kind, Allocator: client, Shares: NewShares(view.New(nil)), Rules: Rules{Internal: []string{"b"}}})
			conn := kittest.Conn(t, func(s grpc.ServiceRegistrar) { loadbalancerv1.RegisterLoadBalancerProviderServiceServer(s, p) })
			providertest.Run(t, providertest.Subject{
				Client: loadbalancerv1.NewLoadBalancerProviderServiceClient(conn), Class: kind.Class,
				Left: func() ([]string, error) { return f.values(), nil },
			})
		})
	}
}

const (
	ipv4 = corev1.IPFamily_IP_FAMILY_IPV4
	ipv6 = corev1.IPFamily_IP_FAMILY_IPV6
)

func service(name string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default", Uid: name, Annotations: map[string]string{}, Finalizers: []string{object.FinalizerLoadBalancer}},
		Spec: &corev1.ServiceSpec{
			Type: corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, IpFamilies: []corev1.IPFamily{ipv4},
			Ports: []*corev1.ServicePort{{Port: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}},
		},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

// world is a provider with its allocator and the services of a registry.
type world struct {
	*testing.T
	allocator *fakeAllocator
	provider  *Provider // of Nodes
	edges     *Provider
	view      *view.View
	services  map[string]*corev1.Service
}

func newWorld(t *testing.T, ranges ...string) *world {
	t.Helper()
	f, client := newAllocator(t, ranges...)
	w := &world{T: t, allocator: f, view: view.New(nil), services: map[string]*corev1.Service{}}
	w.restart(Config{Allocator: client})
	return w
}

// restart makes the providers of a new process.
func (w *world) restart(cfg Config) {
	cfg.Kind, cfg.Shares = Nodes, NewShares(w.view)
	w.provider = New(cfg)
	cfg.Kind = Edges
	w.edges = New(cfg)
}

// of returns the provider of a service.
func (w *world) of(svc *corev1.Service) *Provider {
	if svc.GetSpec().GetLoadBalancerClass() == Edges.Class {
		return w.edges
	}
	return w.provider
}

// put stores a service in the view. If svc is nil, it deletes the service with the name.
func (w *world) put(name string, svc *corev1.Service) {
	change := changes.Change{Kind: "Service"}
	if old := w.services[name]; old != nil {
		change.Old = old
	}
	if svc != nil {
		svc = svc.CloneVT()
		change.New = svc
	}
	w.services[name] = svc
	w.view.Apply([]changes.Change{change})
}

func (w *world) ensure(svc *corev1.Service) ([]string, error) {
	resp, err := w.of(svc).EnsureLoadBalancer(w.Context(), &loadbalancerv1.EnsureLoadBalancerRequest{Service: svc})
	var all []string
	for _, ingress := range resp.GetStatus().GetIngress() {
		all = append(all, ingress.GetIp())
	}
	return all, err
}

// keep ensures a service as lbctl does: it writes the status and calls again.
func (w *world) keep(svc *corev1.Service, want ...string) *corev1.Service {
	w.Helper()
	w.put(svc.GetMetadata().GetName(), svc)
	for range 2 {
		got, err := w.ensure(svc)
		if err != nil || !slices.Equal(got, want) {
			w.Errorf("%s has %v, %v; want %v", svc.GetMetadata().GetName(), got, err, want)
			return svc
		}
		svc = svc.CloneVT()
		svc.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{}}
		for _, ip := range got {
			svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, &corev1.LoadBalancerIngress{Ip: ip})
		}
		w.put(svc.GetMetadata().GetName(), svc)
	}
	return svc
}

func (w *world) refuse(svc *corev1.Service, code codes.Code, text string) {
	w.Helper()
	got, err := w.ensure(svc)
	if status.Code(err) != code || !strings.Contains(err.Error(), text) {
		w.Errorf("%s has %v, %v; want %s: …%s…", svc.GetMetadata().GetName(), got, err, code, text)
	}
}

func (w *world) delete(svc *corev1.Service) {
	w.Helper()
	if _, err := w.of(svc).DeleteLoadBalancer(w.Context(), &loadbalancerv1.DeleteLoadBalancerRequest{Service: svc}); err != nil {
		w.Error(err)
	}
}

func ips(text string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Metadata.Annotations[object.AnnotationBalancerIPs] = text }
}

func shared(key string, port int32) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Metadata.Annotations[object.AnnotationBalancerShare], svc.Spec.Ports[0].Port = key, port
	}
}

// TestAnAddressIsConfirmedOnceTheStatusHasIt checks the two steps, and that another requested address
// releases the former one only in the second.
func TestAnAddressIsConfirmedOnceTheStatusHasIt(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	if _, err := w.ensure(service("web")); err != nil {
		t.Fatal(err)
	}
	w.allocator.want(t, "192.0.2.1? web loadBalancer/ipv4")
	web := w.keep(service("web"), "192.0.2.1")
	w.allocator.want(t, "192.0.2.1 web loadBalancer/ipv4")
	ips("192.0.2.5")(web)
	if _, err := w.ensure(web); err != nil {
		t.Fatal(err)
	}
	w.allocator.want(t, "192.0.2.1 web loadBalancer/ipv4", "192.0.2.5? web loadBalancer/ipv4")
	web = w.keep(web, "192.0.2.5")
	w.allocator.want(t, "192.0.2.5 web loadBalancer/ipv4")
	w.delete(web)
	w.allocator.want(t)
}

// TestAnAllocatorThatHasLostTheAddress restores the allocator to a state before the address was claimed.
func TestAnAllocatorThatHasLostTheAddress(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	web := w.keep(service("web", ips("192.0.2.4")), "192.0.2.4")
	delete(web.Metadata.Annotations, object.AnnotationBalancerIPs)
	w.allocator.claims = nil
	w.keep(web, "192.0.2.4")
	w.allocator.claims = nil
	w.keep(service("other", ips("192.0.2.4")), "192.0.2.4")
	w.keep(web, "192.0.2.1") // it cannot have it any more
}

// failing is a client of an allocator. Its calls of some methods fail.
type failing struct {
	allocatorv1.AllocatorServiceClient
	allocate, confirm bool
}

var errAway = status.Error(codes.Unavailable, "away")

// Allocate implements AllocatorServiceClient.
func (f failing) Allocate(ctx context.Context, req *allocatorv1.AllocateRequest, opts ...grpc.CallOption) (*allocatorv1.AllocateResponse, error) {
	if f.allocate {
		return nil, errAway
	}
	return f.AllocatorServiceClient.Allocate(ctx, req, opts...)
}

// Confirm implements AllocatorServiceClient.
func (f failing) Confirm(ctx context.Context, req *allocatorv1.ConfirmRequest, opts ...grpc.CallOption) (*allocatorv1.ConfirmResponse, error) {
	if f.confirm {
		return nil, errAway
	}
	return f.AllocatorServiceClient.Confirm(ctx, req, opts...)
}

// TestAnAddressThatIsNotConfirmedIsTriedAgain lets the claim and the confirmation of an address fail. If the provider
// took a confirmation that failed for a success, lbctl would not call again. Then the allocator would free the address
// after its grace period, and give it to another service too.
func TestAnAddressThatIsNotConfirmedIsTriedAgain(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	web := w.keep(service("web"), "192.0.2.1")
	working := w.provider.cfg.Allocator
	for _, f := range []failing{{confirm: true}, {allocate: true}} {
		f.AllocatorServiceClient = working
		w.restart(Config{Allocator: f})
		w.refuse(web, codes.Unavailable, "away")
	}
	w.restart(Config{Allocator: working})
	w.keep(web, "192.0.2.1")
}

// TestInternalPools tests a pool for internal load balancers beside two others.
func TestInternalPools(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29", "10.0.0.0/29", "198.51.100.0/29")
	internal := func(svc *corev1.Service) { svc.Metadata.Annotations[object.AnnotationBalancerInternal] = "true" }
	named := func(pool string) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Metadata.Annotations[object.AnnotationBalancerPool] = pool }
	}
	w.provider.cfg.Rules.Internal = []string{"b"}
	w.keep(service("inside", internal), "10.0.0.1")
	public := w.keep(service("public"), "192.0.2.1")
	w.keep(service("wish", internal, ips("10.0.0.5")), "10.0.0.5")
	w.keep(service("named", internal, named("b")), "10.0.0.2")
	w.keep(service("decided", named("b")), "10.0.0.3") // it is the owner's choice to be inside
	w.refuse(service("elsewhere", internal, named("c")), codes.FailedPrecondition, `the pool "c" is not internal`)
	w.refuse(service("other", internal, ips("192.0.2.5")), codes.FailedPrecondition, `192.0.2.5 is in the pool "a", which is not internal`)
	w.keep(service("filler", internal), "10.0.0.4")
	last := w.keep(service("last", internal, ips("10.0.0.6")), "10.0.0.6")
	w.keep(service("full", internal), "10.0.0.7")
	w.refuse(service("late", internal), codes.ResourceExhausted, "pool")

	internal(public) // later
	w.refuse(public, codes.FailedPrecondition, "has 192.0.2.1, which is of no internal pool: delete the service")
	w.delete(last)
	named("c")(last) // the address that it has is internal all the same
	delete(last.Metadata.Annotations, object.AnnotationBalancerIPs)
	w.refuse(last, codes.FailedPrecondition, "not internal")

	// The service asks to be internal after its address was claimed, and before the status has the address.
	if got, err := w.ensure(service("changed")); err != nil || !slices.Equal(got, []string{"192.0.2.2"}) {
		t.Fatalf("got %v, %v", got, err)
	}
	w.refuse(service("changed", internal), codes.Unavailable, "is released")
	w.keep(service("changed", internal), "10.0.0.6")
}

// TestAPoolAfterTheOther fills pools one after the other, also for one family only.
func TestAPoolAfterTheOther(t *testing.T) {
	w := newWorld(t, "192.0.2.0/31", "198.51.100.0/31", "2001:db8::/127")
	w.keep(service("a"), "192.0.2.1")
	w.keep(service("b"), "198.51.100.1")
	w.refuse(service("c"), codes.ResourceExhausted, "enlarge a pool")
	both := func(policy corev1.IPFamilyPolicy) func(*corev1.Service) {
		return func(svc *corev1.Service) {
			svc.Spec.IpFamilies, svc.Spec.IpFamilyPolicy = []corev1.IPFamily{ipv4, ipv6}, policy
		}
	}
	w.refuse(service("d", both(corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK)), codes.ResourceExhausted, "IPv4")
	w.keep(service("e", both(corev1.IPFamilyPolicy_IP_FAMILY_POLICY_PREFER_DUAL_STACK)), "2001:db8::1")
}

// TestDigest checks that the digest changes with the pools and their free addresses, and only then.
func TestDigest(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	seen := map[uint64]string{}
	step := func(what string, change func(), same bool) {
		t.Helper()
		change()
		now, err := w.provider.Digest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if before, known := seen[now]; known != same {
			t.Errorf("after %s the digest is that of %q: %v, want %v", what, before, known, same)
		}
		seen[now] = what
	}
	step("the start", func() {}, false)
	step("nothing", func() {}, true)
	step("an address", func() { w.keep(service("web"), "192.0.2.1") }, false)
	step("its release", func() { w.delete(service("web")) }, true)
	step("a larger pool", func() { w.allocator.pools[0].Range = "192.0.2.0/28" }, false)
	step("a pool that drains", func() { w.allocator.pools[0].State = allocatorv1.PoolState_POOL_STATE_DRAINING }, false)
	w.allocator.err = status.Error(codes.Unavailable, "away")
	if _, err := w.provider.Digest(t.Context()); status.Code(err) != codes.Unavailable {
		t.Errorf("without an allocator: %v", err)
	}
}

// TestSharesSurviveARestart starts a new process of the providers with the services of the former one.
func TestSharesSurviveARestart(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	web, dns := w.keep(service("web", shared("edge", 80)), "192.0.2.1"), w.keep(service("dns", shared("edge", 53)), "192.0.2.1")
	w.restart(w.provider.cfg)
	w.refuse(service("copy", shared("edge", 80)), codes.FailedPrecondition, "both have port 80/TCP")
	w.delete(web)
	if got := w.allocator.values(); len(got) != 1 {
		t.Errorf("with one service left, allocated is %v", got)
	}
	w.delete(dns) // the view still has web
	w.allocator.want(t)
	w.put("web", nil)
	w.put("dns", nil)
	w.keep(service("copy", shared("edge", 80)), "192.0.2.1")
}

// TestAMemberOfAShareReleasesNoAddressOfAnother has a share in which one member has an address of each family, and
// another member has an IPv4 address only. If the calls for the second member released the share's other addresses,
// the first member's IPv6 address would be free, and the next service would get it too.
func TestAMemberOfAShareReleasesNoAddressOfAnother(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29", "2001:db8::/125")
	both := func(svc *corev1.Service) {
		svc.Spec.IpFamilies, svc.Spec.IpFamilyPolicy = []corev1.IPFamily{ipv4, ipv6}, corev1.IPFamilyPolicy_IP_FAMILY_POLICY_REQUIRE_DUAL_STACK
	}
	web := w.keep(service("web", shared("k", 80), both), "192.0.2.1", "2001:db8::1")
	dns := w.keep(service("dns", shared("k", 53)), "192.0.2.1")
	share := spec.OwnerOfAddresses(web).UID
	w.allocator.want(t, "192.0.2.1 "+share+" loadBalancer/ipv4", "2001:db8::1 "+share+" loadBalancer/ipv6")
	w.keep(service("other", both), "192.0.2.2", "2001:db8::2")

	// The last member releases the addresses that it does not have itself.
	w.delete(web)
	w.put("web", nil)
	w.keep(dns, "192.0.2.1")
	w.allocator.want(t, "192.0.2.1 "+share+" loadBalancer/ipv4", "192.0.2.2 other loadBalancer/ipv4", "2001:db8::2 other loadBalancer/ipv6")
}

// TestAMemberWhoseStatusIsNotWrittenYet admits a service with a requested address to a share. Before its status shows
// the address, another service requests a different address for the share, and must be refused.
func TestAMemberWhoseStatusIsNotWrittenYet(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	first := service("first", shared("edge", 80), ips("192.0.2.1"))
	w.put("first", first)
	if got, err := w.ensure(first); err != nil || !slices.Equal(got, []string{"192.0.2.1"}) {
		t.Fatalf("the first one has %v, %v", got, err)
	}
	second := service("second", shared("edge", 53), ips("192.0.2.5"))
	w.put("second", second)
	w.refuse(second, codes.FailedPrecondition, "requests 192.0.2.1: request that one, or 192.0.2.5 at first too, or use another key")
	w.keep(first, "192.0.2.1")
	w.keep(service("third", shared("edge", 443)), "192.0.2.1")
	w.allocator.want(t, "192.0.2.1 "+spec.OwnerOfAddresses(first).UID+" loadBalancer/ipv4")
}

// TestAServiceThatBeginsToShareKeepsItsAddress gives a service with an address a sharing key. The address moves from the
// service to the share. If the provider did not release it first, the share could not claim it, and the service would
// get another address for no reason that its owner could see.
func TestAServiceThatBeginsToShareKeepsItsAddress(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	web := w.keep(service("web"), "192.0.2.1")
	shared("k", 80)(web)
	w.keep(web, "192.0.2.1")
	w.allocator.want(t, "192.0.2.1 "+spec.OwnerOfAddresses(web).UID+" loadBalancer/ipv4")
	w.keep(service("dns", shared("k", 53)), "192.0.2.1")
}

func ofEdges(svc *corev1.Service) { svc.Spec.LoadBalancerClass = &Edges.Class }

// TestEdgesShareAmongThemselves checks that services of different classes with the same key share no address.
func TestEdgesShareAmongThemselves(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	web := w.keep(service("web", ofEdges, shared("k", 80)), "192.0.2.1")
	w.keep(service("tls", ofEdges, shared("k", 443)), "192.0.2.1")
	dns := service("dns", shared("k", 53))
	w.put("dns", dns)
	w.refuse(dns, codes.FailedPrecondition, "cannot share addresses with tls under the key \"k\": its class is portolan.dev/edge and this one's is portolan.dev/pool")
	w.restart(w.provider.cfg)
	w.refuse(dns, codes.FailedPrecondition, "its class is portolan.dev/edge")
	w.delete(w.services["tls"])
	w.delete(web)
	w.put("web", nil)
	w.put("tls", nil)
	w.allocator.want(t)
	w.keep(dns, "192.0.2.1")
	w.refuse(service("web", ofEdges, shared("k", 80)), codes.FailedPrecondition, "its class is portolan.dev/pool and this one's is portolan.dev/edge")
	// The view does not show the pool's service yet, but this process has admitted it.
	w.put("dns", nil)
	w.refuse(service("web", ofEdges, shared("k", 80)), codes.FailedPrecondition, "its class is portolan.dev/pool")

	other := "example.com/metal"
	w.keep(service("alone", shared("own", 80), func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil }), "192.0.2.2")
	foreign := service("foreign", shared("theirs", 80), func(svc *corev1.Service) {
		svc.Spec.LoadBalancerClass = &other
		svc.Status = &corev1.ServiceStatus{LoadBalancer: &corev1.LoadBalancerStatus{Ingress: []*corev1.LoadBalancerIngress{{Ip: "203.0.113.1"}}}}
	})
	w.put("foreign", foreign)
	w.keep(service("own", shared("theirs", 80)), "192.0.2.3") // it shares nothing with services of other providers
}

// TestTheModeOfAnAddress checks the mode of addresses in the answers of both methods.
func TestTheModeOfAnAddress(t *testing.T) {
	w := newWorld(t, "192.0.2.0/29")
	for _, c := range []struct {
		svc  *corev1.Service
		want corev1.IPMode
	}{{service("web"), corev1.IPMode_IP_MODE_VIP}, {service("tls", ofEdges), corev1.IPMode_IP_MODE_PROXY}} {
		made, err := w.of(c.svc).EnsureLoadBalancer(t.Context(), &loadbalancerv1.EnsureLoadBalancerRequest{Service: c.svc})
		if err != nil || made.GetStatus().GetIngress()[0].GetIpMode() != c.want {
			t.Errorf("%s has %v, %v", c.svc.Metadata.Name, made, err)
		}
		got, err := w.of(c.svc).GetLoadBalancer(t.Context(), &loadbalancerv1.GetLoadBalancerRequest{Uid: c.svc.Metadata.Uid})
		if err != nil || got.GetStatus().GetIngress()[0].GetIpMode() != c.want {
			t.Errorf("%s has %v, %v", c.svc.Metadata.Name, got, err)
		}
	}
}

// TestRequests checks how requests are read.
func TestRequests(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "map[]",
		" 192.0.2.1 ":           "map[IP_FAMILY_IPV4:[192.0.2.1]]",
		"192.0.2.2,192.0.2.1,":  "map[IP_FAMILY_IPV4:[192.0.2.2 192.0.2.1]]",
		"192.0.2.1,192.0.2.1":   "map[IP_FAMILY_IPV4:[192.0.2.1]]",
		"2001:DB8::1,192.0.2.1": "map[IP_FAMILY_IPV4:[192.0.2.1] IP_FAMILY_IPV6:[2001:db8::1]]",
		"::ffff:192.0.2.1":      "map[IP_FAMILY_IPV4:[192.0.2.1]]",
		"192.0.2.0/24":          "is no address",
		"fe80::1%eth0":          "is no address",
		"10.0.0.":               "is no address",
		"10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5,10.0.0.6,10.0.0.7,10.0.0.8,10.0.0.9": "more than 8",
	} {
		got, err := requestedOf(service("web", ips(text)))
		if have := fmt.Sprint(got); have != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q requests %s, %v; want %s", text, have, err, want)
		}
	}
	field := service("web", func(svc *corev1.Service) { svc.Spec.LoadBalancerIp = "192.0.2.9" }, ips("192.0.2.8"))
	if got, err := requestedOf(field); err != nil || !slices.Equal(got[ipv4], []string{"192.0.2.8"}) {
		t.Errorf("annotation and field request %v, %v", got, err)
	}
}

// TestShareConflict checks each pair of services in both orders.
func TestShareConflict(t *testing.T) {
	local := func(svc *corev1.Service) { svc.Spec.ExternalTrafficPolicy = corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL }
	selects := func(app string) func(*corev1.Service) {
		return func(svc *corev1.Service) { svc.Spec.Selector = map[string]string{"app": app} }
	}
	udp := func(svc *corev1.Service) { svc.Spec.Ports[0].Protocol = corev1.Protocol_PROTOCOL_UDP }
	a := service("a", selects("x"))
	for name, c := range map[string]struct {
		a, b *corev1.Service
		text string
	}{
		"same port":       {a, service("b"), "both have port 80/TCP"},
		"other protocol":  {a, service("b", udp), ""},
		"other port":      {a, service("b", shared("k", 81)), ""},
		"one is local":    {a, service("b", shared("k", 81), local, selects("x")), "Local"},
		"both are local":  {service("a", local, selects("x")), service("b", shared("k", 81), local, selects("x")), ""},
		"other selectors": {service("a", local, selects("x")), service("b", shared("k", 81), local, selects("y")), "Local"},
		"at edges":        {service("a", ofEdges), service("b", ofEdges, shared("k", 81), local), ""},
		"other classes":   {a, service("b", ofEdges, shared("k", 81)), "class"},
		"no selectors":    {service("a", local), service("b", shared("k", 81), local), "Local"},
	} {
		for _, pair := range [][2]*corev1.Service{{c.a, c.b}, {c.b, c.a}} {
			if got := shareConflict(pair[0], pair[1]); (got == "") != (c.text == "") || !strings.Contains(got, c.text) {
				t.Errorf("%s: %q, want %q", name, got, c.text)
			}
		}
	}
}
