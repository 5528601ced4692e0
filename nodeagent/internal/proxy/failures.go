package proxy

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// The shortest and the longest pause between two tries.
const (
	retryMin = time.Second
	retryMax = 30 * time.Second
)

// failure is a virtual server that could not be programmed as planned, or the shared rules.
type failure struct {
	step    plan.Step
	service plan.ServiceName // empty: not of a service
	err     error
	remedy  string
	since   time.Time
	pause   time.Duration
	next    time.Time // time of the next try; zero: a retry is pointless
}

// failures are the virtual servers that differ from the plan, by key.
type failures map[plan.Key]*failure

// add records a failure and reports whether it is new.
func (f failures) add(fl dataplane.Failure, service plan.ServiceName, now time.Time) (*failure, bool) {
	old := f[fl.Step.Key]
	it := &failure{step: fl.Step, service: service, err: fl.Err, remedy: fl.Remedy, since: now, pause: retryMin}
	if old != nil {
		it.since, it.pause = old.since, min(2*old.pause, retryMax)
	}
	if !errors.Is(fl.Err, dataplane.ErrNotSupported) {
		it.next = now.Add(it.pause/2 + rand.N(it.pause))
	}
	f[fl.Step.Key] = it
	return it, old == nil || old.service != service || old.err.Error() != fl.Err.Error()
}

// due returns the keys to try again now, and the time of the next try; zero: there is none.
func (f failures) due(now time.Time) (keys []plan.Key, next time.Time) {
	for key, it := range f {
		switch {
		case it.next.IsZero():
		case !it.next.After(now):
			keys = append(keys, key)
		case next.IsZero() || it.next.Before(next):
			next = it.next
		}
	}
	slices.SortFunc(keys, plan.Key.Compare)
	return keys, next
}

// proto returns the failures for the API, sorted.
func (f failures) proto() []*nodeagentv1.StepFailure {
	out := make([]*nodeagentv1.StepFailure, 0, len(f))
	for _, it := range f {
		failure := &nodeagentv1.StepFailure{Step: it.step.String(), Error: it.err.Error(), Remedy: it.remedy, Since: timestamppb.New(it.since)}
		if it.service != (plan.ServiceName{}) {
			failure.Service = it.service.String()
		}
		out = append(out, failure)
	}
	slices.SortFunc(out, func(a, b *nodeagentv1.StepFailure) int { return strings.Compare(a.GetStep(), b.GetStep()) })
	return out
}
