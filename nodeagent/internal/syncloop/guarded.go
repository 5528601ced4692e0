package syncloop

import (
	"context"
	"errors"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/guard"
	"portolan.dev/services/object"
)

// Steps that can panic apart. The step of a part of the program has the part after its name.
const (
	stepPlan      = "plan"
	stepConflicts = "conflicts"
	stepProgram   = "program"
)

// serviceOf returns a service in the form of the guard, or the node if the name is empty.
func (s *Syncer) serviceOf(name object.Name) guard.Object {
	if name == (object.Name{}) {
		return guard.Object{Kind: "Node", Name: s.view.Node()}
	}
	return guard.Object{Kind: "Service", Namespace: name.Namespace, Name: name.Name}
}

// reconcile brings the data plane to the plan. If the plane panics, it does not say at which frontend. Then the shared
// rules and each frontend are tried alone, and those that panic again are failures, which are retried like all others.
func (s *Syncer) reconcile(ctx context.Context, c plan.Changes) (failed []dataplane.Failure) {
	if !s.panickedBefore(c) {
		err := s.guard.Do(stepProgram, s.serviceOf(object.Name{}), func() error {
			failed = dataplane.Reconcile(ctx, s.plane, c)
			return nil
		})
		if err == nil {
			return failed
		}
		s.guard.Done(stepProgram, s.serviceOf(object.Name{})) // because the parts are judged instead
	}
	failed = nil
	if c.Sources != nil {
		failed = s.reconcilePart(ctx, "sources", dataplane.SharedRules, object.Name{}, plan.Changes{Sources: c.Sources})
	}
	for i := range c.Frontends {
		f := &c.Frontends[i]
		failed = append(failed, s.reconcilePart(ctx, f.Frontend.String(), f.Frontend, s.serviceAt(f), plan.Changes{Frontends: c.Frontends[i : i+1]})...)
	}
	return failed
}

// serviceAt returns the service of a frontend, or the service for which it failed before if it has none any more.
func (s *Syncer) serviceAt(f *plan.FrontendServers) (service object.Name) {
	before := s.failing[f.Frontend]
	switch server := f.Any(); {
	case server != nil && before != nil && before.service != server.Service:
		s.guard.Done(stepProgram+" "+f.Frontend.String(), s.serviceOf(before.service))
		return server.Service
	case server != nil:
		return server.Service
	case before != nil:
		return before.service
	}
	return object.Name{}
}

// panickedBefore reports whether the last attempt at a part of the changes panicked.
func (s *Syncer) panickedBefore(c plan.Changes) bool {
	panicked := func(at plan.Frontend) bool {
		f := s.failing[at]
		return f != nil && isPanic(f.err)
	}
	if c.Sources != nil && panicked(dataplane.SharedRules) {
		return true
	}
	for i := range c.Frontends {
		if panicked(c.Frontends[i].Frontend) {
			return true
		}
	}
	return false
}

// reconcilePart brings the data plane to the plan of one frontend of a service, or of the shared rules.
func (s *Syncer) reconcilePart(ctx context.Context, name string, at plan.Frontend, service object.Name, c plan.Changes) (failed []dataplane.Failure) {
	if err := s.guard.Do(stepProgram+" "+name, s.serviceOf(service), func() error {
		failed = dataplane.Reconcile(ctx, s.plane, c)
		return nil
	}); err != nil {
		return []dataplane.Failure{{Frontend: at, Err: err}}
	}
	return failed
}

// isPanic reports whether an error is a panic, of which the guard has written an Event.
func isPanic(err error) bool {
	_, ok := errors.AsType[*guard.Panic](err)
	return ok
}
