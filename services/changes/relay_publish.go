package changes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	corev1 "portolan.dev/api/core/v1"
	"portolan.dev/services/object"
)

const (
	// publishWindow is the largest number of unacknowledged messages.
	publishWindow = 256
	// stallWait is the longest wait for a place in the window. It is long because a process that
	// gets little CPU time is slow, not broken.
	stallWait = 5 * time.Second
	// headerRoom is the number of bytes reserved for headers in the largest message that the server
	// accepts.
	headerRoom = 1 << 10
	// maxMessage is the largest message that the stream takes, with which it is created. It is above
	// the largest object (1.5 MiB) with the fields of a change.
	maxMessage = 2 << 20
)

// errConflict is returned if the stream's last sequence is not the expected one, because another
// relay published first.
var errConflict = errors.New("the stream is further than expected")

// refusal is an error of the stream, as opposed to an error of the log.
type refusal struct{ err error }

func (e *refusal) Error() string { return "publish: " + e.err.Error() }
func (e *refusal) Unwrap() error { return e.err }

// refusals counts the consecutive rounds in which the stream refused messages, and holds the time
// of the first.
type refusals struct {
	limit time.Duration
	since time.Time
	count int
}

func (f *refusals) forget() { f.since, f.count = time.Time{}, 0 }

// note records the result of a round. It reports whether the stream has refused messages for at
// least three rounds and the limit's time.
func (f *refusals) note(err error) bool {
	var refused *refusal
	if !errors.As(err, &refused) {
		f.forget()
		return false
	}
	if f.count++; f.count == 1 {
		f.since = time.Now()
	}
	return f.count >= 3 && time.Since(f.since) >= f.limit
}

// feed publishes the log's changes after last as they are committed, until the next check of the
// stream is due.
func (r *Relay) feed(ctx context.Context, epoch string, last uint64) error {
	check := time.NewTimer(r.cfg.CheckEvery)
	defer check.Stop()
	poll := time.NewTicker(r.cfg.PollEvery)
	defer poll.Stop()
	for {
		wake := r.cfg.Log.Wake()
		pending, err := r.cfg.Log.After(ctx, last, publishWindow)
		if err != nil {
			return fmt.Errorf("read the log after %d: %w", last, err)
		}
		if len(pending) > 0 {
			r.cfg.Verifier.note(epoch, pending)
			if err := r.publish(ctx, epoch, last, pending); err != nil {
				return err
			}
			last = pending[len(pending)-1].GetRevision()
		}
		if len(pending) == publishWindow {
			select {
			case <-check.C:
				return nil
			default:
				continue
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-check.C:
			return nil
		case <-wake:
		case <-poll.C:
		}
	}
}

// publish sends one batch and waits until the stream has taken all of it. Every message names the
// sequence that it must follow, so that the stream refuses all messages after a lost, late or foreign
// message. Therefore the stream has taken the whole batch once it has acknowledged the last message. Only
// the last message asks for an acknowledgement, because an acknowledgement is a message itself, which costs
// the server and the relay nearly as much as a change. After a failure each message of the next batch asks
// for one, so that the error belongs to the message that fails.
func (r *Relay) publish(ctx context.Context, epoch string, last uint64, batch []LoggedChange) error {
	err := r.send(ctx, epoch, last, batch)
	r.cautious = err != nil
	return err
}

func (r *Relay) send(ctx context.Context, epoch string, last uint64, batch []LoggedChange) error {
	began := time.Now()
	acks := make(map[int]jetstream.PubAckFuture) // by the place of the message in the batch
	var sendErr error
	for i, change := range batch {
		if want := last + 1 + uint64(i); change.GetRevision() != want {
			return fmt.Errorf("the log has revision %d where %d is due", change.GetRevision(), want)
		}
		msg, err := r.message(epoch, change)
		if err != nil {
			return err
		}
		if r.cautious || i == len(batch)-1 {
			acks[i], err = r.js.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0), jetstream.WithStallWait(stallWait))
		} else {
			err = r.cfg.NATS.PublishMsg(msg)
		}
		if err != nil {
			delete(acks, i)
			sendErr = &refusal{err}
			break
		}
	}
	taken := 0 // messages of the batch of which it is known
	for i, change := range batch {
		ack := acks[i]
		if ack == nil {
			continue
		}
		if err := r.await(ctx, ack, change.GetRevision()); err != nil {
			return err
		}
		r.acknowledged(epoch, batch[taken:i+1], began)
		taken = i + 1
	}
	return sendErr
}

// acknowledged notes that the stream has taken messages.
func (r *Relay) acknowledged(epoch string, batch []LoggedChange, began time.Time) {
	r.verified, r.verifiedIn = batch[len(batch)-1].GetRevision(), epoch
	r.last.Store(r.verified)
	r.metrics.published.Add(float64(len(batch)))
	for _, change := range batch {
		r.cfg.Tracer.RecordSpan(change.GetTraceparent(), "publish", began)
	}
	r.refusals.forget()
}

func (r *Relay) await(ctx context.Context, ack jetstream.PubAckFuture, revision uint64) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case got := <-ack.Ok():
		if got.Sequence != revision {
			return &refusal{fmt.Errorf("revision %d was stored as %d", revision, got.Sequence)}
		}
		return nil
	case err := <-ack.Err():
		var api *jetstream.APIError
		if errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant) {
			r.metrics.conflicts.Inc()
			return errConflict
		}
		return &refusal{err}
	}
}

// message returns the message of a change. A change that is larger than the server accepts is sent
// without payload, so that it never blocks the stream. So is a change of an object with private
// parts.
func (r *Relay) message(epoch string, change LoggedChange) (*nats.Msg, error) {
	o := object.Unwrap(change.GetObject())
	if o == nil {
		return nil, fmt.Errorf("revision %d has no object of a known kind", change.GetRevision())
	}
	msg := nats.NewMsg(r.subjects.change(object.KeyOf(o)))
	msg.Header.Set(headerEpoch, epoch)
	msg.Header.Set(headerEncoding, encoding)
	msg.Header.Set(jetstream.ExpectedLastSeqHeader, strconv.FormatUint(change.GetRevision()-1, 10))
	if !isPrivate(o) && int64(len(change.Payload)) <= min(r.cfg.NATS.MaxPayload(), maxMessage)-headerRoom {
		msg.Data = change.Payload
		return msg, nil
	}
	msg.Header.Set(headerElided, "1")
	if pod, ok := o.(*corev1.Pod); ok {
		msg.Header.Set(headerNode, pod.GetSpec().GetNodeName())
	}
	return msg, nil
}
