package host

import (
	"errors"
	"fmt"
	"os"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"portolan.dev/services/kit/wake"
)

// Watch receives the kernel's notifications about changes.
type Watch struct {
	conn     *netlink.Conn
	relevant func(*netlink.Message) bool
	changed  wake.Signal
	done     chan struct{}
}

// NewWatch subscribes, in a namespace, to groups of a netlink family (a bit each). The function
// relevant selects the messages to report.
func NewWatch(netns string, family int, groups uint32, relevant func(*netlink.Message) bool) (*Watch, error) {
	w := &Watch{relevant: relevant, changed: wake.New(), done: make(chan struct{})}
	err := Within(netns, func() (err error) {
		w.conn, err = netlink.Dial(family, &netlink.Config{Groups: groups})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("notifications of the kernel: %w", err)
	}
	go w.listen()
	return w, nil
}

// Changed returns a channel that receives a token after one or several relevant changes.
func (w *Watch) Changed() <-chan struct{} { return w.changed }

// Close ends the subscription.
func (w *Watch) Close() {
	w.conn.Close()
	<-w.done
}

func (w *Watch) listen() {
	defer close(w.done)
	for {
		messages, err := w.conn.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS): // notifications were lost
			w.notify()
			continue
		case errors.Is(err, os.ErrClosed), err != nil:
			return
		}
		for i := range messages {
			if w.relevant(&messages[i]) {
				w.notify()
				break
			}
		}
	}
}

func (w *Watch) notify() {
	w.changed.Send()
}
