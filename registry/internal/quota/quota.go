package quota

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
)

// Limits are the limits of one identity.
type Limits struct {
	Writes int // per second
	Bytes  int // per second, a multiple of 1024
}

// burst is the size of a burst in time: an identity that has not written for a while may write at once as
// much as its rate allows in this time.
const burst = 20 * time.Second

// maxIdle is the number of identities above which those that have not written for a burst are
// forgotten.
const maxIdle = 1024

// roles are the roles of identities with a rate, with the prefix of the flags that set it.
var roles = map[identity.Role]string{identity.NodeAgent: "agent", identity.Edge: "agent", identity.Workload: "workload", identity.Registrar: "agent"}

// Rates counts the writes of each identity. It is safe for concurrent use.
type Rates struct {
	limits   map[identity.Role]Limits
	throttle *prometheus.CounterVec
	now      func() time.Time

	mu      sync.Mutex
	writers map[identity.ID]*writer
	sweepAt int // number of writers at which the idle ones are forgotten
}

// writer holds the remaining writes and bytes of one identity.
type writer struct{ writes, bytes *rate.Limiter }

// New returns rates with the limits of the identities of each role. Roles without limits write at
// any rate.
func New(limits map[identity.Role]Limits, metrics prometheus.Registerer) *Rates {
	r := &Rates{
		limits: limits, now: time.Now, writers: map[identity.ID]*writer{}, sweepAt: maxIdle,
		throttle: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_registry_throttled_writes_total",
			Help: "Writes that were refused because of the writer's rate, by role (nodeagent, edge, workload or registrar) and limit (rate or bytes).",
		}, []string{"role", "limit"}),
	}
	metrics.MustRegister(r.throttle)
	return r
}

// Admit counts a write of the caller of ctx with an object, which is nil for a deletion. It returns
// an error that says when the caller may try again if the write exceeds a limit; such a write does
// not count.
func (r *Rates) Admit(ctx context.Context, o object.Object) error {
	id, err := identity.Caller(ctx)
	if err != nil {
		return nil //nolint:nilerr // without TLS there are no identities
	}
	if _, limited := r.limits[id.Role]; !limited {
		return nil
	}
	size := 0
	if o != nil {
		size = proto.Size(o)
	}
	return r.admit(id, size)
}

// admit counts a write of an identity.
func (r *Rates) admit(id identity.ID, size int) error {
	now := r.now()
	w := r.writerOf(id, now)
	wait, cancel := take(w.writes, now, 1)
	if wait > 0 {
		return r.refuse(id, "rate", r.limits[id.Role].Writes, "writes", wait)
	}
	// An object that is larger than the burst costs the whole burst.
	if wait, _ := take(w.bytes, now, min(size, w.bytes.Burst())); wait > 0 {
		cancel()
		return r.refuse(id, "bytes", r.limits[id.Role].Bytes>>10, "KiB", wait)
	}
	return nil
}

// take takes n tokens and returns the function that puts them back. If there are too few, it takes none
// and returns the time until there are enough.
func take(limiter *rate.Limiter, now time.Time, n int) (wait time.Duration, cancel func()) {
	reservation := limiter.ReserveN(now, n)
	if wait = reservation.DelayFrom(now); wait > 0 {
		reservation.CancelAt(now)
	}
	return wait, func() { reservation.CancelAt(now) }
}

// refuse returns the error of a write beyond a limit, which is named by the registry's flag.
func (r *Rates) refuse(id identity.ID, limit string, perSecond int, unit string, wait time.Duration) error {
	r.throttle.WithLabelValues(string(id.Role), limit).Inc()
	flag := roles[id.Role] + "-write-" + limit
	return apierr.Throttled(flag, fmt.Sprintf(
		"%s writes too much: the registry's %s allows %d %s per second", id, flag, perSecond, unit), wait)
}

func (r *Rates) writerOf(id identity.ID, now time.Time) *writer {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.writers[id]
	if w == nil {
		r.sweep(now)
		limits := r.limits[id.Role]
		w = &writer{writes: newLimiter(limits.Writes), bytes: newLimiter(limits.Bytes)}
		r.writers[id] = w
	}
	return w
}

// newLimiter returns a limiter that begins with a full burst.
func newLimiter(perSecond int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), perSecond*int(burst/time.Second))
}

// sweep forgets the identities that have their whole burst again, if there are many. It waits until
// there are twice as many as it left, so that its cost is spread over as many new identities.
func (r *Rates) sweep(now time.Time) {
	if len(r.writers) < r.sweepAt {
		return
	}
	for id, w := range r.writers {
		if full(w.writes, now) && full(w.bytes, now) {
			delete(r.writers, id)
		}
	}
	r.sweepAt = max(maxIdle, 2*len(r.writers))
}

func full(limiter *rate.Limiter, now time.Time) bool {
	return limiter.TokensAt(now) >= float64(limiter.Burst())
}
