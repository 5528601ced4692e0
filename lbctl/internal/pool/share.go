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
	// Service returns a service, or nil if it does not exist.
	Service(name object.Name) *corev1.Service
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
	shareOf  map[string]string                     // guarded by mu: owner of the share of each admitted service, by uid
	left     map[string]time.Time                  // guarded by mu: when load balancers were deleted, by uid
}

// NewShares returns the shares of services, without admitted members.
func NewShares(services Services) *Shares {
	return &Shares{services: services, admitted: map[string]map[string]*corev1.Service{}, shareOf: map[string]string{}, left: map[string]time.Time{}}
}

// of returns the owner of the share that this process has admitted a service to, or "".
func (s *Shares) of(uid string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shareOf[uid]
}

// leaveAny records that a service has addresses of its own.
func (s *Shares) leaveAny(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(uid)
}

// statuses returns the services of a share, except one, as the view shows them. Services whose load balancers were
// deleted are left out, although the view may still show their addresses.
func (s *Shares) statuses(owner, except string) []*corev1.Service {
	return slices.DeleteFunc(s.services.Sharers(owner), func(svc *corev1.Service) bool {
		_, left := s.left[svc.GetMetadata().GetUid()]
		return left || svc.GetMetadata().GetUid() == except || !isBuiltIn(svc)
	})
}

// members returns the services of a share that have its addresses, except one. A service is a member if its
// status has addresses, or if this process has admitted it. An admitted service is returned with the addresses
// of its admission, because the view may show an earlier status.
func (s *Shares) members(owner, except string) []*corev1.Service {
	members := map[string]*corev1.Service{}
	for uid, svc := range s.admitted[owner] {
		if !s.hasLeft(svc, owner) {
			members[uid] = svc
		}
	}
	for _, svc := range s.services.Sharers(owner) {
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

// hasLeft reports whether the view shows a service that was admitted to a share with another sharing key.
func (s *Shares) hasLeft(admitted *corev1.Service, owner string) bool {
	now := s.services.Service(object.NameOf(admitted))
	return now != nil && now.GetMetadata().GetUid() == admitted.GetMetadata().GetUid() && spec.OwnerOfAddresses(now).UID != owner
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
	s.admitted[owner.UID][uid], s.shareOf[uid] = svc, owner.UID
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
	owner := s.shareOf[uid]
	delete(s.shareOf, uid)
	delete(s.admitted[owner], uid)
	if len(s.admitted[owner]) == 0 {
		delete(s.admitted, owner)
	}
}
