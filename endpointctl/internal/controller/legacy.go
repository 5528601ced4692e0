package controller

import (
	"cmp"
	"context"
	"sync"
	"time"

	"portolan.dev/services/object"

	"portolan.dev/endpointctl/internal/packing"
)

// legacyPace has the time of the last write of each service's Endpoints, so that it is not written too
// often. It is safe for concurrent use.
type legacyPace struct {
	interval time.Duration

	mu   sync.Mutex
	last map[object.Name]legacyWrite // guarded by mu
}

// legacyWrite is the last write of an Endpoints.
type legacyWrite struct {
	at time.Time
	// trigger is the time of the first change since then, as in the annotation. It is empty if there
	// is none.
	trigger string
}

// wait returns the time after which the Endpoints may be written, or 0. It keeps the trigger for
// that write.
func (p *legacyPace) wait(key object.Name, trigger string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, written := p.last[key]
	left := p.interval - time.Since(last.at)
	if !written || left <= 0 {
		return 0
	}
	last.trigger = cmp.Or(last.trigger, trigger)
	p.last[key] = last
	return left
}

// trigger returns the trigger of the first change since the last write.
func (p *legacyPace) trigger(key object.Name, trigger string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return cmp.Or(p.last[key].trigger, trigger)
}

// written records a write.
func (p *legacyPace) written(key object.Name) {
	if p.interval <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[key] = legacyWrite{at: time.Now()}
}

func (p *legacyPace) forget(key object.Name) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.last, key)
}

func (p *legacyPace) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.last)
}

// legacyWrites returns the write of the Endpoints of a service with a selector, if one is needed now.
// It keeps an Endpoints of that name without the controller's label, and reports an event. If the interval
// since the last write is not over, the service is synced again later.
func (t *task) legacyWrites(ctx context.Context, verdicts []*packing.PodVerdict, trigger string) []write {
	existing := t.objects.Endpoints
	if existing != nil && !packing.IsManaged(existing) {
		t.c.report(ctx, t.objects.Service, endpointsKeptReason, "the service has a selector, so the Endpoints that somebody wrote is not used; "+
			"delete it, and the controller writes one, or remove the selector, if the addresses are to be those that somebody wrote")
		return nil
	}
	t.c.events.Forget(eventKey{t.key, endpointsKeptReason})
	if existing != nil {
		if t.again = t.c.legacy.wait(t.key, trigger); t.again > 0 {
			return nil
		}
	}
	switch want := packing.EndpointsFromPods(t.objects.Service, verdicts, t.c.legacy.trigger(t.key, trigger), existing); existing {
	case want:
		t.c.legacy.forget(t.key)
		return nil
	case nil:
		return []write{{opCreate, want}}
	default:
		return []write{{opUpdate, want}}
	}
}

// managedLegacy returns the deletion of the Endpoints of a service, if the controller made it.
func (t *task) managedLegacy() []write {
	if !packing.IsManaged(t.objects.Endpoints) {
		return nil
	}
	return []write{{opDelete, t.objects.Endpoints}}
}
