package statestream_test

import (
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/statestream"
)

// fakeConn is a stream of numbers in memory. The end of messages is the end of the client.
type fakeConn struct {
	grpc.ServerStream
	messages chan int
	answers  []int
}

func (c *fakeConn) Recv() (*int, error) {
	n, ok := <-c.messages
	if !ok {
		return nil, io.EOF
	}
	return &n, nil
}

func (c *fakeConn) Send(n *int) error {
	c.answers = append(c.answers, *n)
	return nil
}

// serve serves a stream in the background and returns a function that waits for its error.
func serve(s *statestream.Stream, conn *fakeConn, receive func(*int) error, answer func() (*int, error)) (wait func() error) {
	done := make(chan error, 1)
	go func() { done <- statestream.Serve(s, conn, "Messages", receive, answer) }()
	return func() error { return <-done }
}

func accept(*int) error { return nil }

func none() (*int, error) { return nil, nil }

// TestAnswers checks that each wake sends the newest answer, and none if there is none.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, conn, last := statestream.New(), &fakeConn{messages: make(chan int)}, 0
		wait := serve(s, conn, func(n *int) error { last = *n; s.Wake(); return nil }, func() (*int, error) {
			if last == 2 {
				return nil, nil
			}
			return &last, nil
		})
		for n := 1; n <= 3; n++ {
			conn.messages <- n
			synctest.Wait()
		}
		close(conn.messages)
		if err := wait(); err != nil || len(conn.answers) != 2 || conn.answers[1] != 3 {
			t.Errorf("answers %v, %v", conn.answers, err)
		}
	})
}

// TestASilentClient checks that a stream ends if no message comes, and that each message postpones that.
func TestASilentClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, began := &fakeConn{messages: make(chan int)}, time.Now()
		wait := serve(statestream.New(), conn, accept, none)
		time.AfterFunc(8*time.Second, func() { conn.messages <- 1 })
		err := wait()
		if status.Code(err) != codes.Unavailable || time.Since(began) != 18*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		close(conn.messages) // ends the receiver
	})
}

// TestTooManyMessages checks that a client may send a message every 20 ms, and not many at once.
func TestTooManyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, accepted := &fakeConn{messages: make(chan int)}, 0
		wait := serve(statestream.New(), conn, func(*int) error { accepted++; return nil }, none)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range 1000 {
			<-tick.C
			conn.messages <- 1
		}
		for range 100 { // the last message of the loop above counts with them
			conn.messages <- 1
		}
		if err := wait(); status.Code(apierr.ToStatus(err).Err()) != codes.ResourceExhausted || accepted != 1099 {
			t.Errorf("after %d messages: %v", accepted, err)
		}
	})
}

// TestReasons checks that the first reason to end a stream is its error, and so is an error of a function.
func TestReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := errors.New("first"), errors.New("second")
		s, conn := statestream.New(), &fakeConn{messages: make(chan int)}
		s.End(first)
		s.End(second)
		if err := serve(s, conn, accept, none)(); !errors.Is(err, first) {
			t.Errorf("ended by %v", err)
		}
		s = statestream.New()
		s.Wake()
		if err := serve(s, conn, accept, func() (*int, error) { return nil, second })(); !errors.Is(err, second) {
			t.Errorf("an answer that failed: %v", err)
		}
		close(conn.messages)
		conn = &fakeConn{messages: make(chan int, 1)}
		conn.messages <- 1
		if err := serve(statestream.New(), conn, func(*int) error { return second }, none)(); !errors.Is(err, second) {
			t.Errorf("a message that was refused: %v", err)
		}
	})
}
