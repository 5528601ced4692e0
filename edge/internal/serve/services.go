package serve

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"portolan.dev/services/balancer"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/nodeview"
	"portolan.dev/services/object"

	"portolan.dev/edge/internal/plan"
)

// stepPlan plans a service and changes its ports.
const stepPlan = "plan"

// serviceOf returns a service in the form of the guard.
func serviceOf(name object.Name) guard.Object {
	return guard.Object{Kind: "Service", Namespace: name.Namespace, Name: name.Name}
}

// guardedSet is setService under the guard. If it panics, the service is served as before. The caller holds the lock.
func (s *Server) guardedSet(name object.Name, of nodeview.Service) {
	s.unplanned[name] = of
	s.opts.Guard.Run(stepPlan, serviceOf(name), func() {
		s.setService(name, of)
		delete(s.unplanned, name)
	})
}

// setAgain plans a service again with its newest objects. The caller holds the lock.
func (s *Server) setAgain(name object.Name, svc *service) {
	of, failed := s.unplanned[name]
	if !failed {
		of = svc.objects
	}
	s.guardedSet(name, of)
}

// setService plans a service again, and changes its ports. It stores the plan once it is complete. The caller holds
// the lock.
func (s *Server) setService(name object.Name, of nodeview.Service) {
	old := s.services[name]
	svc := &service{objects: of, reported: map[problem]bool{}}
	switch {
	case of.Object == nil:
	case old != nil && old.objects.Object == of.Object: // only its endpoints have changed
		svc.settings, svc.reported = old.settings, old.reported
	default:
		settings, _ := balancer.Parse(of.Object) // lbctl writes Events about the problems
		svc.settings = &settings
		if old != nil && reflect.DeepEqual(old.settings, svc.settings) {
			svc.settings = old.settings // with the same pointer, ports keep their handlers and idle connections
		}
		if old != nil && old.objects.Object.GetMetadata().GetGeneration() == of.Object.GetMetadata().GetGeneration() {
			svc.reported = old.reported // only the status or a label has changed, so an Event would be repeated
		}
	}
	s.build(name, svc)
	if of.Object == nil {
		delete(s.services, name)
	} else {
		s.services[name] = svc
	}
	var before []plan.Port
	if old != nil {
		before = old.result.Ports
	}
	s.claim(name, before, svc.result.Ports)
}

// build plans the ports of a service.
func (s *Server) build(name object.Name, svc *service) {
	if svc.objects.Object == nil {
		return
	}
	svc.result = plan.Build(svc.objects.Object, svc.objects.Slices, svc.settings, &plan.Facts{Zone: s.zone, Groups: s.opts.Groups, Usable: s.usable})
	for _, text := range svc.result.Problems {
		svc.problems = append(svc.problems, problem{reasonInvalid, text})
	}
	if svc.settings.AccessLog.Enabled && s.opts.Logs == nil {
		svc.problems = append(svc.problems, problem{reasonSettings, "the service asks for an access log, and this edge has no folder for it: set -access-log-dir"})
	}
	for _, text := range s.opts.Certs.Problems(name.Namespace, svc.settings) {
		svc.problems = append(svc.problems, problem{reasonSettings, text})
	}
	for _, p := range svc.problems {
		s.warn(svc, p)
	}
}

// judgeCertificates plans the services that use certificates again, so that problems of their certificates are
// found. Their ports use changed certificates without that.
func (s *Server) judgeCertificates() {
	for name, svc := range s.services {
		if svc.settings.TLS || svc.settings.BackendCA != nil {
			s.setAgain(name, svc)
		}
	}
}

// warn writes an Event about a problem that the service did not have before.
func (s *Server) warn(svc *service, p problem) {
	if !svc.reported[p] {
		svc.reported[p] = true
		s.opts.Warn(svc.objects.Object, p.reason, p.message)
	}
}

// usable reports whether checks admit a backend of a frontend.
func (s *Server) usable(frontend, backend netip.AddrPort) bool {
	p := s.ports[frontend]
	if p == nil {
		return true
	}
	usable, _ := p.group.Usable(backend)
	return usable
}

// claim replaces the frontends that a service claims, and decides which service gets each of them.
func (s *Server) claim(name object.Name, before, after []plan.Port) {
	affected := make([]netip.AddrPort, 0, len(before)+len(after))
	for _, p := range before {
		delete(s.claims[p.Frontend], name)
		affected = append(affected, p.Frontend)
	}
	for _, p := range after {
		if s.claims[p.Frontend] == nil {
			s.claims[p.Frontend] = map[object.Name]plan.Port{}
		}
		s.claims[p.Frontend][name] = p
		affected = append(affected, p.Frontend)
	}
	slices.SortFunc(affected, netip.AddrPort.Compare)
	for _, frontend := range slices.Compact(affected) {
		s.decide(frontend)
	}
}

// decide gives a frontend to the oldest of the services that claim it.
func (s *Server) decide(frontend netip.AddrPort) {
	owner, found := s.oldest(frontend)
	if !found {
		delete(s.claims, frontend)
	}
	p := s.ports[frontend]
	if p != nil && (!found || p.plan.Service != owner || p.plan.UID != s.claims[frontend][owner].UID) {
		s.drop(frontend, p, p.plan.Server.Drain)
		p = nil
	}
	switch {
	case !found || s.stopped:
	case p == nil:
		s.add(s.claims[frontend][owner])
	default:
		p.set(s.claims[frontend][owner])
		if p.listener == nil {
			s.closed[p] = struct{}{} // also if an attempt to open it has panicked
		}
	}
	for name := range s.claims[frontend] {
		if name != owner {
			s.warn(s.services[name], s.conflict(frontend, owner))
		}
	}
}

func (s *Server) conflict(frontend netip.AddrPort, owner object.Name) problem {
	return problem{reasonAddressInUse, fmt.Sprintf("%s is in use by the older service %s", frontend, owner)}
}

// oldest returns the oldest service that claims a frontend.
func (s *Server) oldest(frontend netip.AddrPort) (owner object.Name, found bool) {
	for name := range s.claims[frontend] {
		if !found || s.isOlder(name, owner) {
			owner, found = name, true
		}
	}
	return owner, found
}

func (s *Server) isOlder(a, b object.Name) bool {
	created := func(name object.Name) time.Time {
		return s.services[name].objects.Object.GetMetadata().GetCreationTimestamp().AsTime()
	}
	if c := created(a).Compare(created(b)); c != 0 {
		return c < 0
	}
	return a.Compare(b) < 0
}
