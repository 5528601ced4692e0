package watch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"portolan.dev/registry/internal/response"
	"portolan.dev/registry/internal/view"
	"portolan.dev/registry/store"
	"portolan.dev/services/kit/apierr"
)

const (
	messageBytes    = 1 << 20         // limit after which the buffered changes are sent
	logBatch        = 1000            // records read at once when a watch resumes
	maxRevisionWait = 3 * time.Second // how long a watch waits for a revision that this replica has not reached
)

// Streamer runs watches.
type Streamer struct {
	View  *view.View
	Hub   *Hub
	Store store.Store
	// BookmarkEvery is how long a stream may be silent before it sends its revision.
	BookmarkEvery time.Duration
	// Dropped counts the watches that ended because the client did not keep up.
	Dropped prometheus.Counter
}

// NewDropped returns the counter for [Streamer].
func NewDropped(metrics prometheus.Registerer) prometheus.Counter {
	dropped := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "portolan_registry_watches_dropped_total", Help: "Watches closed because the client did not keep up.",
	})
	metrics.MustRegister(dropped)
	return dropped
}

// Watch sends the changes of a kind after a revision, until ctx is done or an error occurs. If the
// revision is 0, it first sends the present objects. send must not keep the message after it
// returns.
func (s *Streamer) Watch(ctx context.Context, kind string, from uint64, filter Filter, send func(*response.Message) error) error {
	w := &stream{Streamer: s, kind: kind, filter: filter, send: send, after: from}
	var cursor *Cursor
	var err error
	if from == 0 {
		cursor, err = w.present()
	} else {
		cursor, err = w.resume(ctx)
	}
	if err != nil {
		return err
	}
	return w.follow(ctx, cursor)
}

// stream is one watch.
type stream struct {
	*Streamer
	kind   string
	filter Filter
	send   func(*response.Message) error
	after  uint64 // everything up to this revision was sent
	buffer response.Message
}

// add puts a change into the buffer and sends the buffer if it is full. The revision of that
// message is the revision up to which the stream was complete before the message.
func (w *stream) add(encoded []byte) error {
	if encoded == nil {
		return nil
	}
	w.buffer.AddChanges(encoded)
	if w.buffer.SizeVT() < messageBytes {
		return nil
	}
	return w.flush(w.after, false)
}

func (w *stream) flush(revision uint64, synced bool) error {
	w.buffer.EndWatch(revision, synced)
	err := w.send(&w.buffer)
	w.buffer.Reset()
	return err
}

// present sends the present objects. The cursor is taken before the state, so a change in between is in
// both. It is left out of the changes because of its revision.
func (w *stream) present() (*Cursor, error) {
	cursor := w.Hub.Now(w.kind)
	state := w.View.State()
	for item := range state.All(w.kind, w.filter.Namespace) {
		if !w.filter.wants(item) {
			continue
		}
		if err := w.add(encodeObject(item)); err != nil {
			return nil, err
		}
	}
	w.after = state.Revision()
	return cursor, w.flush(w.after, true)
}

// resume returns the position in the ring. If the changes are no longer in the ring, it sends them
// from the log first.
func (w *stream) resume(ctx context.Context) (*Cursor, error) {
	if err := w.reach(ctx, w.after); err != nil {
		return nil, err
	}
	for {
		if cursor, ok := w.Hub.Cursor(w.kind, w.after); ok {
			return cursor, w.flush(w.after, false)
		}
		records, head, err := w.Store.Changes(ctx, w.after, logBatch)
		if err != nil {
			return nil, err
		}
		if len(records) == 0 {
			return nil, apierr.OutOfRange("the history was replaced: list again", head.Oldest)
		}
		if err := w.replay(records); err != nil {
			return nil, err
		}
	}
}

// reach waits up to maxRevisionWait for a revision that another replica may have returned to the
// client.
func (w *stream) reach(ctx context.Context, revision uint64) error {
	waiting, cancel := context.WithTimeout(ctx, maxRevisionWait)
	defer cancel()
	if err := w.View.WaitFor(waiting, revision); err == nil || errors.Is(err, store.ErrUnavailable) {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	now := w.View.State().Revision()
	return apierr.OutOfRange(fmt.Sprintf("revision %d is not reached yet, the newest is %d: list again", revision, now), now)
}

// replay sends records of the log. The version before a change is not known here. An object that
// does not match the filter is therefore reported as deleted, whether or not it matched before.
func (w *stream) replay(records []store.Record) error {
	for _, record := range records {
		if record.Key.Kind != w.kind {
			w.after = record.Revision
			continue
		}
		change, err := view.Decode(record)
		if err != nil {
			return apierr.Internal(err)
		}
		encoded := w.filter.encoding(&entry{change: change})
		if encoded == nil && change.New != nil && w.filter.covers(change.New) {
			encoded = encodeDeletion(change.Last, change.Revision)
		}
		if err := w.add(encoded); err != nil {
			return err
		}
		w.after = record.Revision
	}
	return w.flush(w.after, false)
}

// follow sends all further changes.
func (w *stream) follow(ctx context.Context, cursor *Cursor) error {
	bookmark := time.NewTimer(w.BookmarkEvery)
	defer bookmark.Stop()
	for {
		batches, revision, err := cursor.Next(ctx, bookmark.C)
		switch {
		case errors.Is(err, ErrTooSlow):
			w.Dropped.Inc()
			return apierr.Unavailable(fmt.Sprintf("the watch does not keep up: resume from revision %d", w.after), time.Second)
		case errors.Is(err, ErrReset):
			return apierr.OutOfRange("the history was replaced: list again", w.View.State().Revision())
		case err != nil:
			return err
		}
		sent, err := w.forward(batches)
		if err != nil {
			return err
		}
		w.after = max(w.after, revision)
		if sent || len(batches) == 0 {
			if err := w.flush(w.after, false); err != nil {
				return err
			}
			bookmark.Reset(w.BookmarkEvery)
		}
	}
}

// forward puts batches into the buffer and reports whether they had a change for this watch.
func (w *stream) forward(batches []*Batch) (bool, error) {
	sent := false
	for _, batch := range batches {
		for _, e := range batch.entries {
			if e.change.Revision <= w.after {
				continue
			}
			encoded := w.filter.encoding(e)
			sent = sent || encoded != nil
			if err := w.add(encoded); err != nil {
				return sent, err
			}
		}
	}
	return sent, nil
}
