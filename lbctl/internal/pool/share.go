package pool

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/balancer"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// Services is the part of the view that finds the services of a share.
type Services interface {
	// Sharers returns the services that share addresses under an owner.
	Sharers(owner string) []*corev1.Service
}

// Shares records which services have addresses in common. Make it with NewShares.
type Shares struct {
	services Services

	// mu is held while the addresses of a share are claimed or released, so that two services cannot join a
	// share at the same time without being checked against each other.
	mu       sync.Mutex
	admitted map[string]map[string]*corev1.Service // guarded by mu: members of shares, by owner and uid
	left     map[string]time.Time                  // guarded by mu: when load balancers were deleted, by uid
}

// NewShares returns the shares of services, without admitted members.
func NewShares(services Services) *Shares {
	return &Shares{services: services, admitted: map[string]map[string]*corev1.Service{}, left: map[string]time.Time{}}
}

// of returns the owners of the shares that this process has admitted a service to.
func (s *Shares) of(uid string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var owners []string
	for owner, members := range s.admitted {
		if members[uid] != nil {
			owners = append(owners, owner)
		}
	}
	return owners
}

// members returns the services of a share that have its addresses, except one. A service is a member if its
// status has addresses, or if this process has admitted it. An admitted service is returned with the addresses
// of its admission, because the view may show an earlier status.
func (s *Shares) members(owner spec.AddressOwner, except string) []*corev1.Service {
	members := maps.Clone(s.admitted[owner.UID])
	if members == nil {
		members = map[string]*corev1.Service{}
	}
	for _, svc := range s.services.Sharers(owner.UID) {
		uid := svc.GetMetadata().GetUid()
		admission, admitted := members[uid]
		_, left := s.left[uid]
		switch {
		case left || !spec.IsLoadBalancer(svc) || !isBuiltIn(svc) || svc.GetMetadata().GetDeletionTimestamp() != nil:
			delete(members, uid)
		case admitted:
			members[uid] = &corev1.Service{Metadata: svc.GetMetadata(), Spec: svc.GetSpec(), Status: admission.GetStatus()}
		case spec.HasBalancerFinalizer(svc) && len(svc.GetStatus().GetLoadBalancer().GetIngress()) > 0:
			members[uid] = svc
		}
	}
	delete(members, except)
	return slices.SortedFunc(maps.Values(members), func(a, b *corev1.Service) int {
		return strings.Compare(a.GetMetadata().GetName(), b.GetMetadata().GetName())
	})
}

// isBuiltIn reports whether a built-in provider makes the load balancer of a service. Other providers have
// addresses of their own, which no service of a built-in provider can share.
func isBuiltIn(svc *corev1.Service) bool {
	class := balancer.ClassOf(svc)
	return class == Nodes.Class || class == Edges.Class
}

// checkShare returns an error if a service may not have the same addresses as the other members of
// its share.
func checkShare(svc *corev1.Service, members []*corev1.Service) error {
	for _, other := range members {
		if why := shareConflict(svc, other); why != "" {
			return status.Errorf(codes.FailedPrecondition, "the service cannot share addresses with %s under the key %q: %s", other.GetMetadata().GetName(), spec.SharingKey(svc), why)
		}
	}
	return nil
}

// shareConflict returns the reason why two services cannot have the same addresses, with the remedy,
// or "" if they can. With the policy Local only nodes with endpoints of a service take its traffic, and
// one node takes the traffic of an address, so both need the same endpoints. Edges ignore the policy.
func shareConflict(a, b *corev1.Service) string {
	if balancer.ClassOf(a) != balancer.ClassOf(b) {
		return fmt.Sprintf("its class is %s and this one's is %s, and one address cannot be served by both; use another key for one", balancer.ClassOf(b), balancer.ClassOf(a))
	}
	for _, p := range a.GetSpec().GetPorts() {
		for _, q := range b.GetSpec().GetPorts() {
			if p.GetPort() == q.GetPort() && p.GetProtocol() == q.GetProtocol() {
				return fmt.Sprintf("both have port %d/%s; change a port, or the annotation %s of one", p.GetPort(), spec.EnumName(p.GetProtocol()), object.AnnotationBalancerShare)
			}
		}
	}
	if isLocal(a) || isLocal(b) {
		same := isLocal(a) == isLocal(b) && len(a.GetSpec().GetSelector()) > 0 && maps.Equal(a.GetSpec().GetSelector(), b.GetSpec().GetSelector())
		if !same {
			return "with externalTrafficPolicy Local both must have that policy and the same selector; use the policy Cluster for both, or another key for one"
		}
	}
	return ""
}

// isLocal reports whether only nodes with endpoints of a service take its traffic.
func isLocal(svc *corev1.Service) bool {
	return svc.GetSpec().GetExternalTrafficPolicy() == corev1.TrafficPolicy_TRAFFIC_POLICY_LOCAL && balancer.ClassOf(svc) != Edges.Class
}

// followMembers changes the wishes of a service to the addresses of the members of its share. It returns an
// error if the service requests another address.
func followMembers(svc *corev1.Service, wishes []wish, members []*corev1.Service) error {
	for i := range wishes {
		w := &wishes[i]
		for _, member := range members {
			have := addressesOf(member)[w.family]
			if w.number >= len(have) {
				continue
			}
			w.has = have[w.number]
			if w.value != "" && w.value != w.has {
				return status.Errorf(codes.FailedPrecondition, "the service requests %s, but %s, which has the same sharing key %q, has %s: request that one, or use another key",
					w.value, member.GetMetadata().GetName(), spec.SharingKey(svc), w.has)
			}
			break
		}
	}
	return nil
}

// admit records that a service has the addresses of a share.
func (s *Shares) admit(owner spec.AddressOwner, svc *corev1.Service, has *corev1.LoadBalancerStatus) {
	svc = svc.CloneVT()
	svc.Status = &corev1.ServiceStatus{LoadBalancer: has}
	uid := svc.GetMetadata().GetUid()
	s.leave(uid)
	delete(s.left, uid)
	if s.admitted[owner.UID] == nil {
		s.admitted[owner.UID] = map[string]*corev1.Service{}
	}
	s.admitted[owner.UID][uid] = svc
}

// viewLag is the longest time for which the view may still show a load balancer that was deleted.
const viewLag = time.Minute

// leaveForGood records that the load balancer of a service was deleted, because the view shows that later.
func (s *Shares) leaveForGood(uid string) {
	s.leave(uid)
	now := time.Now()
	maps.DeleteFunc(s.left, func(_ string, at time.Time) bool { return now.Sub(at) > viewLag })
	s.left[uid] = now
}

// leave records that a service has no shared addresses.
func (s *Shares) leave(uid string) {
	for owner, members := range s.admitted {
		delete(members, uid)
		if len(members) == 0 {
			delete(s.admitted, owner)
		}
	}
}
