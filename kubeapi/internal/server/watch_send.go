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

// writeObject adds the frame of an encoded object to what is written next.
func (w *watcher) writeObject(eventType watch.EventType, body []byte) error {
	frame, err := w.format.Frame(string(eventType), body)
	if err != nil {
		return err
	}
	return w.writeFrame(frame)
}

// writeBytes is the size of the buffer in which frames are written together, in bytes: as much as a frame
// of HTTP/2 has, since each of them waits for the connection. Frames that are larger are written alone.
const writeBytes = 16 << 10

// writeBuffers holds the buffers. A watch has one only while it sends, because thousands of watches wait.
var writeBuffers = sync.Pool{New: func() any { return new([writeBytes]byte) }}

// writeFrame adds a frame to what is written next.
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

// writeBuffer writes what is in the buffer, and gives it back.
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

// flush sends what was written.
func (w *watcher) flush() error {
	if err := w.writeBuffer(); err != nil {
		return err
	}
	return w.deadline.controller.Flush()
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

// sendEvents sends the changes that concern the client. An object that begins to match the selectors is
// new to the client, and one that no longer does is deleted.
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

// bookmark tells the client that it has everything up to the position.
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
