package reconcile

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/registrar/source"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// problems are the current problems. Each becomes an Event once, when it appears.
type problems struct {
	warn func(service object.Name, reason, message string)

	mu     sync.Mutex
	scopes map[string]map[source.Problem]bool // guarded by mu
}

func newProblems(warn func(object.Name, string, string)) *problems {
	return &problems{warn: warn, scopes: map[string]map[source.Problem]bool{}}
}

// set replaces the problems of a scope, which is a source or a pod. The Events are about a service, or about
// the node if the name is empty.
func (p *problems) set(scope string, about object.Name, found []source.Problem) {
	var fresh []source.Problem
	p.mu.Lock()
	before := p.scopes[scope]
	delete(p.scopes, scope)
	for _, one := range found {
		if p.scopes[scope] == nil {
			p.scopes[scope] = map[source.Problem]bool{}
		}
		if !before[one] && !p.scopes[scope][one] {
			fresh = append(fresh, one)
		}
		p.scopes[scope][one] = true
	}
	p.mu.Unlock()
	for _, one := range fresh {
		p.warn(about, one.Reason, one.Object+": "+one.Message)
	}
}

// of returns the problems of a scope.
func (p *problems) of(scope string) []source.Problem {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := make([]source.Problem, 0, len(p.scopes[scope]))
	for one := range p.scopes[scope] {
		found = append(found, one)
	}
	return found
}

// named puts the name of the source before the objects of problems, because an Event has no field for the
// source.
func named(from string, found []source.Problem) []source.Problem {
	for i := range found {
		found[i].Object = from + " " + found[i].Object
	}
	return found
}

// ReasonRefused is the reason if the registry refuses an object of a workload.
const ReasonRefused = "Refused"

// refusal returns the problem of a workload if the registry refused a write because of its contents. It
// returns none if the registry did not answer, or wants the registrar to write more slowly.
func refusal(w *wanted, err error) []source.Problem {
	if _, later := apierr.RetryAfter(err); later {
		return nil
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.ResourceExhausted, codes.FailedPrecondition, codes.AlreadyExists, codes.NotFound:
		if w != nil {
			return []source.Problem{{Object: w.workload.Name, Reason: ReasonRefused, Message: status.Convert(err).Message()}}
		}
	}
	return nil
}
