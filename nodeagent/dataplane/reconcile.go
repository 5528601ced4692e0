package dataplane

import (
	"context"
	"errors"

	"portolan.dev/nodeagent/plan"
)

// ErrNotInForce is the error for a key that differs between the plan and the
// record of a plane, although the plane reported no failure.
var ErrNotInForce = errors.New("the data plane accepted the change, and does not have it in force")

// Reconcile brings a plane to what is wanted. It returns the steps that it gave
// to the plane, and a failure for each key that is not as wanted afterwards, by
// the plane's report or by its record.
//
// The steps lead from the record of the plane to the plan, all changed keys
// together. Steps from plan to plan would assume that what was planned before is
// in force.
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

// stepsTo returns the steps from what a plane has to what is wanted.
func stepsTo(p Plane, c plan.Changes) []plan.Step {
	var steps []plan.Step
	if c.Sources != nil {
		steps = append(steps, plan.Step{Op: plan.SetSources, Sources: c.Sources})
	}
	for _, w := range c.Servers {
		if w.Server == nil {
			// Also if the plane has none on record: of a server that failed it
			// may keep something.
			steps = append(steps, plan.Step{Op: plan.DeleteServer, Key: w.Key})
			continue
		}
		steps = plan.DiffServer(steps, p.Programmed(w.Key), w.Server)
	}
	return plan.Order(steps)
}
