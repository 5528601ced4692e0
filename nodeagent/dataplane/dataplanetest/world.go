package dataplanetest

import (
	"bufio"
	"cmp"
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

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/object"
)

const (
	patience = 60 * time.Second // timeout for expected events
	silence  = 300 * time.Millisecond
)

// scenarioRun is the state of a running scenario.
type scenarioRun struct {
	variant
	t        *testing.T
	rig      Rig
	traits   Traits
	scenario Scenario

	frontends map[string]plan.Frontend // by name in the scenario
	backends  []*backend
	state     *plan.State
	changed   map[plan.Frontend]bool // by the last changes
	podless   bool                   // whether the ranges of pods are unknown
	conns     map[string]*client
	calls     map[string]chan call
	intact    []func() error
	node      *backend // the node's own socket
	served    []int    // backends of the addresses in the last AskAddresses, or of the clients in the last AskShares
	// used holds the UDP sockets that have sent one datagram. They stay open, because a reused port
	// would continue the same flow to the same backend.
	used []*client
	// picked holds the open connections of PickByRule.
	picked []*client
}

// client is a connection that stays open.
type client struct {
	net.Conn
	reader *bufio.Reader
	from   int // number of the first backend that answered
}

func newClient(conn net.Conn) *client {
	return &client{Conn: conn, reader: bufio.NewReaderSize(conn, 64<<10), from: -1}
}

func newWorld(t *testing.T, rig Rig, s Scenario, v variant) *scenarioRun {
	w := &scenarioRun{
		variant: v, t: t, rig: rig, traits: rig.Traits(), scenario: s,
		frontends: map[string]plan.Frontend{}, conns: map[string]*client{}, calls: map[string]chan call{},
		state: &plan.State{Servers: map[plan.Key]*plan.VirtualServer{}},
	}
	if w.refused() {
		return w
	}
	for i := range s.Backends + s.Others6 {
		v6 := w.v6 != (i >= s.Backends)
		lis, packet := rig.Listen(t, v.protocol, v6)
		b := startBackend(i, lis, packet)
		w.backends = append(w.backends, b)
		t.Cleanup(b.stop)
	}
	t.Cleanup(w.end)
	return w
}

// refused reports whether the plane does not support the protocol.
func (w *scenarioRun) refused() bool { return w.protocol == plan.SCTP && !w.traits.SCTP }

// end leaves the plane empty for the next scenario.
func (w *scenarioRun) end() {
	for _, c := range w.conns {
		c.Close()
	}
	for _, c := range slices.Concat(w.used, w.picked) {
		c.Close()
	}
	for _, f := range w.apply(&plan.State{Servers: map[plan.Key]*plan.VirtualServer{}}) {
		w.t.Errorf("at the end: %s: %v (%s)", f.Frontend, f.Err, f.Remedy)
	}
}

func (w *scenarioRun) play() {
	if w.refused() {
		if err := w.refusesProtocol(); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	for i, a := range w.scenario.Do {
		if err := a.run(w); err != nil {
			w.t.Fatalf("step %d, %T%+v: %v", i+1, a, a, err)
		}
	}
	if i, ok := w.rig.(Inspector); ok {
		if err := i.Inspect(); err != nil {
			w.t.Fatal(err)
		}
	}
}

// apply brings the plane from its state to another one. It returns the failures by frontend.
func (w *scenarioRun) apply(to *plan.State) map[plan.Frontend]dataplane.Failure {
	to.Sources = w.rig.Sources()
	if w.podless {
		to.Sources.Pods = nil
	}
	changes := plan.Changed(w.state, to)
	w.changed = map[plan.Frontend]bool{}
	for _, f := range changes.Frontends {
		w.changed[f.Frontend] = true
	}
	failed := map[plan.Frontend]dataplane.Failure{}
	for _, f := range w.rig.Plane().Apply(context.Background(), changes) {
		failed[f.Frontend] = f
	}
	w.state = to
	return failed
}

// frontend returns the frontend with a name, and chooses one for a new name.
func (w *scenarioRun) frontend(name string) plan.Frontend {
	return w.frontendOf(name, plan.ClusterIP, w.v6)
}

func (w *scenarioRun) frontendOf(name string, e plan.Exposure, v6 bool) plan.Frontend {
	f, ok := w.frontends[name]
	if !ok {
		f = plan.Frontend{Addr: w.rig.Frontend(w.t, e, w.protocol, v6), Protocol: w.protocol}
		w.frontends[name] = f
	}
	return f
}

// serverOf returns the server for all clients at a frontend, or nil.
func (w *scenarioRun) serverOf(frontend string) *plan.VirtualServer {
	return w.state.Servers[plan.Key{Frontend: w.frontend(frontend)}]
}

// weighs reports whether a backend takes new connections of a frontend.
func (w *scenarioRun) weighs(frontend string, number int) bool {
	v := w.serverOf(frontend)
	if v == nil {
		return false
	}
	r, ok := v.Real(w.backends[number].addr)
	return ok && r.Weight > 0
}

// source returns the address that a client dials from, with port 0.
func (w *scenarioRun) source(c Client) netip.AddrPort {
	switch c.From {
	case Self:
		return netip.AddrPortFrom(w.backends[c.N].addr.Addr(), 0)
	case "":
		return netip.AddrPortFrom(w.rig.ClientAddr(Inside, c.N, w.v6), 0)
	}
	return netip.AddrPortFrom(w.rig.ClientAddr(c.From, c.N, w.v6), 0)
}

func (w *scenarioRun) dial(c Client, to netip.AddrPort, wait time.Duration) (*client, error) {
	source := w.source(c)
	if other := to.Addr().Is6(); other != w.v6 { // for a frontend of the other family
		source = netip.AddrPortFrom(w.rig.ClientAddr(cmp.Or(c.From, Inside), c.N, other), 0)
	}
	return w.dialFrom(c.From, source, to, wait)
}

// dialFrom connects from a source address and port. The default location is Inside.
func (w *scenarioRun) dialFrom(from ClientLocation, source, to netip.AddrPort, wait time.Duration) (*client, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), wait)
	defer cancel()
	conn, err := w.rig.Dial(ctx, cmp.Or(from, Inside), source, w.protocol, to)
	if err != nil {
		return nil, err
	}
	return newClient(conn), nil
}

// exchange sends a line and returns the answer.
func (w *scenarioRun) exchange(c *client, line string, wait time.Duration) (string, error) {
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		return "", err
	}
	if w.protocol == plan.UDP {
		_, err := c.Write([]byte(line))
		if refused(err) { // that is a late answer to an earlier packet, and nothing was sent
			_, err = c.Write([]byte(line))
		}
		if err != nil {
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

// identify returns the number of a connection's backend, and the client's address as the backend
// sees it.
func (w *scenarioRun) identify(c *client, wait time.Duration) (number int, seen netip.Addr, err error) {
	answer, err := w.exchange(c, "who", wait)
	if err != nil {
		return -1, seen, err
	}
	var from string
	if _, err := fmt.Sscan(answer, &number, &from); err != nil {
		return -1, seen, fmt.Errorf("strange answer %q", answer)
	}
	at, err := netip.ParseAddrPort(from)
	return number, at.Addr().Unmap(), err
}

// try connects, calls identify, and closes the connection.
func (w *scenarioRun) try(c Client, frontend string, wait time.Duration) (int, netip.Addr, error) {
	conn, err := w.dial(c, w.frontend(frontend).Addr, wait)
	if err != nil {
		return -1, netip.Addr{}, err
	}
	if w.protocol == plan.UDP {
		w.used = append(w.used, conn)
	} else {
		defer conn.Close()
	}
	return w.identify(conn, wait)
}

// tryAt does the same as try at any address, for TCP.
func (w *scenarioRun) tryAt(c Client, to netip.AddrPort, wait time.Duration) (int, netip.Addr, error) {
	conn, err := w.dial(c, to, wait)
	if err != nil {
		return -1, netip.Addr{}, err
	}
	defer conn.Close()
	return w.identify(conn, wait)
}

// nodeSocket is the number of the node's own socket, which is not a backend.
const nodeSocket = 1000

func (w *scenarioRun) nodeSocket() *backend {
	if w.node == nil {
		w.node = startBackend(nodeSocket, w.rig.ListenNode(w.t, w.v6), nil)
		w.t.Cleanup(w.node.stop)
	}
	return w.node
}

// final is an error that a retry cannot change.
type final struct{ error }

// eventually calls cond until it returns nil or a final error, or until patience has passed.
func (w *scenarioRun) eventually(cond func() error) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for d := time.Millisecond; ; d = min(2*d, 100*time.Millisecond) {
		err := cond()
		var last final
		if err == nil || errors.As(err, &last) || ctx.Err() != nil {
			return err
		}
		pause(ctx, d)
	}
}

// refused reports whether an error means that the connection was refused.
func refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func timedOut(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

// servers converts a scenario's servers into a state.
func (w *scenarioRun) servers(list []Server) *plan.State {
	state := &plan.State{Servers: map[plan.Key]*plan.VirtualServer{}}
	for _, s := range list {
		key := plan.Key{Frontend: w.frontendOf(s.Frontend, s.Exposure, w.v6 != s.Other6), Audience: s.Audience}
		v := &plan.VirtualServer{Key: key, Attributes: plan.Attributes{
			Service: object.Name{Namespace: "test", Name: "svc"}, Exposure: s.Exposure,
			Scheduler: max(s.Scheduler, plan.RoundRobin), Flags: s.Flags, Affinity: s.Affinity, Drain: s.Drain,
			WithoutBackends: s.NoBackends, Masquerade: s.Masquerade.masquerade(), Restricted: s.Only != nil,
		}}
		for _, c := range s.Only {
			addr := w.source(c).Addr()
			v.Allowed = append(v.Allowed, netip.PrefixFrom(addr, addr.BitLen()))
		}
		slices.SortFunc(v.Allowed, netip.Prefix.Compare)
		for number, weight := range s.Weights {
			v.Reals = append(v.Reals, plan.RealServer{Addr: w.backends[number].addr, Weight: uint32(weight)})
		}
		sortReals(v.Reals)
		state.Servers[key] = v
	}
	return state
}

func sortReals(reals []plan.RealServer) {
	slices.SortFunc(reals, func(a, b plan.RealServer) int { return a.Addr.Compare(b.Addr) })
}
