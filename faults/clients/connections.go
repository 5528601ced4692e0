package clients

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"portolan.dev/faults/history"
	"portolan.dev/services/kit/app"
)

// open opens a connection and returns it with the backend that answers.
func open(ctx context.Context, dial Dial, target netip.AddrPort) (net.Conn, *bufio.Reader, netip.AddrPort, error) {
	conn, err := dial(ctx, "tcp", target.String())
	if err != nil {
		return nil, nil, netip.AddrPort{}, err
	}
	r := bufio.NewReader(conn)
	backend, err := greeting(conn, r, until(ctx))
	if err != nil {
		_ = conn.Close()
		return nil, nil, netip.AddrPort{}, err
	}
	return conn, r, backend, nil
}

func greeting(conn net.Conn, r *bufio.Reader, deadline time.Time) (netip.AddrPort, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return netip.AddrPort{}, err
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.ParseAddrPort(strings.TrimSpace(line))
}

// keeper keeps one connection through a virtual IP open and uses it. It opens another one only when
// it is lost.
type keeper struct {
	name     string
	target   netip.AddrPort
	dial     Dial
	recorder *history.Recorder
	every    time.Duration
	// patience is how long an answer may take before the connection counts as lost: longer than any
	// stall that TCP repairs by itself.
	patience time.Duration
}

func (k *keeper) run(ctx context.Context) {
	for ctx.Err() == nil {
		k.keep(ctx)
		app.Pause(ctx, k.every)
	}
}

func (k *keeper) keep(ctx context.Context) {
	c := history.Connection{Client: k.name, Target: k.target, Began: time.Now()}
	opening, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.patience)
	defer cancel()
	conn, r, backend, err := open(opening, k.dial, k.target)
	if err != nil {
		return // the prober counts those that are not made
	}
	defer func() { _ = conn.Close() }()
	c.Backend, c.LastAnswer = backend, time.Now()
	change := k.recorder.AddConnection(c)
	for n := 0; app.Pause(ctx, k.every); n++ {
		if err := k.ping(conn, r, n); err != nil {
			change(func(c *history.Connection) { c.Lost, c.Error = time.Now(), err.Error() })
			return
		}
		change(func(c *history.Connection) { c.LastAnswer = time.Now() })
	}
}

func (k *keeper) ping(conn net.Conn, r *bufio.Reader, n int) error {
	if err := conn.SetDeadline(time.Now().Add(k.patience)); err != nil {
		return err
	}
	said := fmt.Sprintf("%s %d", k.name, n)
	if _, err := fmt.Fprintln(conn, said); err != nil {
		return err
	}
	line, err := r.ReadString('\n')
	if err == nil && strings.TrimSpace(line) != said {
		err = fmt.Errorf("said %q and heard %q", said, line)
	}
	return err
}

// prober opens one short connection after the other.
type prober struct {
	name     string
	target   netip.AddrPort
	dial     Dial
	recorder *history.Recorder
	every    time.Duration
	deadline time.Duration
}

func (p *prober) run(ctx context.Context) {
	for app.Pause(ctx, p.every) {
		p.recorder.AddProbe(p.attempt(ctx))
	}
}

func (p *prober) attempt(ctx context.Context) history.Probe {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.deadline)
	defer cancel()
	a := history.Probe{Client: p.name, Target: p.target, Began: time.Now()}
	conn, _, backend, err := open(ctx, p.dial, p.target)
	a.Ended = time.Now()
	if err != nil {
		a.Error = err.Error()
		return a
	}
	_ = conn.Close()
	a.Backend = backend
	return a
}
