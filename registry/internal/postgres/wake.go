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
	// channel is the notification channel on which batches are announced.
	channel = "portolan_registry"
	// pollEvery is the longest delay before a change is seen if its notification was lost.
	pollEvery = 100 * time.Millisecond
)

// listen wakes waiters when another process notifies of a commit. It logs the beginning and the end
// of an outage once.
func (s *Store) listen(ctx context.Context) {
	outage := obs.Outage{Log: s.log, Down: "store notifications interrupted", Up: "store notifications are back"}
	for ctx.Err() == nil {
		err := s.listenOnce(ctx, func() { outage.Over() })
		s.ForgetTail() // notifications are lost while there is no connection
		if ctx.Err() == nil {
			outage.Failed(err)
		}
		app.Pause(ctx, 10*pollEvery) // polling continues in the meantime
	}
}

// listenOnce listens until the connection is lost. It calls begun when it starts to listen.
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
			s.Notify()
		}
	}
}

// poll wakes waiters when the head has moved, independently of notifications.
func (s *Store) poll(ctx context.Context) {
	var last store.Head
	for {
		if head, err := s.Head(ctx); err == nil && head != last {
			last = head
			s.Observe(head)
			s.Notify()
		}
		if !app.Pause(ctx, pollEvery) {
			return
		}
	}
}

// closeNow closes a connection that is no longer used.
func closeNow(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the server ends the session either way
}
