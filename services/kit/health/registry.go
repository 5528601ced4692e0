package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
)

// Registry holds the named checks of one daemon. It is safe for concurrent use.
type Registry struct {
	log *slog.Logger

	mu       sync.Mutex
	checks   map[string]error
	watchers map[int]func(error)
	nextID   int
}

// New returns a registry without checks. Such a registry is ready.
func New(log *slog.Logger) *Registry {
	return &Registry{log: log, checks: map[string]error{}, watchers: map[int]func(error){}}
}

// Set sets the state of a check. A nil error means that the part works. A part that must work
// before the daemon is ready sets an error when it is built.
func (r *Registry) Set(check string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.checks[check]
	r.checks[check] = err
	r.logTransition(check, known, before, err)
	if known && text(before) == text(err) {
		return
	}
	ready := r.readyLocked()
	for _, fn := range r.watchers {
		fn(ready)
	}
}

func (r *Registry) logTransition(check string, known bool, before, now error) {
	switch {
	case now != nil && (!known || before == nil):
		level := slog.LevelWarn
		if !known {
			level = slog.LevelInfo // not ready is normal at the start
		}
		r.log.Log(context.Background(), level, "not ready", "check", check, "err", now)
	case now == nil && known && before != nil:
		r.log.Info("ready", "check", check)
	}
}

// Ready returns nil if no check has an error. Otherwise it returns all their errors, sorted by the
// name of the check.
func (r *Registry) Ready() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.readyLocked()
}

func (r *Registry) readyLocked() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r.checks)) {
		if err := r.checks[name]; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// Watch calls fn with the result of Ready, immediately and after every change, until stop is
// called. The calls do not overlap. fn must not call the registry.
func (r *Registry) Watch(fn func(ready error)) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.nextID
	r.nextID++
	r.watchers[id] = fn
	fn(r.readyLocked())
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers, id)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
