package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"portolan.dev/registry/store"
)

const (
	// channel is where batches are announced.
	channel = "portolan_registry"
	// pollEvery is how late a change is seen whose notification was lost.
	pollEvery = 100 * time.Millisecond
)

// listen wakes when another process says that it committed.
func (s *Store) listen(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.listenOnce(ctx); ctx.Err() == nil {
			s.log.WarnContext(ctx, "store notifications interrupted", "err", err)
		}
		pause(ctx, 10*pollEvery) // polling goes on meanwhile
	}
}

func (s *Store) listenOnce(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, s.conn)
	if err != nil {
		return err
	}
	defer closeNow(conn)
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	for {
		notification, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if notification.Payload != s.writer.sender {
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
			s.Moved()
		}
		if !pause(ctx, pollEvery) {
			return
		}
	}
}

// pause waits, and says whether to go on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// closeNow closes a connection that nothing more is wanted of.
func closeNow(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the server ends the session either way
}
