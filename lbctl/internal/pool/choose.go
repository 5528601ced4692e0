package pool

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	allocatorv1 "portolan.dev/api/allocator/v1"
	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Rules restrict the pools from which services get addresses.
type Rules struct {
	// Manual are the pools from which a service gets an address only if it names the pool or an
	// address of it.
	Manual []string
	// Namespaces are the only namespaces that may use a pool, by pool. A pool without an entry is for
	// all namespaces.
	Namespaces map[string][]string
	// Internal are the pools with addresses that only the own network reaches. A service that asks for an
	// internal load balancer gets addresses from these pools only. Another service gets an address from them
	// only if it names the pool or an address.
	Internal []string
}

// allows reports whether services of a namespace may use a pool.
func (r *Rules) allows(pool, namespace string) bool {
	of, restricted := r.Namespaces[pool]
	return !restricted || slices.Contains(of, namespace)
}

// choice has the pools that the addresses of one service may come from.
type choice struct {
	namespace string
	rules     *Rules
	internal  bool   // whether the service asks for an internal load balancer
	named     string // the pool that the service names, or ""
	all       []*allocatorv1.Pool
	pools     []*allocatorv1.Pool // the pools of load-balancer addresses; only the named pool if there is one
}

// choose returns the choice of a service among all pools of the allocator.
func choose(svc *corev1.Service, rules *Rules, all []*allocatorv1.Pool) (*choice, error) {
	annotations := svc.GetMetadata().GetAnnotations()
	c := &choice{
		namespace: svc.GetMetadata().GetNamespace(), rules: rules, internal: balancer.Internal(svc) != "", all: all,
		named: cmp.Or(annotations[object.AnnotationBalancerPool], annotations[object.AnnotationBalancerPoolOlder]),
	}
	for _, pool := range all {
		if pool.GetUse() == allocatorv1.Use_USE_LOAD_BALANCER_IP && (c.named == "" || pool.GetName() == c.named) {
			c.pools = append(c.pools, pool)
		}
	}
	switch {
	case c.named == "":
		return c, nil
	case len(c.pools) == 0:
		return nil, status.Errorf(codes.ResourceExhausted, "there is no pool %q of load-balancer addresses: create it (portolan pool create %s --use load-balancer-ip --range …), or change the annotation %s", c.named, c.named, object.AnnotationBalancerPool)
	case c.internal && !slices.Contains(rules.Internal, c.named):
		return nil, status.Errorf(codes.FailedPrecondition, "the service asks for an internal load balancer, and the pool %q is not internal: change the annotation %s, or name the pool in lbctl's -internal-pools", c.named, object.AnnotationBalancerPool)
	case !rules.allows(c.named, c.namespace):
		return nil, status.Errorf(codes.FailedPrecondition, "the pool %q is for the namespaces %s only: change the annotation %s", c.named, strings.Join(rules.Namespaces[c.named], ", "), object.AnnotationBalancerPool)
	}
	return c, nil
}

// of returns the names of the pools to try for an address of a family if the service requests no address.
// Pools for the service's namespace come before pools for all namespaces.
func (c *choice) of(family corev1.IPFamily) []string {
	var own, common []string
	for _, pool := range c.pools {
		name := pool.GetName()
		prefix, err := netip.ParsePrefix(pool.GetRange())
		switch {
		case err != nil || spec.FamilyOf(prefix.Addr().String()) != family || pool.GetState() != allocatorv1.PoolState_POOL_STATE_ACTIVE:
		case !c.rules.allows(name, c.namespace) || c.named == "" && slices.Contains(c.rules.Manual, name):
		case c.internal != slices.Contains(c.rules.Internal, name) && c.named == "":
		case c.rules.Namespaces[name] != nil:
			own = append(own, name)
		default:
			common = append(common, name)
		}
	}
	return append(own, common...)
}

// check returns an error if the service may not request the address.
func (c *choice) check(value string) error {
	addr, err := netip.ParseAddr(value)
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "%q is no address", value)
	}
	for _, pool := range c.pools {
		prefix, err := netip.ParsePrefix(pool.GetRange())
		if err != nil || !prefix.Contains(addr) {
			continue
		}
		if !c.rules.allows(pool.GetName(), c.namespace) {
			return status.Errorf(codes.FailedPrecondition, "%s is in the pool %q, which is for the namespaces %s only: request another address", value, pool.GetName(), strings.Join(c.rules.Namespaces[pool.GetName()], ", "))
		}
		if c.internal && !slices.Contains(c.rules.Internal, pool.GetName()) {
			return status.Errorf(codes.FailedPrecondition, "the service asks for an internal load balancer, and %s is in the pool %q, which is not internal: request another address", value, pool.GetName())
		}
		return nil
	}
	within := "no pool of load-balancer addresses"
	if c.named != "" {
		within = fmt.Sprintf("the pool %q has not", c.named)
	} else {
		within += " has"
	}
	return status.Errorf(codes.ResourceExhausted, "%s the requested address %s: request one of %s, or create a pool", within, value, c.ranges())
}

// checkKept returns an error if the service may not keep an address that it has. That is so if the service now
// asks for an internal load balancer and the address is in no internal pool. The allocator moves no service to
// another pool.
func (c *choice) checkKept(value string) error {
	addr, err := netip.ParseAddr(value)
	isInternal := func(pool *allocatorv1.Pool) bool {
		prefix, malformed := netip.ParsePrefix(pool.GetRange())
		return malformed == nil && prefix.Contains(addr) && slices.Contains(c.rules.Internal, pool.GetName())
	}
	if c.internal && (err != nil || !slices.ContainsFunc(c.all, isInternal)) {
		return status.Errorf(codes.FailedPrecondition, "the service asks for an internal load balancer, and has %s, which is of no internal pool: delete the service and make it again", value)
	}
	return nil
}

// ranges lists the ranges of the pools for people.
func (c *choice) ranges() string {
	var texts []string
	for _, pool := range c.pools {
		if c.rules.allows(pool.GetName(), c.namespace) && (!c.internal || slices.Contains(c.rules.Internal, pool.GetName())) {
			texts = append(texts, pool.GetRange())
		}
	}
	return cmp.Or(strings.Join(texts, ", "), "none")
}
