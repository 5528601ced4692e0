package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"portolan.dev/registry/store"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/obs"
)

const (
	// channel is where batches are announced.
	channel = "portolan_registry"
	// pollEvery is how late a change is seen whose notification was lost.
	pollEvery = 100 * time.Millisecond
)

// listen wakes when another process says that it committed. An outage is told once, with its end.
func (s *Store) listen(ctx context.Context) {
	outage := obs.Outage{Log: s.log, Down: "store notifications interrupted", Up: "store notifications are back"}
	for ctx.Err() == nil {
		err := s.listenOnce(ctx, func() { outage.Over() })
		s.ForgetTail() // whatever is said meanwhile is not heard
		if ctx.Err() == nil {
			outage.Failed(err)
		}
		app.Pause(ctx, 10*pollEvery) // polling goes on meanwhile
	}
}

// listenOnce listens until the connection is lost, and calls begun once it does.
func (s *Store) listenOnce(ctx context.Context, begun func()) error {
	conn, err := pgx.ConnectConfig(ctx, s.conn)
	if err != nil {
		return err
	}
	defer closeNow(conn)
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	begun()
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if notification.Payload != s.writer.sender {
			s.ForgetTail()
			s.Moved()
		}
	}
}

// poll wakes when the head has moved, whoever moved it and whether or not anybody said so.
func (s *Store) poll(ctx context.Context) {
	var last store.Head
	for {
		if head, err := s.Head(ctx); err == nil && head != last {
			last = head
			s.Saw(head)
			s.Moved()
		}
		if !app.Pause(ctx, pollEvery) {
			return
		}
	}
}

// closeNow closes a connection that nothing more is wanted of.
func closeNow(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the server ends the session either way
}
