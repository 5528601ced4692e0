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

// openConnection opens a connection and returns it with the backend that answers.
func openConnection(ctx context.Context, dial Dial, target netip.AddrPort) (net.Conn, *bufio.Reader, netip.AddrPort, error) {
	conn, err := dial(ctx, "tcp", target.String())
	if err != nil {
		return nil, nil, netip.AddrPort{}, err
	}
	r := bufio.NewReader(conn)
	backend, err := readGreeting(conn, r, deadlineOf(ctx))
	if err != nil {
		_ = conn.Close()
		return nil, nil, netip.AddrPort{}, err
	}
	return conn, r, backend, nil
}

// readGreeting reads the address that a backend sends first.
func readGreeting(conn net.Conn, r *bufio.Reader, deadline time.Time) (netip.AddrPort, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return netip.AddrPort{}, err
	}
	line, err := r.ReadString('\n')
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.ParseAddrPort(strings.TrimSpace(line))
}

// persistentClient keeps one connection through a virtual IP open and uses it. It opens another
// connection only when that one breaks.
type persistentClient struct {
	name     string
	target   netip.AddrPort
	dial     Dial
	recorder *history.Recorder
	interval time.Duration
	// answerTimeout is the time without an answer after which the connection counts as lost. It
	// must be longer than any stall from which TCP recovers by itself.
	answerTimeout time.Duration
}

func (p *persistentClient) run(ctx context.Context) {
	for ctx.Err() == nil {
		p.useConnection(ctx)
		app.Pause(ctx, p.interval)
	}
}

func (p *persistentClient) useConnection(ctx context.Context) {
	c := history.Connection{Client: p.name, Target: p.target, Began: time.Now()}
	dialCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.answerTimeout)
	defer cancel()
	conn, r, backend, err := openConnection(dialCtx, p.dial, p.target)
	if err != nil {
		return // the prober counts failed dials
	}
	defer func() { _ = conn.Close() }()
	c.Backend, c.LastAnswer = backend, time.Now()
	update := p.recorder.AddConnection(c)
	for n := 0; app.Pause(ctx, p.interval); n++ {
		if err := p.ping(conn, r, n); err != nil {
			update(func(c *history.Connection) { c.Lost, c.Error = time.Now(), err.Error() })
			return
		}
		update(func(c *history.Connection) { c.LastAnswer = time.Now() })
	}
}

func (p *persistentClient) ping(conn net.Conn, r *bufio.Reader, n int) error {
	if err := conn.SetDeadline(time.Now().Add(p.answerTimeout)); err != nil {
		return err
	}
	message := fmt.Sprintf("%s %d", p.name, n)
	if _, err := fmt.Fprintln(conn, message); err != nil {
		return err
	}
	line, err := r.ReadString('\n')
	if err == nil && strings.TrimSpace(line) != message {
		err = fmt.Errorf("sent %q, received %q", message, line)
	}
	return err
}

// prober periodically opens a short connection.
type prober struct {
	name     string
	target   netip.AddrPort
	dial     Dial
	recorder *history.Recorder
	interval time.Duration
	timeout  time.Duration
}

func (p *prober) run(ctx context.Context) {
	for app.Pause(ctx, p.interval) {
		p.recorder.AddProbe(p.probe(ctx))
	}
}

func (p *prober) probe(ctx context.Context) history.Probe {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
	defer cancel()
	probe := history.Probe{Client: p.name, Target: p.target, Began: time.Now()}
	conn, _, backend, err := openConnection(ctx, p.dial, p.target)
	probe.Ended = time.Now()
	if err != nil {
		probe.Error = err.Error()
		return probe
	}
	_ = conn.Close()
	probe.Backend = backend
	return probe
}
