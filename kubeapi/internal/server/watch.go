package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"portolan.dev/kubeapi/internal/convert"
	"portolan.dev/kubeapi/internal/failure"
	"portolan.dev/kubeapi/internal/watchcache"
	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/access"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

const (
	// shortestDefault is the shortest duration of a watch whose client sets no timeout. The server chooses a
	// random duration between this and twice as long, so that clients do not all reconnect at once.
	shortestDefault = 30 * time.Minute
	// bookmarkEvery is the time between two bookmarks of a watch.
	bookmarkEvery = time.Minute
	// initialEventsEnd is the annotation of the bookmark after the initial objects. Clients that asked for
	// them wait for it.
	initialEventsEnd = metav1.InitialEventsAnnotationKey
)

// watcher is a watch under way.
type watcher struct {
	*request
	options listOptions
	kind    string // "": a kind that Portolan does not have
	match   func(object.Object) bool
	format  wire.Format
	encoder objectEncoder
	at      watchcache.Position
}

// watch answers with the changes of a resource, until the client leaves or the time is over.
func (req *request) watch() error {
	w, err := req.newWatcher()
	if err != nil {
		return err
	}
	release, err := req.server.watches.acquire(req.ctx)
	if err != nil {
		return err
	}
	defer release()
	initial, err := w.start()
	if err != nil {
		return err
	}
	life := w.options.timeout
	if life == 0 {
		life = shortestDefault + rand.N(shortestDefault) // #nosec G404 -- a pause is no secret
	}
	ctx, cancel := context.WithTimeoutCause(req.ctx, life, errTimeout)
	defer cancel()
	w.begin()
	err = w.sendInitial(initial)
	if err == nil {
		err = w.follow(ctx)
	}
	req.server.metrics.ended.WithLabelValues(w.end(err)).Inc()
	return nil
}

var errTimeout = errors.New("the time of the watch is over")

// newWatcher checks the request of a watch and its permission.
func (req *request) newWatcher() (*watcher, error) {
	format, err := wire.Negotiate(req.r, wire.Table, wire.Partial)
	if err != nil {
		return nil, err
	}
	rows, err := req.rows()
	if err != nil {
		return nil, err
	}
	options, err := parseListOptions(req.query, true)
	if err != nil {
		return nil, err
	}
	w := &watcher{request: req, options: options, format: format.Streamed(), match: func(object.Object) bool { return false }}
	w.encoder = objectEncoder{format: w.format, codec: req.resource.Codec, rows: rows}
	if req.resource.Codec == nil {
		return w, nil
	}
	w.kind = req.resource.Codec.Kind.Name
	w.match, err = req.matcher(options)
	return w, err
}

// matcher returns a function that reports whether the client watches an object: it may read it, and the
// selectors of the request select it.
func (req *request) matcher(options listOptions) (func(object.Object) bool, error) {
	kind := req.resource.Codec.Kind
	namespace, err := req.authorizeWatch(kind)
	if err != nil {
		return nil, err
	}
	labels, err := spec.ParseSelector(options.labels)
	if err != nil {
		return nil, badRequest("unable to parse requirement: %v", err)
	}
	fields, err := kind.ParseFieldSelector(options.fields)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	readable := access.ReadLimitOf(req.ctx)
	return func(o object.Object) bool {
		return (namespace == "" || o.GetMetadata().GetNamespace() == namespace) && readable.Allows(o) &&
			(labels.Empty() || labels.Matches(o.GetMetadata().GetLabels())) && fields.Matches(o)
	}, nil
}

// authorizeWatch checks that the client may watch a kind, as the registry does for its own watches. It
// returns the namespace that the client watches; empty: all.
func (req *request) authorizeWatch(kind *kinds.Kind) (namespace string, err error) {
	if _, err := identity.Caller(req.ctx); err != nil {
		return req.namespace, nil //nolint:nilerr // without TLS there are no roles
	}
	method := fmt.Sprintf("/portolan.registry.v1.%s/%s", kind.ServiceName(), kind.Method(kinds.Watch))
	if err := req.server.methods.Authorize(req.ctx, method); err != nil {
		return "", err
	}
	return access.ListNamespace(req.ctx, req.namespace)
}

// start finds the position at which the watch begins. It returns the objects that the client is to get
// first, which are none if it knows them.
func (w *watcher) start() ([]object.Object, error) {
	o, s := &w.options, w.server
	if w.sendsInitial() {
		revision, err := w.readRevision(o.version, o.revision)
		if err == nil {
			err = s.awaitRevision(w.ctx, revision)
		}
		if err != nil {
			return nil, err
		}
		objects, at := s.cfg.Cache.List(w.kind)
		w.at = at
		return w.selected(objects), nil
	}
	revision := o.revision
	if o.version == "" || o.version == "0" {
		var err error
		if revision, err = s.cfg.Registry.Head(w.ctx); err != nil {
			return nil, err
		}
	}
	if err := s.awaitRevision(w.ctx, revision); err != nil {
		return nil, err
	}
	w.at = s.cfg.Cache.At(revision)
	if _, _, _, err := s.cfg.Cache.Since(w.kind, w.at); err != nil {
		return nil, expired(w.at.Revision)
	}
	return nil, nil
}

// sendsInitial reports whether the client wants the existing objects first. A client that says nothing
// wants them if it has no version.
func (w *watcher) sendsInitial() bool {
	if w.options.sendInitial != nil {
		return *w.options.sendInitial
	}
	return w.options.version == "" || w.options.version == "0"
}

// selected returns the objects that the client watches, in the order of lists.
func (w *watcher) selected(objects []object.Object) []object.Object {
	found := slices.DeleteFunc(objects, func(o object.Object) bool { return !w.match(o) })
	slices.SortFunc(found, func(a, b object.Object) int { return object.Compare(object.KeyOf(a), object.KeyOf(b)) })
	return found
}

func expired(revision uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", revision))
}

// begin sends the headers of the answer.
func (w *watcher) begin() {
	header := w.w.Header()
	header.Set("Content-Type", w.format.ContentType(true))
	header.Set("Cache-Control", "no-cache, private")
	header.Set("X-Content-Type-Options", "nosniff")
	w.extendDeadline()
	w.code = http.StatusOK
	w.limitUnread()
	w.w.WriteHeader(http.StatusOK)
	_ = w.flush()                                                    // a client that is gone is noticed by the first event
	_ = http.NewResponseController(w.w).SetReadDeadline(time.Time{}) // a pipe of a test has none
}

// flush sends what was written, and waits for nothing more.
func (w *watcher) flush() error {
	defer w.clearDeadline()
	return http.NewResponseController(w.w).Flush()
}

// sendInitial sends the existing objects, and the bookmark after them if the client asked for it.
func (w *watcher) sendInitial(objects []object.Object) error {
	for _, o := range objects {
		body, err := w.encoder.encode(o, 0)
		if err == nil {
			err = w.write(watch.Added, body)
		}
		if err != nil {
			return err
		}
	}
	if w.options.sendInitial != nil && *w.options.sendInitial && w.options.bookmarks {
		return w.bookmark(map[string]string{initialEventsEnd: "true"})
	}
	return w.flush()
}

// write sends one event.
func (w *watcher) write(eventType watch.EventType, body []byte) error {
	frame, err := w.format.Frame(string(eventType), body)
	if err != nil {
		return err
	}
	w.extendDeadline()
	if _, err = w.w.Write(frame); err == nil {
		w.server.metrics.events.Inc()
	}
	return err
}

// follow sends the changes until ctx is done. It returns the reason for the end.
func (w *watcher) follow(ctx context.Context) error {
	denied := make(chan error, 1)
	defer w.onDenied(func(err error) { denied <- err })()
	bookmarks := time.NewTicker(bookmarkEvery)
	defer bookmarks.Stop()
	marked := w.at.Revision
	for {
		events, next, changed, err := w.server.cfg.Cache.Since(w.kind, w.at)
		if err != nil {
			return err
		}
		if err := w.sendEvents(events); err != nil {
			return err
		}
		w.at = next
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-denied:
			return apierr.Unauthenticated(err.Error())
		case <-w.server.stopping:
			return errTimeout // the client watches on at another server
		case <-changed:
		case <-bookmarks.C:
			if w.options.bookmarks && w.at.Revision > marked {
				marked = w.at.Revision
				if err := w.bookmark(nil); err != nil {
					return err
				}
			}
		}
	}
}

// sendEvents sends the changes that concern the client. An object that begins to match the selectors is
// new to the client, and one that no longer does is deleted.
func (w *watcher) sendEvents(events []*watchcache.Event) error {
	sent := false
	for _, e := range events {
		was, is := e.Old != nil && w.match(e.Old), e.New != nil && w.match(e.New)
		var eventType watch.EventType
		var body []byte
		var err error
		switch {
		case is && was:
			eventType = watch.Modified
		case is:
			eventType = watch.Added
		case was:
			eventType = watch.Deleted
		default:
			continue
		}
		if eventType == watch.Deleted {
			body, err = e.Encoded("old "+w.encoder.name(), func() ([]byte, error) { return w.encoder.encode(e.Old, e.Revision) })
		} else {
			body, err = e.Encoded("new "+w.encoder.name(), func() ([]byte, error) { return w.encoder.encode(e.New, 0) })
		}
		if err == nil {
			err = w.write(eventType, body)
		}
		if err != nil {
			return err
		}
		sent = true
	}
	if !sent {
		return nil
	}
	return w.flush()
}

// bookmark tells the client that it has everything up to the position.
func (w *watcher) bookmark(annotations map[string]string) error {
	body, err := w.encoder.bookmark(w.resource, w.at.Revision, annotations)
	if err == nil {
		err = w.write(watch.Bookmark, body)
	}
	if err != nil {
		return err
	}
	return w.flush()
}

// end sends the last event of a watch, and returns the reason for its end. A client that watches for
// bookmarks gets one, so that its next watch begins where this one ended.
func (w *watcher) end(err error) string {
	switch {
	case errors.Is(err, errTimeout):
		if w.options.bookmarks {
			_ = w.bookmark(nil) // the client may be gone
		}
		return "timeout"
	case errors.Is(err, watchcache.ErrExpired):
		w.sendError(expired(w.at.Revision))
		return "expired"
	case apierr.ReasonOf(err) == apierr.ReasonUnauthenticated:
		w.sendError(err)
		return "refused"
	}
	return "client"
}

// sendError sends an error as the last event.
func (w *watcher) sendError(err error) {
	status := failure.StatusOf(err, w.resource, "")
	format := w.format
	format.As = wire.Untransformed
	body, err := format.Encode(status)
	if err == nil && w.write(watch.Error, body) == nil {
		_ = w.flush() // the client may be gone
	}
}

// onDenied calls f when the client's certificate expires or is revoked.
func (w *watcher) onDenied(f func(error)) (stop func()) {
	if w.server.cfg.OnDenied == nil {
		return func() {}
	}
	return w.server.cfg.OnDenied(w.r, f)
}

// objectEncoder encodes the objects of a watch.
type objectEncoder struct {
	format wire.Format
	codec  *convert.Codec
	rows   wire.Rows
}

// name tells encodings of an object apart.
func (e *objectEncoder) name() string {
	f := &e.format
	return e.codec.GroupVersionKind.Group + " " + f.MediaType + " " + string(f.As) + f.Version + string(e.rows)
}

// encode returns an object in the format of the watch. revision is that of its deletion; 0: it exists.
func (e *objectEncoder) encode(o object.Object, revision uint64) ([]byte, error) {
	converted := e.codec.Write(o)
	if revision != 0 {
		converted.SetResourceVersion(strconv.FormatUint(revision, 10))
	}
	out, err := e.format.Object(e.codec.GroupVersionKind, converted, e.rows)
	if err != nil {
		return nil, err
	}
	return e.format.Encode(out)
}
