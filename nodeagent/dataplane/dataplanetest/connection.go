package dataplanetest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"portolan.dev/nodeagent/plan"
)

// Open connects and keeps the connection under a name. Want lists the backends that may answer.
type Open struct {
	Client
	Frontend string
	Conn     string
	Want     []int
}

func (a Open) run(w *scenarioRun) error {
	c, err := w.dial(a.Client, w.frontend(a.Frontend).Addr, patience)
	if err != nil {
		return err
	}
	w.conns[a.Conn] = c
	if c.from, _, err = w.identify(c, patience); err != nil {
		return err
	}
	if !slices.Contains(a.Want, c.from) {
		return fmt.Errorf("answered by %d, want one of %v", c.from, a.Want)
	}
	return nil
}

// Hold opens Times connections, keeps them, and counts the answers by backend.
type Hold struct {
	Frontend string
	Times    int
	Want     Weights
}

func (a Hold) run(w *scenarioRun) error {
	got := Weights{}
	for range a.Times {
		c, err := w.dial(Client{}, w.frontend(a.Frontend).Addr, patience)
		if err != nil {
			return err
		}
		w.conns[fmt.Sprint("held ", len(w.conns))] = c
		if c.from, _, err = w.identify(c, patience); err != nil {
			return err
		}
		got[c.from]++
	}
	return w.shares(a.Frontend, got, a.Want)
}

// Count compares the plane's numbers of connections with the actual ones, for the backends in Want.
type Count struct {
	Frontend string
	Want     Weights
}

func (a Count) run(w *scenarioRun) error {
	key := plan.Key{Frontend: w.frontend(a.Frontend)}
	return w.eventually(func() error {
		have, got := w.rig.Plane().Connections(key)[key], Weights{}
		for n := range a.Want {
			got[n] = int(have[w.backends[n].addr])
		}
		if !maps.Equal(got, a.Want) {
			return fmt.Errorf("connections by backend %v, want %v", got, a.Want)
		}
		return nil
	})
}

// Continue uses an open connection. The same backend must answer, or if Moved is set, another one.
type Continue struct {
	Conn  string
	Moved bool
}

func (a Continue) run(w *scenarioRun) error {
	c := w.conns[a.Conn]
	n, _, err := w.identify(c, patience)
	if err != nil {
		return err
	}
	if (n != c.from) != a.Moved {
		return fmt.Errorf("answered by %d, before by %d", n, c.from)
	}
	return nil
}

// SendOnly sends from a new UDP socket to a frontend without backends, and keeps the socket.
type SendOnly struct {
	Client
	Frontend string
	Conn     string
}

func (a SendOnly) run(w *scenarioRun) error {
	c, err := w.dial(a.Client, w.frontend(a.Frontend).Addr, patience)
	if err != nil {
		return err
	}
	w.conns[a.Conn] = c
	if n, _, err := w.identify(c, silence); err == nil {
		return fmt.Errorf("answered by %d", n)
	}
	return nil
}

// RefusedOn uses an open UDP socket, and must be refused.
type RefusedOn struct{ Conn string }

func (a RefusedOn) run(w *scenarioRun) error {
	n, _, err := w.identify(w.conns[a.Conn], patience)
	switch {
	case err == nil:
		return fmt.Errorf("answered by %d", n)
	case !refused(err):
		return fmt.Errorf("not refused, but: %w", err)
	}
	return nil
}

// Broken waits until an open connection is reset or closed.
type Broken struct{ Conn string }

func (a Broken) run(w *scenarioRun) error {
	c := w.conns[a.Conn]
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.reader.ReadByte(); err == nil || timedOut(err) {
		return errors.New("still open")
	}
	return nil
}

// Cut waits until the plane ends an open connection: at once, or with the trait CutsOnUse when the
// connection is used.
type Cut struct{ Conn string }

func (a Cut) run(w *scenarioRun) error {
	if !w.traits.CutsOnUse {
		return Broken(a).run(w)
	}
	return w.eventually(func() error {
		_, _, err := w.identify(w.conns[a.Conn], patience)
		switch {
		case err == nil:
			return errors.New("still open")
		case !refused(err):
			return final{fmt.Errorf("not cut, but: %w", err)}
		}
		return nil
	})
}

// HalfClose ends the client's direction of an open TCP connection. The backend must see the end,
// and its last line must arrive.
type HalfClose struct{ Conn string }

func (a HalfClose) run(w *scenarioRun) error {
	c := w.conns[a.Conn]
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	answer, err := c.reader.ReadString('\n')
	if err != nil || !strings.HasPrefix(answer, "bye ") {
		return fmt.Errorf("last words %q, %w", answer, err)
	}
	return nil
}

// Transfer sends Size bytes through an open connection and expects them back.
type Transfer struct {
	Conn string
	Size int
}

func (a Transfer) run(w *scenarioRun) error {
	text := strings.Repeat("portolan", a.Size/8)
	answer, err := w.exchange(w.conns[a.Conn], "echo "+text, patience)
	if err != nil {
		return err
	}
	if answer != text {
		return fmt.Errorf("%d bytes came back changed, of %d", len(answer), len(text))
	}
	return nil
}

// Reuse connects Times from the same source port, each time as soon as the backend has ended the
// previous connection. The kernel's state of the previous connection must not disturb the next one.
type Reuse struct {
	Frontend string
	Times    int
}

func (a Reuse) run(w *scenarioRun) error {
	source := w.source(Client{})
	again := 0
	for range a.Times {
		c, err := w.reconnect(source, w.frontend(a.Frontend).Addr)
		if err != nil {
			return err
		}
		if retransmits(c.Conn) == 0 {
			again++
		}
		err = w.quit(c)
		source = c.LocalAddr().(*net.TCPAddr).AddrPort()
		c.Close()
		if err != nil {
			return fmt.Errorf("from port %d: %w", source.Port(), err)
		}
	}
	// A slow machine may lose a few packets, but a stale entry loses the first packet every time.
	if again < 2 {
		return errors.New("the first packet of each connection from a port that was used before was lost")
	}
	return nil
}

// quit makes the backend end a connection and waits for the end.
func (w *scenarioRun) quit(c *client) error {
	if _, err := w.exchange(c, "quit", patience); err != nil {
		return err
	}
	if _, err := c.reader.ReadByte(); err != io.EOF {
		return fmt.Errorf("after the end: %w", err)
	}
	return nil
}

// reconnect connects from a source as soon as this side of the old connection is gone.
func (w *scenarioRun) reconnect(source, to netip.AddrPort) (c *client, err error) {
	err = w.eventually(func() (err error) {
		if c, err = w.dialFrom(Inside, source, to, patience); err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			return final{err}
		}
		return err
	})
	return c, err
}
