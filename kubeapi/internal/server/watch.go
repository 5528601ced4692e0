package server

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"portolan.dev/kubeapi/internal/watchcache"
	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/access"
	"portolan.dev/services/kinds"
	"portolan.dev/services/kit/identity"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

const (
	// shortestDefault is the shortest duration of a watch without a timeout of its client. The server chooses
	// a random duration between this and twice as long, so that clients do not all reconnect at once.
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
	kind    string // empty if Portolan lacks the kind
	match   func(object.Object) bool
	format  wire.Format
	encoder objectEncoder
	at      watchcache.Position

	deadline *watchDeadline
	buffer   *[writeBytes]byte // frames to write; nil if there are none
	used     int               // bytes of the buffer
}

// watch answers with the changes of a resource until the client disconnects or the watch times out.
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
	w.open()
	defer w.deadline.stop()
	err = w.sendInitial(initial)
	if err == nil {
		err = w.follow(ctx)
	}
	req.server.metrics.ended.WithLabelValues(w.end(err)).Inc()
	return nil
}

var errTimeout = errors.New("the time of the watch is over")

// newWatcher checks the request of a watch and the client's permission.
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
	w.encoder = newObjectEncoder(w.format, req.resource.Codec, rows)
	if req.resource.Codec == nil {
		return w, nil
	}
	w.kind = req.resource.Codec.Kind.Name
	w.match, err = req.matcher(options, kinds.Watch)
	return w, err
}

// matcher returns a function that reports whether the client gets an object of the cache: the client may
// read the object by the verb, and the selectors of the request select it.
func (req *request) matcher(options listOptions, verb kinds.Verb) (func(object.Object) bool, error) {
	kind := req.resource.Codec.Kind
	namespace, err := req.authorizeCached(kind, verb)
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

// authorizeCached returns an error if the client may not list or watch a kind, by the same rules as the
// registry. It returns the namespace that the client may read, which is empty for all.
func (req *request) authorizeCached(kind *kinds.Kind, verb kinds.Verb) (namespace string, err error) {
	if _, err := identity.Caller(req.ctx); err != nil {
		return req.namespace, nil //nolint:nilerr // without TLS there are no roles
	}
	if err := req.server.methods.Authorize(req.ctx, kind.FullMethod(verb)); err != nil {
		return "", err
	}
	return access.ListNamespace(req.ctx, req.namespace)
}

// onDenied calls f when the client's certificate or token expires or is revoked.
func (w *watcher) onDenied(f func(error)) (stop func()) {
	if w.client.OnDenied == nil {
		return func() {}
	}
	return w.client.OnDenied(f)
}
