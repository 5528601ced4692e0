package providers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
)

// capabilitiesAge is the time for which the capabilities of a provider are cached.
const capabilitiesAge = time.Minute

// Set is the set of all providers. It does not change after Add, and its methods are safe for
// concurrent use.
type Set struct {
	timeout time.Duration
	seconds *prometheus.HistogramVec
	all     map[string]*Provider
	conns   []*grpc.ClientConn
}

// New returns an empty set. timeout is the deadline of each call.
func New(timeout time.Duration, metrics prometheus.Registerer) *Set {
	s := &Set{timeout: timeout, all: map[string]*Provider{}, seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "portolan_lbctl_provider_call_seconds", Help: "Time of one call of a load-balancer provider.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
	}, []string{"class", "method", "result"})}
	metrics.MustRegister(s.seconds)
	return s
}

// Add adds a provider under its class. The set closes the connection.
func (s *Set) Add(class string, conn *grpc.ClientConn) {
	s.all[class] = &Provider{class: class, set: s, client: loadbalancerv1.NewLoadBalancerProviderServiceClient(conn)}
	s.conns = append(s.conns, conn)
	s.seconds.WithLabelValues(class, "EnsureLoadBalancer", "ok") // shown from the start
}

// Alias makes a provider serve another class, too.
func (s *Set) Alias(class, of string) { s.all[class] = s.all[of] }

// Of returns the provider of a class, or nil if there is none.
func (s *Set) Of(class string) *Provider { return s.all[class] }

// All returns each provider once, ordered by class.
func (s *Set) All() []*Provider {
	var all []*Provider
	for _, class := range slices.Sorted(maps.Keys(s.all)) {
		if p := s.all[class]; p.class == class {
			all = append(all, p)
		}
	}
	return all
}

// Classes lists the classes of all providers for people.
func (s *Set) Classes() string {
	var classes []string
	for _, p := range s.All() {
		classes = append(classes, p.class)
	}
	return strings.Join(classes, ", ")
}

// Close closes the connections.
func (s *Set) Close() error {
	var errs []error
	for _, conn := range s.conns {
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}

// Provider is one provider.
type Provider struct {
	class  string
	set    *Set
	client loadbalancerv1.LoadBalancerProviderServiceClient

	mu           sync.Mutex
	capabilities *loadbalancerv1.GetCapabilitiesResponse // guarded by mu
	asked        time.Time                               // guarded by mu: when the capabilities were read
}

// Class returns the class that the provider serves.
func (p *Provider) Class() string { return p.class }

// call makes one call with the deadline of the set.
func call[Req, Res any](ctx context.Context, p *Provider, method string, run func(context.Context, Req, ...grpc.CallOption) (Res, error), req Req) (Res, error) {
	ctx, cancel := context.WithTimeout(ctx, p.set.timeout)
	defer cancel()
	begin := time.Now()
	resp, err := run(ctx, req)
	result := "ok"
	if err != nil {
		result = "error"
	}
	p.set.seconds.WithLabelValues(p.class, method, result).Observe(time.Since(begin).Seconds())
	return resp, err
}

// Capabilities returns the provider's capabilities. They are at most a minute old.
func (p *Provider) Capabilities(ctx context.Context) (*loadbalancerv1.GetCapabilitiesResponse, error) {
	p.mu.Lock()
	known := p.capabilities
	if time.Since(p.asked) > capabilitiesAge {
		known = nil
	}
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	resp, err := call(ctx, p, "GetCapabilities", p.client.GetCapabilities, &loadbalancerv1.GetCapabilitiesRequest{})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capabilities, p.asked = resp, time.Now()
	return resp, nil
}

// Ensure calls EnsureLoadBalancer.
func (p *Provider) Ensure(ctx context.Context, req *loadbalancerv1.EnsureLoadBalancerRequest) (*loadbalancerv1.EnsureLoadBalancerResponse, error) {
	return call(ctx, p, "EnsureLoadBalancer", p.client.EnsureLoadBalancer, req)
}

// Update calls UpdateLoadBalancer.
func (p *Provider) Update(ctx context.Context, req *loadbalancerv1.UpdateLoadBalancerRequest) (*loadbalancerv1.UpdateLoadBalancerResponse, error) {
	return call(ctx, p, "UpdateLoadBalancer", p.client.UpdateLoadBalancer, req)
}

// Delete calls DeleteLoadBalancer.
func (p *Provider) Delete(ctx context.Context, req *loadbalancerv1.DeleteLoadBalancerRequest) (*loadbalancerv1.DeleteLoadBalancerResponse, error) {
	return call(ctx, p, "DeleteLoadBalancer", p.client.DeleteLoadBalancer, req)
}
