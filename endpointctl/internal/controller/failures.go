package controller

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
)

// Failure is the reason why the endpoints of a service cannot be written.
type Failure struct {
	Since   time.Time // time of the first of the consecutive failed syncs
	Message string    // last error
	lasting bool      // a repetition does not help
}

// failures has the last failure of each service, until a sync succeeds. It is safe for concurrent use.
type failures struct {
	mu  sync.Mutex
	all map[object.Name]Failure // guarded by mu
}

// record records the result of a sync. It returns the time since which the service's syncs have
// failed.
func (f *failures) record(key object.Name, err error) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		delete(f.all, key)
		return time.Time{}
	}
	failure, failed := f.all[key]
	if !failed {
		failure.Since = time.Now()
	}
	failure.Message, failure.lasting = apierr.Describe(err), !isTemporary(err)
	f.all[key] = failure
	return failure.Since
}

func (f *failures) get(key object.Name) (Failure, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	failure, failed := f.all[key]
	return failure, failed
}

// lasting returns the number of services that have failed for at least the given time, or for which a repetition
// does not help.
func (f *failures) lasting(minimum time.Duration) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, failure := range f.all {
		if failure.lasting || time.Since(failure.Since) >= minimum {
			n++
		}
	}
	return n
}

func (f *failures) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.all)
}

// recordResult records the result of a sync. It reports to the owner of a service at once if a
// repetition does not help. It reports other failures once they have lasted.
func (c *shard) recordResult(ctx context.Context, key object.Name, svc *corev1.Service, err error) {
	since := c.failures.record(key, err)
	switch {
	case err == nil:
		c.events.Forget(eventKey{key, updateFailedReason})
	case svc == nil, isPanic(err):
	case apierr.Code(err) == codes.InvalidArgument:
		c.report(ctx, svc, updateFailedReason, "the registry refuses the endpoints: "+reasons(err))
	case !isTemporary(err), time.Since(since) >= c.cfg.LastingFailure:
		c.report(ctx, svc, updateFailedReason, "the endpoints cannot be written: "+apierr.Describe(err))
	}
}

// reasons returns the violations without the name of the object. Each attempt gives a new slice
// another name, so with the name each attempt would make an Event of its own.
func reasons(err error) string { return apierr.ViolationsOf(err).String() }
