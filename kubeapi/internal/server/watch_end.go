package server

import (
	"errors"

	"k8s.io/apimachinery/pkg/watch"

	"portolan.dev/kubeapi/internal/failure"
	"portolan.dev/kubeapi/internal/watchcache"
	"portolan.dev/kubeapi/internal/wire"
	"portolan.dev/services/kit/apierr"
)

// end sends the last event of a watch, and returns the reason for its end as the metric has it. If the client
// accepts bookmarks, the last event after a timeout is a bookmark, so that the next watch begins at the same
// revision.
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
	if err == nil && w.writeObject(watch.Error, body) == nil {
		_ = w.flush() // the client may be gone
	}
}
