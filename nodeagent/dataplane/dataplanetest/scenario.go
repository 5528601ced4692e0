package dataplanetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// Scenario is a story about one plane.
type Scenario struct {
	Name string
	// Over lists the protocols to play it over; none: TCP and UDP.
	Over []plan.Protocol
	// V6 plays it with IPv6 addresses.
	V6 bool
	// Backends is how many there are, numbered from 0.
	Backends int
	Do       []Action
}

func (s *Scenario) protocols() []plan.Protocol {
	if len(s.Over) > 0 {
		return s.Over
	}
	return []plan.Protocol{plan.TCP, plan.UDP}
}

// Action is one step of a scenario.
type Action interface{ run(*world) error }

// Client is the n-th client at a vantage.
type Client struct {
	From Vantage
	N    int
}

// Weights are the backends of a server, by number.
type Weights map[int]int

// each gives backends weight 1.
func each(numbers ...int) Weights {
	w := Weights{}
	for _, n := range numbers {
		w[n] = 1
	}
	return w
}

// Server is a virtual server as a scenario describes it.
type Server struct {
	Frontend  string // a name; the same name is the same frontend
	Audience  plan.Audience
	Scheduler plan.Scheduler // default rr
	Flags     plan.Flags
	Affinity  time.Duration
	Drain     time.Duration
	Without   plan.Verdict
	Only      []Client // source ranges; nil: everybody
	Weights   Weights
}

// Program makes the plane forward exactly these servers.
type Program []Server

func (p Program) run(w *world) error {
	want := w.servers(p)
	w.apply(want)
	for key, v := range want.Servers {
		if have := w.rig.Plane().Programmed(key); have == nil || !have.Equal(v) {
			return fmt.Errorf("%s: programmed is %+v, not %+v", key, have, v)
		}
	}
	have, err := w.rig.Plane().State(w.t.Context())
	if err != nil {
		return err
	}
	have.Sources = want.Sources
	if steps := plan.Diff(have, want); len(steps) > 0 {
		return fmt.Errorf("what is read back differs: %v", steps)
	}
	return nil
}

// Ask connects Times (default once) and counts who answers.
type Ask struct {
	Client
	Frontend string
	Times    int
	Want     Weights // answers by backend
}

func (a Ask) run(w *world) error {
	got := Weights{}
	for range max(a.Times, 1) {
		n, err := w.try(a.from(), a.N, a.Frontend, patience)
		if err != nil {
			return err
		}
		got[n]++
	}
	if !maps.Equal(got, a.Want) {
		return fmt.Errorf("answers by backend %v, want %v", got, a.Want)
	}
	return nil
}

func (c Client) from() Vantage {
	if c.From == "" {
		return Inside
	}
	return c.From
}

// AskAmong connects Times as each of Clients clients; each client must be served
// by one and the same backend (Sticky) and in all by this many backends, at
// least.
type AskAmong struct {
	From     Vantage
	Frontend string
	Clients  int
	Times    int
	Sticky   bool
	AtLeast  int
	AtMost   int
}

func (a AskAmong) run(w *world) error {
	all := Weights{}
	for n := range a.Clients {
		own := Weights{}
		for range a.Times {
			b, err := w.try(Client{From: a.From}.from(), n, a.Frontend, patience)
			if err != nil {
				return err
			}
			own[b]++
			all[b]++
		}
		if a.Sticky && len(own) != 1 {
			return fmt.Errorf("client %d was served by %v", n, own)
		}
	}
	if len(all) < a.AtLeast || a.AtMost > 0 && len(all) > a.AtMost {
		return fmt.Errorf("served by %v, want %d to %d backends", all, a.AtLeast, a.AtMost)
	}
	return nil
}

// Refused connects and must be told no, at once.
type Refused struct {
	Client
	Frontend string
}

func (a Refused) run(w *world) error {
	n, err := w.try(a.from(), a.N, a.Frontend, patience)
	switch {
	case err == nil:
		return fmt.Errorf("served by %d", n)
	case !refused(err):
		return fmt.Errorf("not refused, but: %w", err)
	}
	return nil
}

// Denied connects and must not be served: refused, or met with silence.
type Denied struct {
	Client
	Frontend string
}

func (a Denied) run(w *world) error {
	n, err := w.try(a.from(), a.N, a.Frontend, silence)
	if err == nil {
		return fmt.Errorf("served by %d", n)
	}
	return nil
}

// Dropped connects to a server with verdict Drop and no backends.
type Dropped struct {
	Client
	Frontend string
}

func (a Dropped) run(w *world) error {
	n, err := w.try(a.from(), a.N, a.Frontend, silence)
	if err == nil {
		return fmt.Errorf("served by %d", n)
	}
	if w.rig.Traits().SilentDrop && !timedOut(err) {
		return fmt.Errorf("answered with %w", err)
	}
	return nil
}

// Open connects and keeps the connection under a name. Want is who may answer.
type Open struct {
	Client
	Frontend string
	Conn     string
	Want     []int
}

func (a Open) run(w *world) error {
	c, err := w.dial(a.from(), a.N, a.Frontend, patience)
	if err != nil {
		return err
	}
	w.conns[a.Conn] = c
	if c.from, err = w.who(c, patience); err != nil {
		return err
	}
	if !slices.Contains(a.Want, c.from) {
		return fmt.Errorf("answered by %d, want one of %v", c.from, a.Want)
	}
	return nil
}

// Hold opens Times connections, keeps them, and counts who answers.
type Hold struct {
	Frontend string
	Times    int
	Want     Weights
}

func (a Hold) run(w *world) error {
	got := Weights{}
	for range a.Times {
		o := Open{Frontend: a.Frontend, Conn: fmt.Sprint("held ", len(w.conns)), Want: slices.Collect(maps.Keys(a.Want))}
		if err := o.run(w); err != nil {
			return err
		}
		got[w.conns[o.Conn].from]++
	}
	if !maps.Equal(got, a.Want) {
		return fmt.Errorf("connections by backend %v, want %v", got, a.Want)
	}
	return nil
}

// Continue uses an open connection: the same backend has to answer, or with
// Moved another one.
type Continue struct {
	Conn  string
	Moved bool
}

func (a Continue) run(w *world) error {
	c := w.conns[a.Conn]
	n, err := w.who(c, patience)
	if err != nil {
		return err
	}
	if (n != c.from) != a.Moved {
		return fmt.Errorf("answered by %d, before by %d", n, c.from)
	}
	return nil
}

// Broken waits for an open connection to be cut.
type Broken struct{ Conn string }

func (a Broken) run(w *world) error {
	c := w.conns[a.Conn]
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := c.reader.ReadByte(); err == nil || timedOut(err) {
		return errors.New("still open")
	}
	return nil
}

// Cut waits for an open connection to be cut by the plane: at once, or where the
// plane cuts on use, when it is used.
type Cut struct{ Conn string }

func (a Cut) run(w *world) error {
	if !w.rig.Traits().CutsOnUse {
		return Broken(a).run(w)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for {
		if _, err := w.who(w.conns[a.Conn], patience); err != nil {
			if !refused(err) {
				return fmt.Errorf("not cut, but: %w", err)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("still open")
		case <-pause.C:
		}
	}
}

// HalfClose ends the client's direction of an open TCP connection; the backend
// must see that, and its last words must arrive.
type HalfClose struct{ Conn string }

func (a HalfClose) run(w *world) error {
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

// Transfer sends Size bytes through an open connection and wants them back.
type Transfer struct {
	Conn string
	Size int
}

func (a Transfer) run(w *world) error {
	text := strings.Repeat("portolan", a.Size/8)
	answer, err := w.say(w.conns[a.Conn], "echo "+text, patience)
	if err != nil {
		return err
	}
	if answer != text {
		return fmt.Errorf("%d bytes came back changed, of %d", len(answer), len(text))
	}
	return nil
}

// Stop ends a backend without telling the plane.
type Stop struct{ Backend int }

func (a Stop) run(w *world) error {
	w.backends[a.Backend].stop()
	return nil
}

// AskDead connects where one backend is dead: a plane that retries serves all
// clients, another one may lose some.
type AskDead struct {
	Frontend string
	Times    int
	Alive    []int
}

func (a AskDead) run(w *world) error {
	for range a.Times {
		n, err := w.try(Inside, 0, a.Frontend, patience)
		if err != nil && w.rig.Traits().Retries {
			return err
		}
		if err == nil && !slices.Contains(a.Alive, n) {
			return fmt.Errorf("served by %d, which is dead", n)
		}
	}
	return nil
}

// AddSCTP adds an SCTP server, which has to work or to fail cleanly.
type AddSCTP struct{}

func (AddSCTP) run(w *world) error {
	key := plan.Key{Frontend: plan.Frontend{Addr: w.frontend("").Addr, Protocol: plan.SCTP}}
	failed := w.rig.Plane().Apply(w.t.Context(), []plan.Step{{Op: plan.AddServer, Key: key, Server: &plan.VirtualServer{Key: key}}})
	if w.rig.Traits().SCTP {
		if len(failed) > 0 {
			return failed[0].Err
		}
		w.rig.Plane().Apply(w.t.Context(), []plan.Step{{Op: plan.DeleteServer, Key: key}})
		return nil
	}
	if len(failed) != 1 || !errors.Is(failed[0].Err, dataplane.ErrNotSupported) || failed[0].Remedy == "" {
		return fmt.Errorf("failures %+v, want one that is not supported, with a remedy", failed)
	}
	if w.rig.Plane().Programmed(key) != nil {
		return errors.New("it counts as programmed")
	}
	return nil
}
