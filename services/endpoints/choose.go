package endpoints

import "slices"

// Choice is a candidate with the decision about it.
type Choice struct {
	Candidate
	Used   bool
	Reason string
}

// The reasons of choices, as shown to operators.
const (
	reasonReady       = "ready"
	reasonNotReady    = "not ready"
	reasonTerminating = "terminating"
	reasonFallback    = "terminating but serving: nothing else is ready"
	reasonWeightZero  = "ready with weight 0: no new connections"
)

// Filter reports whether a policy admits a candidate, and otherwise the reason. The reason of a
// candidate that is not ready is shown only if the filter never admits it, ready or not.
type Filter func(*Candidate) (ok bool, reason string, always bool)

// All is the filter that admits all candidates.
func All(*Candidate) (ok bool, reason string, always bool) { return true, "", false }

// Choose uses the candidates that the filter admits and that are ready. If there are none, it uses
// admitted ones that are terminating but still serving. Its result has a choice for each candidate,
// in the same order.
func Choose(all []Candidate, admits Filter) []Choice {
	choices := make([]Choice, len(all))
	anyReady := slices.ContainsFunc(all, func(c Candidate) bool {
		ok, _, _ := admits(&c)
		return ok && c.Ready
	})
	for i := range all {
		used, reason := explain(&all[i], admits, anyReady)
		choices[i] = Choice{Candidate: all[i], Used: used, Reason: reason}
	}
	return choices
}

func explain(c *Candidate, admits Filter, anyReady bool) (used bool, reason string) {
	if ok, why, always := admits(c); !ok {
		if !c.Ready && !always {
			return false, notReady(c)
		}
		return false, why
	}
	switch {
	case c.Ready && c.Weight == 0:
		return true, reasonWeightZero
	case c.Ready:
		return true, reasonReady
	case c.servingTerminating() && !anyReady:
		return true, reasonFallback
	}
	return false, notReady(c)
}

func notReady(c *Candidate) string {
	if c.Terminating {
		return reasonTerminating
	}
	return reasonNotReady
}
