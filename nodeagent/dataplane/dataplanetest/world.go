package dataplanetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"portolan.dev/nodeagent/plan"
)

const (
	patience = 60 * time.Second // for what has to happen
	silence  = 300 * time.Millisecond
)

// world is a scenario that is being played.
type world struct {
	t        *testing.T
	rig      Rig
	scenario Scenario
	protocol plan.Protocol

	frontends map[string]plan.Frontend // by their names in the scenario
	backends  []*backend
	state     *plan.State
	conns     map[string]*client
	// used are the UDP sockets that asked once. They stay open: a port that is
	// used again would be the same flow, which goes to the same backend.
	used []*client
}

// client is a connection that is kept.
type client struct {
	net.Conn
	reader *bufio.Reader
	from   int // number of the backend that answered first
}

func newWorld(t *testing.T, rig Rig, s Scenario, p plan.Protocol) *world {
	w := &world{
		t: t, rig: rig, scenario: s, protocol: p,
		frontends: map[string]plan.Frontend{}, conns: map[string]*client{},
		state: &plan.State{Servers: map[plan.Key]*plan.VirtualServer{}},
	}
	for i := range s.Backends {
		lis, packet := rig.Listen(t, p, s.V6)
		b := startBackend(i, lis, packet)
		w.backends = append(w.backends, b)
		t.Cleanup(b.stop)
	}
	t.Cleanup(func() {
		for _, c := range w.conns {
			c.Close()
		}
		for _, c := range w.used {
			c.Close()
		}
		w.apply(&plan.State{Sources: w.state.Sources, Servers: map[plan.Key]*plan.VirtualServer{}})
	})
	return w
}

func (w *world) play() {
	for i, a := range w.scenario.Do {
		if err := a.run(w); err != nil {
			w.t.Fatalf("step %d, %T%+v: %v", i+1, a, a, err)
		}
	}
}

// apply brings the plane from the state that it has to another one.
func (w *world) apply(to *plan.State) {
	w.t.Helper()
	to.Sources = w.rig.Sources()
	failed := w.rig.Plane().Apply(context.Background(), plan.Diff(w.state, to))
	for _, f := range failed {
		w.t.Errorf("%s: %v (%s)", f.Step, f.Err, f.Remedy)
	}
	w.state = to
}

// frontend finds the frontend of a name, and chooses one for a new name.
func (w *world) frontend(name string) plan.Frontend {
	f, ok := w.frontends[name]
	if !ok {
		f = plan.Frontend{Addr: w.rig.Frontend(w.t, w.protocol, w.scenario.V6), Protocol: w.protocol}
		w.frontends[name] = f
	}
	return f
}

func (w *world) dial(from Vantage, n int, frontend string, wait time.Duration) (*client, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), wait)
	defer cancel()
	conn, err := w.rig.Dial(ctx, from, n, w.protocol, w.frontend(frontend).Addr)
	if err != nil {
		return nil, err
	}
	return &client{Conn: conn, reader: bufio.NewReaderSize(conn, 64<<10), from: -1}, nil
}

// say sends a line and returns the answer.
func (w *world) say(c *client, line string, wait time.Duration) (string, error) {
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	if w.protocol == plan.UDP {
		if _, err := c.Write([]byte(line)); err != nil {
			return "", err
		}
		buf := make([]byte, 65535)
		n, err := c.Conn.Read(buf)
		return string(buf[:n]), err
	}
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		return "", err
	}
	answer, err := c.reader.ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

// who asks a connection for its backend.
func (w *world) who(c *client, wait time.Duration) (int, error) {
	answer, err := w.say(c, "who", wait)
	if err != nil {
		return -1, err
	}
	var number int
	var from string
	if _, err := fmt.Sscan(answer, &number, &from); err != nil {
		return -1, fmt.Errorf("strange answer %q", answer)
	}
	return number, nil
}

// try connects, asks who answers, and hangs up.
func (w *world) try(from Vantage, n int, frontend string, wait time.Duration) (int, error) {
	c, err := w.dial(from, n, frontend, wait)
	if err != nil {
		return -1, err
	}
	if w.protocol == plan.UDP {
		w.used = append(w.used, c)
	} else {
		defer c.Close()
	}
	return w.who(c, wait)
}

// refused tells whether an error is that of a client who was told no.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func timedOut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// servers turns what a scenario says into a state.
func (w *world) servers(list []Server) *plan.State {
	state := &plan.State{Servers: map[plan.Key]*plan.VirtualServer{}}
	for _, s := range list {
		key := plan.Key{Frontend: w.frontend(s.Frontend), Audience: s.Audience}
		v := &plan.VirtualServer{Key: key, Attributes: plan.Attributes{
			Service: plan.ServiceName{Namespace: "test", Name: "svc"}, Scheduler: max(s.Scheduler, plan.RoundRobin),
			Flags: s.Flags, Affinity: s.Affinity, Drain: s.Drain, WithoutBackends: s.Without,
			Masquerade: plan.MasqueradeAlways, Restricted: s.Only != nil,
		}}
		for _, c := range s.Only {
			addr := w.rig.ClientAddr(c.From, c.N, w.scenario.V6)
			v.Allowed = append(v.Allowed, netip.PrefixFrom(addr, addr.BitLen()))
		}
		slices.SortFunc(v.Allowed, netip.Prefix.Compare)
		for number, weight := range s.Weights {
			v.Reals = append(v.Reals, plan.RealServer{Addr: w.backends[number].addr, Weight: uint32(weight)})
		}
		slices.SortFunc(v.Reals, func(a, b plan.RealServer) int { return a.Addr.Compare(b.Addr) })
		state.Servers[key] = v
	}
	return state
}
