package nodeagent

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/proto/portolan/nodeagent/v1"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// The pauses between two tries of what failed.
const (
	retryMin = time.Second
	retryMax = 30 * time.Second
)

// failing is a virtual server that could not be programmed as planned, or the
// rules that all share.
type failing struct {
	step    plan.Step
	service plan.ServiceName // empty: nobody's
	err     error
	remedy  string
	since   time.Time
	pause   time.Duration
	next    time.Time // of the next try; zero: trying again is pointless
}

// failures are the virtual servers that are not as planned, by key.
type failures map[plan.Key]*failing

// failed notes a failure, and tells whether it is news.
func (f failures) failed(fl dataplane.Failure, service plan.ServiceName, now time.Time) (*failing, bool) {
	old := f[fl.Step.Key]
	it := &failing{step: fl.Step, service: service, err: fl.Err, remedy: fl.Remedy, since: now, pause: retryMin}
	if old != nil {
		it.since, it.pause = old.since, min(2*old.pause, retryMax)
	}
	if !errors.Is(fl.Err, dataplane.ErrNotSupported) {
		it.next = now.Add(it.pause/2 + rand.N(it.pause))
	}
	f[fl.Step.Key] = it
	return it, old == nil || old.service != service || old.err.Error() != fl.Err.Error()
}

// due returns the keys to try again now, and when the next one is due; zero:
// never.
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

// proto lists the failures for the API, in order.
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
