package health

import (
	"container/heap"
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/services/kit/wake"
	"portolan.dev/services/probe"
)

const (
	// maxRunning is the largest number of attempts that run at once. With a timeout of 5 s it allows 200
	// attempts a second that get no answer.
	maxRunning = 1024
	// firstWithin is the time within which a backend is checked for the first time, if the interval is
	// not shorter.
	firstWithin = 10 * time.Second
)

// Checker checks backends. Its methods are safe for concurrent use.
type Checker struct {
	log     *slog.Logger
	results *prometheus.CounterVec
	wake    wake.Signal
	attempt func(*Settings, netip.AddrPort) probe.Check // Settings.attempt, except in tests

	mu       sync.Mutex
	checks   map[key]*check
	schedule schedule
	running  int
	tasks    sync.WaitGroup
}

// NewChecker returns a checker without groups.
func NewChecker(log *slog.Logger, metrics prometheus.Registerer) *Checker {
	c := &Checker{
		log: log, wake: wake.New(), attempt: (*Settings).attempt, checks: map[key]*check{},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "portolan_edge_health_checks_total", Help: "Health checks of backends, by result (success, failure).",
		}, []string{"result"}),
	}
	metrics.MustRegister(c.results, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_edge_checked_backends", Help: "Addresses that are checked, once for each difference in settings.",
	}, func() float64 { checked, _ := c.count(); return float64(checked) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "portolan_edge_unhealthy_backends", Help: "Checked addresses that are not usable.",
	}, func() float64 { _, unhealthy := c.count(); return float64(unhealthy) }))
	return c
}

func (c *Checker) count() (checked, unhealthy int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, check := range c.checks {
		if !check.verdict.usable {
			unhealthy++
		}
	}
	return len(c.checks), unhealthy
}

// Run makes the checks until ctx is done. It returns when all attempts have ended.
func (c *Checker) Run(ctx context.Context) error {
	defer c.tasks.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-c.wake:
		}
		timer.Reset(c.startDue(ctx))
	}
}

// startDue starts the attempts that are due, and returns the time until the next attempt is due.
func (c *Checker) startDue(ctx context.Context) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for len(c.schedule) > 0 && c.running < maxRunning {
		if wait := c.schedule[0].due.Sub(now); wait > 0 {
			return wait
		}
		c.start(ctx, c.schedule[0], now)
	}
	return time.Hour // there is nothing to do, or the end of an attempt wakes the goroutine
}

// start starts an attempt. The caller holds mu.
func (c *Checker) start(ctx context.Context, check *check, now time.Time) {
	heap.Remove(&c.schedule, check.place)
	check.due = now.Add(varied(check.settings.Interval))
	attemptCtx, cancel := context.WithTimeout(ctx, check.settings.Timeout)
	check.cancel = cancel
	c.running++
	c.tasks.Go(func() {
		err := check.attempt(attemptCtx)
		c.finish(ctx, check, err)
	})
}

// varied returns an interval that is up to a twentieth longer or shorter.
func varied(interval time.Duration) time.Duration {
	return interval - interval/20 + rand.N(interval/10+1) // #nosec G404 -- a pause is no secret
}

// finish counts the result of an attempt and plans the next one. An attempt that the end of ctx has
// interrupted has no result.
func (c *Checker) finish(ctx context.Context, check *check, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	check.cancel()
	check.cancel = nil
	full := c.running == maxRunning
	c.running--
	if len(check.users) > 0 && ctx.Err() == nil { // the check is still wanted
		c.judge(check, err)
		c.plan(check)
	}
	if full {
		c.wake.Send()
	}
}

// judge counts a result and tells the groups if it changes the verdict. The caller holds mu.
func (c *Checker) judge(check *check, err error) {
	result := "success"
	if err != nil {
		result = "failure"
		check.reason = err.Error()
	}
	c.results.WithLabelValues(result).Inc()
	if !check.verdict.add(err == nil, &check.settings) {
		return
	}
	check.since = time.Now()
	c.log.Info("health of a backend changed", "backend", check.target, "usable", check.verdict.usable, "err", err)
	for user := range check.users {
		user.group.changed(user.backend, check.verdict.usable)
	}
}

// plan puts a check into the schedule. The caller holds mu.
func (c *Checker) plan(check *check) {
	heap.Push(&c.schedule, check)
	if check.place == 0 {
		c.wake.Send()
	}
}

// use adds a user to the check of a backend, and returns the check. A new check begins with the state of the
// replaced check. If replaced is nil, it begins as usable. The caller holds mu.
func (c *Checker) use(u user, settings *Settings, replaced *check) *check {
	k := key{target: settings.target(u.backend), settings: *settings}
	found := c.checks[k]
	if found == nil {
		now := time.Now()
		found = &check{key: k, attempt: c.attempt(settings, k.target), users: map[user]bool{}, verdict: verdict{usable: true}, since: now}
		if replaced != nil {
			found.verdict.usable, found.reason, found.since = replaced.verdict.usable, replaced.reason, replaced.since
		}
		found.due = now.Add(rand.N(min(settings.Interval, firstWithin))) // #nosec G404 -- a pause is no secret
		c.checks[k] = found
		c.plan(found)
	}
	found.users[u] = true
	return found
}

// leave removes a user of a check. A check without users ends. The caller holds mu.
func (c *Checker) leave(u user, check *check) {
	delete(check.users, u)
	if len(check.users) > 0 {
		return
	}
	delete(c.checks, check.key)
	if check.cancel != nil {
		check.cancel()
	} else {
		heap.Remove(&c.schedule, check.place)
	}
}
