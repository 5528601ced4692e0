package dataplane

import (
	"context"
	"errors"

	"portolan.dev/nodeagent/plan"
)

// ErrNotInForce is the error for a key at which the record of a plane differs from the plan
// although the plane reported no failure.
var ErrNotInForce = errors.New("the data plane accepted the change, and does not have it in force")

// Reconcile brings a plane to the plan. It returns the steps that it gave to the plane, and a
// failure for each key that does not match the plan afterwards, according to the plane's report or
// its record.
//
// The steps lead from the plane's record to the plan, for all changed keys together. Steps from the
// previous plan would assume that the previous plan is in force.
func Reconcile(ctx context.Context, p Plane, c plan.Changes) ([]plan.Step, []Failure) {
	steps := stepsTo(p, c)
	failures := p.Apply(ctx, steps)
	failed := make(map[plan.Key]bool, len(failures))
	for _, f := range failures {
		failed[f.Step.Key] = true
	}
	for _, w := range c.Servers {
		if failed[w.Key] {
			continue
		}
		if rest := plan.DiffServer(nil, p.Programmed(w.Key), w.Server); len(rest) > 0 {
			failures = append(failures, Failure{Step: rest[0], Err: ErrNotInForce})
		}
	}
	return steps, failures
}

// stepsTo returns the steps from the plane's record to the planned changes.
func stepsTo(p Plane, c plan.Changes) []plan.Step {
	var steps []plan.Step
	if c.Sources != nil {
		steps = append(steps, plan.Step{Op: plan.SetSources, Sources: c.Sources})
	}
	for _, w := range c.Servers {
		if w.Server == nil {
			// This is needed even if the plane has no record of the server, because it may have
			// kept parts of a server that failed.
			steps = append(steps, plan.Step{Op: plan.DeleteServer, Key: w.Key})
			continue
		}
		steps = plan.DiffServer(steps, p.Programmed(w.Key), w.Server)
	}
	return plan.Order(steps)
}
