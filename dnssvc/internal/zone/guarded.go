package zone

import (
	"errors"
	"time"

	"portolan.dev/services/kit/guard"
)

// Steps that can panic apart.
const (
	stepObject = "object" // takes an object into the table
	stepNames  = "names"  // publishes the names of a service and its slices
)

// guarded does work for an object that edits the tree. If the work panics, its edits are taken back. The error is
// that of work that did not panic.
func (t *Table) guarded(e *edit, step string, about guard.Object, work func() error) (panicked bool, err error) {
	e.begin()
	err = t.cfg.Guard.Do(step, about, work)
	if _, panicked = errors.AsType[*guard.Panic](err); panicked {
		e.rollback()
		return true, nil
	}
	return false, err
}

// publishNames replaces the names of a service, which are those of before. If that panics, the names stay as they
// are, and are replaced after the next change of the service, or after a pause.
func (t *Table) publishNames(e *edit, k key, before *service) {
	about := guard.Object{Kind: "Service", Namespace: k.namespace, Name: k.name}
	panicked, _ := t.guarded(e, stepNames, about, func() error {
		t.publish(e, t.cfg.render(before), t.cfg.render(t.services[k]))
		return nil
	})
	if panicked {
		t.failed.published[k] = before
	} else {
		delete(t.failed.published, k)
	}
}

// retryNames is the pause before names that could not be published are tried again. A deleted service does not
// change any more, so its names would stay otherwise.
const retryNames = time.Minute

// failedNames are the services with names that could not be published.
type failedNames struct {
	published map[key]*service // as they are published; nil: not at all
	retryAt   time.Time        // time of the next retry of all
}

// publishedOr returns the version of a service with the published names. now is its present version.
func (f *failedNames) publishedOr(k key, now *service) *service {
	if published, failed := f.published[k]; failed {
		return published
	}
	return now
}

// addDue adds the services to touched that are to be tried again now.
func (f *failedNames) addDue(touched map[key]*service, now time.Time) {
	if len(f.published) == 0 || now.Before(f.retryAt) {
		return
	}
	f.retryAt = now.Add(retryNames)
	for k, published := range f.published {
		touched[k] = published
	}
}
