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
	warnings map[string]error
	notes    map[string]string
	watchers map[int]func(error)
	nextID   int
}

// New returns a registry without checks. Such a registry is ready.
func New(log *slog.Logger) *Registry {
	return &Registry{log: log, checks: map[string]error{}, warnings: map[string]error{}, notes: map[string]string{}, watchers: map[int]func(error){}}
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

// Warn sets the warning of a part: a fault that an operator should see, but that does not make the
// daemon unready, because taking it out of service would be worse. A nil error ends the warning.
func (r *Registry) Warn(part string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.warnings, part)
		return
	}
	r.warnings[part] = err
}

// Warnings returns the warnings of all parts, sorted by the name of the part.
func (r *Registry) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, part := range slices.Sorted(maps.Keys(r.warnings)) {
		all = append(all, fmt.Sprintf("%s: %v", part, r.warnings[part]))
	}
	return all
}

// Note sets the note of a part: a state that is no fault, such as the part of the work that this
// replica does. An empty text removes it.
func (r *Registry) Note(part, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if text == "" {
		delete(r.notes, part)
		return
	}
	r.notes[part] = text
}

// Notes returns the notes of all parts, sorted by the name of the part.
func (r *Registry) Notes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, part := range slices.Sorted(maps.Keys(r.notes)) {
		all = append(all, part+": "+r.notes[part])
	}
	return all
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
