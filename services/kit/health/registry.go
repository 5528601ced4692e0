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

// New returns a registry without checks, which is ready.
func New(log *slog.Logger) *Registry {
	return &Registry{log: log, checks: map[string]error{}, watchers: map[int]func(error){}}
}

// Set reports the state of one check; nil means well. A part that must work
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
			level = slog.LevelInfo // starting up is no incident
		}
		r.log.Log(context.Background(), level, "not ready", "check", check, "err", now)
	case now == nil && known && before != nil:
		r.log.Info("ready", "check", check)
	}
}

// Ready returns nil if every check is well, otherwise all that are not, in the
// order of their names.
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

// Watch calls fn at once and after every change with what Ready returns, one
// call at a time, until stop is called. fn must not call the registry.
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
