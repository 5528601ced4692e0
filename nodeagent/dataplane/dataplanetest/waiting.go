package dataplanetest

import (
	"errors"
	"fmt"
	"net"
)

// Mute makes a backend drop all packets without an answer.
type Mute struct{ Backend int }

func (a Mute) run(w *scenarioRun) error { return Silence(w.backends[a.Backend].lis.(*net.TCPListener)) }

// Call starts to connect and does not wait for the connection. It returns when the mute backend
// Unanswered has received a packet.
type Call struct {
	Client
	Frontend   string
	Conn       string
	Unanswered int // the backend
}

func (a Call) run(w *scenarioRun) error {
	to := w.frontend(a.Frontend).Addr
	result := make(chan call, 1)
	w.calls[a.Conn] = result
	go func() {
		c, err := w.dial(a.Client, to, patience)
		result <- call{c, err}
	}()
	return w.eventually(func() error {
		switch n, err := dropped(w.backends[a.Unanswered].lis.(*net.TCPListener)); {
		case err != nil:
			return final{err}
		case n == 0:
			return errors.New("the backend has not been asked")
		}
		return nil
	})
}

// call is the result of an attempt to connect.
type call struct {
	c   *client
	err error
}

// Answered waits until a backend has answered the connection of a Call.
type Answered struct {
	Conn    string
	Backend int
}

func (a Answered) run(w *scenarioRun) error {
	done := <-w.calls[a.Conn]
	if done.err != nil {
		return done.err
	}
	w.conns[a.Conn] = done.c
	n, _, err := w.identify(done.c, patience)
	if err != nil {
		return err
	}
	if n != a.Backend {
		return fmt.Errorf("answered by %d, want %d", n, a.Backend)
	}
	return nil
}
