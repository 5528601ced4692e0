package syncloop

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/object"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// The shortest and the longest pause between two tries.
const (
	retryMin = time.Second
	retryMax = 30 * time.Second
)

// failure is a frontend that could not be programmed as planned, or the shared rules.
type failure struct {
	change  string      // describes the change that failed
	service object.Name // empty: not of a service
	err     error
	remedy  string
	since   time.Time
	pause   time.Duration
	next    time.Time // time of the next try; zero: a retry is pointless
}

// failures are the frontends that differ from the plan.
type failures map[plan.Frontend]*failure

// add records a failure and reports whether it is new.
func (f failures) add(fl dataplane.Failure, change string, service object.Name, now time.Time) (*failure, bool) {
	old := f[fl.Frontend]
	it := &failure{change: change, service: service, err: fl.Err, remedy: fl.Remedy, since: now, pause: retryMin}
	if old != nil {
		it.since, it.pause = old.since, min(2*old.pause, retryMax)
	}
	if !errors.Is(fl.Err, dataplane.ErrNotSupported) {
		it.next = now.Add(it.pause/2 + rand.N(it.pause)) // #nosec G404 -- a pause is no secret
	}
	f[fl.Frontend] = it
	return it, old == nil || old.service != service || old.err.Error() != fl.Err.Error()
}

// dueRetries returns the frontends to try again now, and the time of the next try, or the zero time
// if there is none.
func (f failures) dueRetries(now time.Time) (frontends []plan.Frontend, next time.Time) {
	for at, it := range f {
		switch {
		case it.next.IsZero():
		case !it.next.After(now):
			frontends = append(frontends, at)
		case next.IsZero() || it.next.Before(next):
			next = it.next
		}
	}
	slices.SortFunc(frontends, plan.Frontend.Compare)
	return frontends, next
}

// proto returns the failures for the API, sorted.
func (f failures) proto() []*nodeagentv1.StepFailure {
	out := make([]*nodeagentv1.StepFailure, 0, len(f))
	for _, it := range f {
		failure := &nodeagentv1.StepFailure{Step: it.change, Error: it.err.Error(), Remedy: it.remedy, Since: timestamppb.New(it.since)}
		if it.service != (object.Name{}) {
			failure.Service = it.service.String()
		}
		out = append(out, failure)
	}
	slices.SortFunc(out, func(a, b *nodeagentv1.StepFailure) int { return strings.Compare(a.GetStep(), b.GetStep()) })
	return out
}
