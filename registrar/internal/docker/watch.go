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

// history is the age of the oldest events that the engine is asked for, and the time for which signals of
// containers that do not run are kept. Containers take less time to stop.
const history = time.Hour

// watcher follows the engine's running containers and reports them. All its methods run in the goroutine of
// Source.Run.
type watcher struct {
	source  *Source
	report  func(source.Report)
	signals signals

	engine *engine
	inbox  *inbox
	// running are the containers that run, by ID. It outlives a connection: if the engine lists a container
	// on the next connection and does not answer about it, its last state here is reported.
	running map[string]*container
	// unanswered are the errors of the containers about which the engine did not answer, by ID.
	unanswered map[string]error
	complete   bool           // all containers were listed on this connection
	last       *source.Report // the last report; nil: none
	relist     time.Time      // when all containers are listed again
	next       time.Time      // see reader.next
}

// connected connects to the engine and follows it until ctx is done or the connection is lost. It returns
// the reason.
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
	// The stream of events begins before the first list, and repeats the last hour, so that no event between
	// the connections or before the list is lost.
	readers.Go(func() { cancel(engine.events(ctx, time.Now().Add(-history), w.inbox.put)) })
	readers.Go(func() { cancel(w.source.keepAlive(ctx, engine)) })
	return w.follow(ctx)
}

// keepAlive pings the engine until ctx is done or a ping fails, and returns the error of the ping. The stream
// of events does not show that an engine hangs, because it is silent for hours while an engine is idle.
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
	expiry := time.NewTimer(history) // it is reset to w.next below
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
				continue // the first list takes the news itself
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

// list lists and inspects all containers, and reports them.
func (w *watcher) list(ctx context.Context) error {
	ids, err := w.engine.list(ctx)
	if err != nil {
		return cause(ctx, err)
	}
	running, unanswered := map[string]*container{}, map[string]error{}
	for _, id := range ids {
		c, err := w.ask(ctx, id)
		switch {
		case err != nil && !answered(err):
			return cause(ctx, err)
		case err != nil:
			unanswered[id] = err
			c = w.running[id]
		}
		if c != nil {
			running[id] = c
		}
	}
	w.running, w.unanswered = running, unanswered
	w.relist = time.Now().Add(w.source.options.Relist)
	w.forget()
	return w.hear(ctx)
}

// hear takes the news, inspects the containers that have changed, and reports.
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
			return cause(ctx, err)
		case err != nil:
			w.unanswered[id] = err
		case c == nil:
			delete(w.running, id)
		default:
			w.running[id] = c
		}
	}
	if soon := time.Now().Add(w.source.pace.retry); len(w.unanswered) > 0 && soon.Before(w.relist) {
		w.relist = soon
	}
	w.complete = true
	w.publish()
	return nil
}

// ask inspects a container. It returns nil if the container does not run. It reports signals that arrive
// while the engine answers, because a container that stops must get no new connections.
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

// answered reports whether an error is about one container only, because an engine can hang with single
// containers. All other errors end the connection.
func answered(err error) bool {
	var one *answerError
	return errors.As(err, &one)
}

// cause returns the reason why ctx was canceled, or err if it was not.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// note records signals, and reports whether there are any.
func (w *watcher) note(more signals) bool {
	for id, times := range more {
		for signal, at := range times {
			w.signals.note(id, signal, at)
		}
	}
	return len(more) > 0
}

// forget removes the signals of containers that do not run, if they are older than history.
func (w *watcher) forget() {
	maps.DeleteFunc(w.signals, func(id string, times map[int]time.Time) bool {
		if w.running[id] != nil {
			return false
		}
		maps.DeleteFunc(times, func(_ int, at time.Time) bool { return time.Since(at) > history })
		return len(times) == 0
	})
}

// publish reports the running containers, if the report differs from the last one.
func (w *watcher) publish() {
	reader := &reader{options: &w.source.options, signals: w.signals, now: time.Now(), lookUp: func(id string) *container { return w.running[id] }}
	var now source.Report
	for _, id := range slices.Sorted(maps.Keys(w.running)) {
		load, wrong := reader.workload(w.running[id])
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

// silence returns the problem of a container about which the engine does not answer.
func (w *watcher) silence(id string) source.Problem {
	object := id[:min(len(id), 12)]
	if c := w.running[id]; c != nil {
		object = c.name()
	}
	return source.Problem{Object: object, Reason: reasonNoAnswer, Message: "the engine lists the container and does not answer about it, so it stays as it was: " + w.unanswered[id].Error()}
}

// lost reports that the connection to the engine is lost.
func (w *watcher) lost(err error) { w.send(source.Report{Err: err}) }

// send sends a report unless it equals the last one.
func (w *watcher) send(now source.Report) {
	if w.last != nil && reflect.DeepEqual(now, *w.last) {
		return
	}
	w.last = &now
	w.report(now)
}
