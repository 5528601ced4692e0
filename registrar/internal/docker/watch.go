package docker

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"portolan.dev/registrar/source"
	"portolan.dev/services/kit/app"
)

// history is how far back the engine is asked for events, and how long signals of containers that are not
// known are kept. It is longer than containers take to stop.
const history = time.Hour

// watcher keeps the view of the engine's containers true and reports it. All its methods run in the
// goroutine of Run.
type watcher struct {
	source  *Source
	report  func(source.Report)
	signals signals

	engine *engine
	inbox  *inbox
	// view are the containers that run, by ID. It stays when the connection is lost, for containers that
	// the engine lists and does not answer about after it.
	view map[string]*container
	// unanswered are the errors of containers that the engine did not answer about, by ID.
	unanswered map[string]error
	complete   bool           // all containers were listed on this connection
	last       *source.Report // the report before; nil: none
	relist     time.Time      // when all containers are listed again
	next       time.Time      // when a workload changes because time has passed; zero: none does
}

// connected watches the engine until the connection is lost, which is the error, or ctx is done.
func (w *watcher) connected(ctx context.Context) error {
	client := newClient(w.source.options.Socket, w.source.pace.answer, w.source.metrics)
	defer client.close()
	engine, err := client.connect(ctx)
	if err != nil {
		return err
	}
	w.engine, w.inbox, w.complete = engine, newInbox(), false
	ctx, cancel := context.WithCancelCause(ctx)
	var readers sync.WaitGroup
	defer readers.Wait()
	defer cancel(nil)
	// The events begin before the list, and those of the last hour come again, so that none between both is
	// lost.
	readers.Go(func() { cancel(engine.events(ctx, time.Now().Add(-history), w.inbox.put)) })
	readers.Go(func() { cancel(w.source.keepAlive(ctx, engine)) })
	return w.follow(ctx)
}

// keepAlive pings the engine until it does not answer. The stream of events says nothing for hours, whether
// the engine is idle or hangs.
func (s *Source) keepAlive(ctx context.Context, e *engine) error {
	for app.Pause(ctx, s.pace.ping) {
		if err := e.ping(ctx); err != nil {
			return err
		}
	}
	return nil
}

// follow lists all containers, then follows the events.
func (w *watcher) follow(ctx context.Context) error {
	relist := time.NewTimer(0)
	defer relist.Stop()
	expiry := time.NewTimer(history) // it is set to the time that matters after each publication
	defer expiry.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-relist.C:
			if err := w.list(ctx); err != nil {
				return err
			}
		case <-w.inbox.arrived:
			if !w.complete {
				continue // the first list is made first, and then takes the news
			}
			if err := w.hear(ctx); err != nil {
				return err
			}
		case <-expiry.C:
			w.publish()
		}
		relist.Reset(time.Until(w.relist))
		if !w.next.IsZero() {
			expiry.Reset(time.Until(w.next))
		}
	}
}

// list asks about all containers and reports them.
func (w *watcher) list(ctx context.Context) error {
	ids, err := w.engine.list(ctx)
	if err != nil {
		return w.cause(ctx, err)
	}
	view, unanswered := map[string]*container{}, map[string]error{}
	for _, id := range ids {
		c, err := w.ask(ctx, id)
		switch {
		case err != nil && !answered(err):
			return w.cause(ctx, err)
		case err != nil:
			unanswered[id] = err
			c = w.view[id]
		}
		if c != nil {
			view[id] = c
		}
	}
	w.view, w.unanswered = view, unanswered
	w.relist = time.Now().Add(w.source.options.Relist)
	w.forget()
	return w.hear(ctx)
}

// hear asks about the containers that events were about, and reports.
func (w *watcher) hear(ctx context.Context) error {
	heard := w.inbox.take()
	w.note(heard.signals)
	if heard.all {
		return w.list(ctx)
	}
	for id := range heard.changed {
		c, err := w.ask(ctx, id)
		delete(w.unanswered, id)
		switch {
		case err != nil && !answered(err):
			return w.cause(ctx, err)
		case err != nil:
			w.unanswered[id] = err
		case c == nil:
			delete(w.view, id)
		default:
			w.view[id] = c
		}
	}
	if soon := time.Now().Add(w.source.pace.retry); len(w.unanswered) > 0 && soon.Before(w.relist) {
		w.relist = soon
	}
	w.complete = true
	w.publish()
	return nil
}

// ask asks about one container. It returns nil if the container does not run. Signals that arrive
// meanwhile are reported at once, because containers that stop must get no new connections.
func (w *watcher) ask(ctx context.Context, id string) (*container, error) {
	c, err := w.engine.inspect(ctx, id)
	if w.note(w.inbox.takeSignals()) && w.complete {
		w.publish()
	}
	if err != nil || c == nil || !c.runs() {
		return nil, err
	}
	return c, nil
}

// answered reports whether an error is about one container only: engines hang with single containers. All
// other errors end the connection.
func answered(err error) bool {
	var one *answerError
	return errors.As(err, &one)
}

// cause returns why the connection was ended, if it was, and err otherwise.
func (w *watcher) cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// note records signals. It reports whether there were any.
func (w *watcher) note(more signals) bool {
	for id, times := range more {
		for signal, at := range times {
			w.signals.note(id, signal, at)
		}
	}
	return len(more) > 0
}

// forget drops old signals of containers that do not run.
func (w *watcher) forget() {
	maps.DeleteFunc(w.signals, func(id string, times map[int]time.Time) bool {
		if w.view[id] != nil {
			return false
		}
		maps.DeleteFunc(times, func(_ int, at time.Time) bool { return time.Since(at) > history })
		return len(times) == 0
	})
}

// publish reports the view, if it differs from the last report.
func (w *watcher) publish() {
	reader := &reader{options: &w.source.options, signals: w.signals, now: time.Now(), lookUp: func(id string) *container { return w.view[id] }}
	var now source.Report
	for _, id := range slices.Sorted(maps.Keys(w.view)) {
		load, wrong := reader.workload(w.view[id])
		if load != nil {
			now.Workloads = append(now.Workloads, *load)
		}
		now.Problems = append(now.Problems, wrong...)
	}
	for _, id := range slices.Sorted(maps.Keys(w.unanswered)) {
		now.Problems = append(now.Problems, w.silence(id))
	}
	w.next = reader.next
	w.source.outage.Over()
	w.send(now)
}

// silence is the problem of a container that the engine does not answer about.
func (w *watcher) silence(id string) source.Problem {
	object := id[:min(len(id), 12)]
	if c := w.view[id]; c != nil {
		object = c.name()
	}
	return source.Problem{Object: object, Reason: reasonNoAnswer, Message: "the engine lists the container and does not answer about it, so it stays as it was: " + w.unanswered[id].Error()}
}

// lost reports that the engine cannot be asked.
func (w *watcher) lost(err error) { w.send(source.Report{Err: err}) }

// send reports, unless nothing has changed since the last report.
func (w *watcher) send(now source.Report) {
	if w.last != nil && reflect.DeepEqual(now, *w.last) {
		return
	}
	w.last = &now
	w.report(now)
}
