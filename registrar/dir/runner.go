package dir

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"portolan.dev/services/applyset"
	"portolan.dev/services/client"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/queue"
)

const (
	// longest is the longest time for which a series of changes delays an attempt.
	longest = 5 * time.Second
	// retryMin is the pause after the first failed attempt. It doubles up to the interval.
	retryMin = time.Second
	// attemptTimeout limits an attempt, so that a registry that does not answer is tried again.
	attemptTimeout = 5 * time.Minute
)

// Options are the options of a Runner.
type Options struct {
	// Path is the folder. It may be a link, and need not exist yet.
	Path string
	// Selector is the label selector of the objects that are pruned. All manifests of the folder must
	// match it. Empty: nothing is pruned.
	Selector string
	// Namespace is the namespace of manifests that name none. Objects in it are pruned, too. Empty: such
	// manifests are in "default".
	Namespace string
	// Everywhere prunes in all namespaces instead of the namespaces of the manifests. It needs a certificate
	// that is not bound to a namespace.
	Everywhere bool
	// Interval is the time after which the folder is applied even if nothing has changed. Default: 1m.
	Interval time.Duration
	// Quiet is the time without a change of the folder after which it is read. Default: 500ms.
	Quiet time.Duration
	// Registry is a connection to the registry. The permissions of its identity apply.
	Registry grpc.ClientConnInterface
	Log      *slog.Logger
	Metrics  prometheus.Registerer
	// Attempted is called after each attempt with its error, or nil. It may be nil.
	Attempted func(error)
}

// Runner applies a folder. Make it with New, then call Run or Once.
type Runner struct {
	options  Options
	registry *client.Client
	queue    *queue.Queue[struct{}] // one key: the folder
	metrics  *metrics

	mu     sync.Mutex
	status Status // guarded by mu
}

// New returns a runner.
func New(o Options) *Runner {
	o.Interval = cmp.Or(o.Interval, time.Minute)
	o.Quiet = cmp.Or(o.Quiet, 500*time.Millisecond)
	o.Log = o.Log.With("folder", o.Path)
	return &Runner{
		options: o, registry: client.New(o.Registry), metrics: newMetrics(o.Metrics),
		queue:  queue.New[struct{}](queue.Options{Quiet: o.Quiet, Longest: longest, RetryMin: min(retryMin, o.Interval), RetryMax: o.Interval}),
		status: Status{Path: o.Path, Selector: o.Selector},
	}
}

// Status returns the state after the last attempt.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	status := r.status
	status.Problems, status.Warnings = slices.Clone(status.Problems), slices.Clone(status.Warnings)
	return status
}

// Run applies the folder until ctx is done: at once, after each change, and periodically. It returns nil.
func (r *Runner) Run(ctx context.Context) error {
	watch := newWatch(r.options.Path, r.options.Log)
	defer watch.close()
	go watch.forward(ctx, func() { r.queue.Add(struct{}{}, 1) })
	r.queue.Add(struct{}{}, 1)
	for {
		due, ok := r.queue.Get(ctx)
		if !ok {
			return nil
		}
		watch.follow() // before the files are read, so that no change is missed
		r.queue.Done(due.Key, r.attempt(ctx), r.options.Interval)
	}
}

// Once applies the folder once. The error lists the objects that could not be applied or pruned.
func (r *Runner) Once(ctx context.Context) error { return r.attempt(ctx) }

// attempt reads and applies the folder, and records the result.
func (r *Runner) attempt(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	status := r.apply(limited)
	if ctx.Err() != nil {
		return ctx.Err() // the program ends; this is not a failure of the folder
	}
	r.record(status)
	err := status.err()
	if r.options.Attempted != nil {
		r.options.Attempted(err)
	}
	return err
}

// apply reads the folder, applies its objects, prunes, and returns the result.
func (r *Runner) apply(ctx context.Context) Status {
	c := r.read()
	set := r.set(&c)
	a := attempt{content: c, status: Status{Revision: c.revision, Files: c.files, Objects: len(c.objects), Problems: c.problems, Warnings: c.warnings}}
	run := &applyset.Run{Registry: r.registry, Report: a.report}
	if len(a.status.Problems) == 0 {
		run.Apply(ctx, c.objects)
	}
	if len(a.status.Problems) == 0 && set != nil {
		stale, err := set.Stale(ctx, r.registry)
		if err != nil {
			a.status.Problems = append(a.status.Problems, Problem{Message: apierr.Describe(err)})
		}
		run.Prune(ctx, set, stale)
	}
	return a.status
}

// attempt collects the results of the objects.
type attempt struct {
	content
	status Status
}

// report counts the result of an object.
func (a *attempt) report(result applyset.Result) {
	name, file := object.KeyOf(result.Object).String(), a.fileOf[result.Object]
	if result.Err != nil {
		a.status.Problems = append(a.status.Problems, Problem{File: file, Object: name, Message: apierr.Describe(result.Err)})
		return
	}
	for _, warning := range result.Warnings {
		a.status.Warnings = append(a.status.Warnings, Problem{File: file, Object: name, Message: warning})
	}
	switch result.Action {
	case applyset.Created:
		a.status.Created++
	case applyset.Configured:
		a.status.Configured++
	case applyset.Unchanged:
		a.status.Unchanged++
	case applyset.Pruned:
		a.status.Pruned++
	}
}

// record stores the status of an attempt, and logs new problems, new warnings and changes.
func (r *Runner) record(status Status) {
	r.mu.Lock()
	before := r.status
	status.Path, status.Selector, status.Attempted = before.Path, before.Selector, time.Now()
	status.Applied, status.AppliedRevision = before.Applied, before.AppliedRevision
	if len(status.Problems) == 0 {
		status.Applied, status.AppliedRevision = status.Attempted, status.Revision
	}
	r.status = status
	r.mu.Unlock()

	r.metrics.record(&status)
	for _, warning := range status.Warnings {
		if !slices.Contains(before.Warnings, warning) {
			r.options.Log.Warn("manifest", "warning", warning.Error())
		}
	}
	for _, problem := range status.Problems {
		if !slices.Contains(before.Problems, problem) {
			r.options.Log.Error("manifest not applied", "problem", problem.Error())
		}
	}
	if status.Created+status.Configured+status.Pruned > 0 || len(before.Problems) > 0 && len(status.Problems) == 0 || before.Applied.IsZero() && !status.Applied.IsZero() {
		r.options.Log.Info("folder applied", "revision", status.Revision, "created", status.Created, "configured", status.Configured,
			"unchanged", status.Unchanged, "pruned", status.Pruned, "problems", len(status.Problems))
	}
}
