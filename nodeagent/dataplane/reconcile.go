package dataplane

import (
	"context"
	"errors"

	"portolan.dev/nodeagent/plan"
)

// ErrNotInForce is the error for a frontend at which the record of a plane differs from the plan
// although the plane reported no failure.
var ErrNotInForce = errors.New("the data plane accepted the change, and does not have it in force")

// Reconcile brings a plane to the plan. It returns a failure for each frontend that does not match
// the plan afterwards, according to the plane's report or its record.
func Reconcile(ctx context.Context, p Plane, changed plan.Changes) []Failure {
	failures := p.Apply(ctx, changed)
	failed := make(map[plan.Frontend]bool, len(failures))
	for _, f := range failures {
		failed[f.Frontend] = true
	}
	for i := range changed.Frontends {
		if f := &changed.Frontends[i]; !failed[f.Frontend] && !inForce(p, f) {
			failures = append(failures, Failure{Frontend: f.Frontend, Err: ErrNotInForce})
		}
	}
	return failures
}

// inForce reports whether the record of a plane has exactly the planned servers of a frontend.
func inForce(p Plane, f *plan.FrontendServers) bool {
	for _, a := range plan.Audiences {
		if !plan.Same(p.Programmed(plan.Key{Frontend: f.Frontend, Audience: a}), f.Servers[a]) {
			return false
		}
	}
	return true
}
