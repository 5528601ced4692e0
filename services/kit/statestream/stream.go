package statestream

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/wake"
)

const (
	// A client sends at most two messages a second, and one after each change.
	messagesPerSecond = 50
	messagesAtOnce    = 100
	// silentFor is the time without a message after which a stream is ended.
	silentFor = 10 * time.Second
)

// errSilent is the error of a stream without messages.
var errSilent = status.Errorf(codes.Unavailable, "no message came for %s", silentFor)

// Stream is an open stream. It is safe for concurrent use.
type Stream struct {
	wake  wake.Signal
	ended chan error // receives the reason why the server ends the stream
}

// New returns a stream, which Serve serves.
func New() *Stream { return &Stream{wake: wake.New(), ended: make(chan error, 1)} }

// Wake has the stream send an answer. It returns at once.
func (s *Stream) Wake() { s.wake.Send() }

// End ends the stream with an error. Only the first error counts.
func (s *Stream) End(reason error) {
	select {
	case s.ended <- reason:
	default:
	}
}

// Serve passes the messages of a stream to receive, and sends the result of answer after each Wake unless
// it is nil. It returns when the stream has ended, or the error of a function. limit names the limit of the
// number of messages in errors.
func Serve[Message, Answer any](s *Stream, conn grpc.BidiStreamingServer[Message, Answer], limit string, receive func(*Message) error, answer func() (*Answer, error)) error {
	silent := time.AfterFunc(silentFor, func() { s.End(errSilent) })
	defer silent.Stop()
	received := make(chan error, 1)
	go func() { received <- receiveAll(conn, silent, limit, receive) }() // ends with the stream, when Serve returns
	for {
		select {
		case err := <-received:
			return err
		case err := <-s.ended:
			return err
		case <-s.wake:
			next, err := answer()
			if err == nil && next != nil {
				err = conn.Send(next)
			}
			if err != nil {
				return err
			}
		}
	}
}

// receiveAll passes messages to receive until the stream ends. Each postpones the timer silent.
func receiveAll[Message, Answer any](conn grpc.BidiStreamingServer[Message, Answer], silent *time.Timer, limit string, receive func(*Message) error) error {
	limiter := rate.NewLimiter(messagesPerSecond, messagesAtOnce)
	for {
		message, err := conn.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		silent.Reset(silentFor)
		if !limiter.Allow() {
			return apierr.Exhausted(limit, fmt.Sprintf("more than %d messages a second", messagesPerSecond))
		}
		if err := receive(message); err != nil {
			return err
		}
	}
}
