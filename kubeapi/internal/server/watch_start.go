package server

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"portolan.dev/kubeapi/internal/watchcache"
)

// start sets the position at which the watch begins. It returns the objects to send first. It returns none if
// the client has them already.
func (w *watcher) start() ([]*watchcache.Event, error) {
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
		return selected(objects, w.match), nil
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

// sendsInitial reports whether the client wants the existing objects first. Without the option
// sendInitialEvents it wants them if it gives no version.
func (w *watcher) sendsInitial() bool {
	if w.options.sendInitial != nil {
		return *w.options.sendInitial
	}
	return w.options.version == "" || w.options.version == "0"
}

func expired(revision uint64) *apierrors.StatusError {
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d", revision))
}
