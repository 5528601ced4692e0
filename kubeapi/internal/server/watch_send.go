package server

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"portolan.dev/kubeapi/internal/watchcache"
	"portolan.dev/services/kit/apierr"
)

// open sends the headers of the answer.
func (w *watcher) open() {
	w.w.Header().Set("Cache-Control", "no-cache, private")
	w.deadline = newWatchDeadline(w.w, w.server.cfg.SendTimeout)
	w.deadline.extend()
	w.begin(http.StatusOK, w.format.ContentType(true))
	_ = w.deadline.controller.Flush()                      // a client that is gone is noticed by the first event
	_ = w.deadline.controller.SetReadDeadline(time.Time{}) // a pipe of a test has none
}

// sendInitial sends the existing objects, and the bookmark after them if the client asked for it.
func (w *watcher) sendInitial(objects []*watchcache.Event) error {
	for _, e := range objects {
		frame, err := w.encoder.frame(e, watch.Added)
		if err == nil {
			err = w.writeFrame(frame)
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

// writeObject adds the frame of an encoded object to the buffer.
func (w *watcher) writeObject(eventType watch.EventType, body []byte) error {
	frame, err := w.format.Frame(string(eventType), body)
	if err != nil {
		return err
	}
	return w.writeFrame(frame)
}

// writeBytes is the size in bytes of the buffer that collects the frames of events for one write. It is the size
// of a frame of HTTP/2, because each of those waits for the connection. Larger events are written without the
// buffer.
const writeBytes = 16 << 10

// writeBuffers holds the buffers. A watch has one only while it sends, because thousands of watches wait.
var writeBuffers = sync.Pool{New: func() any { return new([writeBytes]byte) }}

// writeFrame adds a frame to the buffer, and writes the buffer first if the frame does not fit.
func (w *watcher) writeFrame(frame []byte) error {
	w.server.metrics.events.Inc()
	if w.used+len(frame) > writeBytes {
		if err := w.writeBuffer(); err != nil {
			return err
		}
	}
	if len(frame) > writeBytes {
		return w.write(frame)
	}
	if w.buffer == nil {
		w.buffer, _ = writeBuffers.Get().(*[writeBytes]byte)
	}
	w.used += copy(w.buffer[w.used:], frame)
	return nil
}

// writeBuffer writes the content of the buffer, and returns the buffer to the pool.
func (w *watcher) writeBuffer() error {
	if w.buffer == nil {
		return nil
	}
	err := w.write(w.buffer[:w.used])
	writeBuffers.Put(w.buffer)
	w.buffer, w.used = nil, 0
	return err
}

func (w *watcher) write(frames []byte) error {
	w.deadline.extend()
	_, err := w.w.Write(frames)
	return err
}

// flush writes the buffer, and sends all written bytes to the client.
func (w *watcher) flush() error {
	if err := w.writeBuffer(); err != nil {
		return err
	}
	return w.deadline.controller.Flush()
}

// follow sends the changes until the watch ends. It returns the reason for the end.
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
			return errTimeout // the client continues at another server
		case <-changed:
		case <-w.deadline.quiet.C:
			w.deadline.clear()
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

// sendEvents sends the changes of objects that match. An object that begins to match is ADDED for the client,
// and an object that no longer matches is DELETED.
func (w *watcher) sendEvents(events []*watchcache.Event) error {
	sent := false
	for _, e := range events {
		was, is := e.Old != nil && w.match(e.Old), e.New != nil && w.match(e.New)
		var eventType watch.EventType
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
		frame, err := w.encoder.frame(e, eventType)
		if err == nil {
			err = w.writeFrame(frame)
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

// bookmark sends a bookmark: the client has all changes up to the watch's revision.
func (w *watcher) bookmark(annotations map[string]string) error {
	body, err := w.encoder.bookmark(w.resource, w.at.Revision, annotations)
	if err == nil {
		err = w.writeObject(watch.Bookmark, body)
	}
	if err != nil {
		return err
	}
	return w.flush()
}
