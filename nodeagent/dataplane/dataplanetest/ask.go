package dataplanetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"portolan.dev/nodeagent/plan"
)

// SourceSeen is the source address of a client as a backend sees it.
type SourceSeen uint8

// The values of SourceSeen.
const (
	Anything SourceSeen = iota
	Own                 // the client's own address
	Hidden              // another address
)

// Ask connects Times (default once) and counts the answers by backend.
type Ask struct {
	Client
	Frontend string
	Times    int
	Want     Weights // answers by backend
	Sees     SourceSeen
}

func (a Ask) run(w *scenarioRun) error {
	got := Weights{}
	for range max(a.Times, 1) {
		n, seen, err := w.try(a.Client, a.Frontend, patience)
		if err != nil {
			return err
		}
		got[n]++
		if err := w.sees(a.Client, a.Sees, seen); err != nil {
			return err
		}
	}
	return w.shares(a.Frontend, got, a.Want)
}

// sees compares the address that a backend saw with the expected one.
func (w *scenarioRun) sees(c Client, want SourceSeen, seen netip.Addr) error {
	if want == Anything {
		return nil
	}
	if w.traits.HidesClients {
		want = Hidden
	}
	if own := seen == w.source(c).Addr(); own != (want == Own) {
		return fmt.Errorf("the backend sees %s of a client at %s", seen, w.source(c).Addr())
	}
	return nil
}

// shares compares the answers by backend with the expected ones. If the plane replaced the
// scheduler, or has no turns, each answer must come from one of the expected backends.
func (w *scenarioRun) shares(frontend string, got, want Weights) error {
	exact := w.traits.Turns || len(want) == 1
	if v := w.serverOf(frontend); v != nil && v.Scheduler != plan.RoundRobin && v.Affinity == 0 {
		exact = w.traits.has(v.Scheduler)
	}
	if exact {
		if !maps.Equal(got, want) {
			return fmt.Errorf("answers by backend %v, want %v", got, want)
		}
		return nil
	}
	for n := range got {
		if want[n] == 0 && !w.weighs(frontend, n) {
			return fmt.Errorf("answers by backend %v, want them from %v", got, want)
		}
	}
	return nil
}

// AskAmong connects Times as each of Clients clients. If Sticky is set, the same backend must serve
// all connections of a client. All clients together must be served by AtLeast to AtMost backends.
type AskAmong struct {
	From     ClientLocation
	Frontend string
	Clients  int
	Times    int
	Sticky   bool
	AtLeast  int
	AtMost   int
	Not      []int // backends that must not answer
}

func (a AskAmong) run(w *scenarioRun) error {
	all := Weights{}
	for n := range a.Clients {
		own := Weights{}
		for range a.Times {
			b, _, err := w.try(Client{a.From, n}, a.Frontend, patience)
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
	for _, n := range a.Not {
		if all[n] > 0 {
			return fmt.Errorf("served by %v, and not by %v", all, a.Not)
		}
	}
	return nil
}

// Refused connects and must be refused at once.
type Refused struct {
	Client
	Frontend string
}

func (a Refused) run(w *scenarioRun) error {
	n, _, err := w.try(a.Client, a.Frontend, patience)
	return checkRefused(n, err)
}

// checkRefused returns an error unless err says that the connection was refused. If err is nil, n is the
// backend that answered.
func checkRefused(n int, err error) error {
	switch {
	case err == nil:
		return fmt.Errorf("served by %d", n)
	case !refused(err):
		return fmt.Errorf("not refused, but: %w", err)
	}
	return nil
}

// ServedAfterRefusal connects and must be refused. After Then it connects again from the same port,
// and must be served: the kernel's state of the refused connection must not disturb the next one.
type ServedAfterRefusal struct {
	Client
	Then Program
	Want Weights
}

// refusedPorts is the number of source ports that ServedAfterRefusal has used. They begin at 31001,
// where no other connection of the suite has its port.
var refusedPorts atomic.Uint32

func (a ServedAfterRefusal) run(w *scenarioRun) error {
	to := w.frontend("").Addr
	source := netip.AddrPortFrom(w.source(a.Client).Addr(), uint16(31000+refusedPorts.Add(1)))
	dial := func() (int, error) {
		c, err := w.dialFrom(a.From, source, to, patience)
		if err != nil {
			return 0, err
		}
		defer c.Close()
		n, _, err := w.identify(c, patience)
		return n, err
	}
	if err := checkRefused(dial()); err != nil {
		return err
	}
	if err := a.Then.run(w); err != nil {
		return err
	}
	n, err := dial()
	if err != nil {
		return fmt.Errorf("from the port of a refused connection: %w", err)
	}
	return w.shares("", Weights{n: 1}, a.Want)
}

// Denied connects and must not be served: it is refused or gets no answer.
type Denied struct {
	Client
	Frontend string
}

func (a Denied) run(w *scenarioRun) error {
	if n, _, err := w.try(a.Client, a.Frontend, silence); err == nil {
		return fmt.Errorf("served by %d", n)
	}
	return nil
}

// Dropped connects to a server with verdict Drop and no backends.
type Dropped struct {
	Client
	Frontend string
}

func (a Dropped) run(w *scenarioRun) error {
	n, _, err := w.try(a.Client, a.Frontend, silence)
	if err == nil {
		return fmt.Errorf("served by %d", n)
	}
	if w.traits.SilentDrop && !timedOut(err) {
		return fmt.Errorf("answered with %w", err)
	}
	return nil
}

// AskDead connects to a server with one dead backend. A plane that retries must serve all clients,
// another one may lose some.
type AskDead struct {
	Frontend string
	Times    int
	Alive    []int
}

func (a AskDead) run(w *scenarioRun) error {
	for range a.Times {
		n, _, err := w.try(Client{}, a.Frontend, patience)
		if err != nil && w.traits.Retries {
			return err
		}
		if err == nil && !slices.Contains(a.Alive, n) {
			return fmt.Errorf("served by %d, which is dead", n)
		}
	}
	return nil
}

// ConnectNodeSocket connects to the address of a frontend, at the port of a socket of the node that
// listens on all addresses.
type ConnectNodeSocket struct {
	Client
	Frontend string
}

func (a ConnectNodeSocket) run(w *scenarioRun) error {
	at := netip.AddrPortFrom(w.frontend(a.Frontend).Addr.Addr(), w.nodeSocket().addr.Port())
	n, _, err := w.tryAt(a.Client, at, patience)
	switch {
	case !w.traits.Guards && (err != nil || n != nodeSocket):
		return fmt.Errorf("served by %d, %w, and not by the node's own socket", n, err)
	case w.traits.Guards && err == nil:
		return fmt.Errorf("served by %d", n)
	case w.traits.Guards && !refused(err):
		return fmt.Errorf("not refused, but: %w", err)
	}
	return nil
}

// OwnSocket connects to the same socket at the node's own address, where no plane forwards.
type OwnSocket struct{ Client }

func (a OwnSocket) run(w *scenarioRun) error {
	at := netip.AddrPortFrom(w.rig.NodeAddrs(w.v6)[0], w.nodeSocket().addr.Port())
	n, _, err := w.tryAt(a.Client, at, patience)
	if err != nil || n != nodeSocket {
		return fmt.Errorf("served by %d, %w, and not by the node's own socket", n, err)
	}
	return nil
}

// Forgotten connects at intervals of Silent until another backend than before serves the client,
// because its affinity has ended. With the trait PinsClients the same backend must serve it, and with
// KeepsAffinity too if the time of affinity was changed after the client's first connection.
type Forgotten struct {
	Client
	Frontend string
	Backend  int
	Silent   time.Duration
	Changed  bool // the time of affinity
}

func (a Forgotten) run(w *scenarioRun) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	stays := w.traits.PinsClients || a.Changed && w.traits.KeepsAffinity
	for ctx.Err() == nil {
		pause(ctx, a.Silent)
		n, _, err := w.try(a.Client, a.Frontend, patience)
		switch {
		case err != nil:
			return err
		case stays && n != a.Backend:
			return fmt.Errorf("served by %d, though flows to %d are remembered", n, a.Backend)
		case stays || n != a.Backend:
			return nil
		}
	}
	return fmt.Errorf("still served by %d", a.Backend)
}

// Lengthened programs a frontend with a short time of affinity, and with a long one once a client is known. The
// client connects in time, and is served by the same backend after it was silent for longer than the short time. A
// client that the machine was too slow for is followed by another one.
type Lengthened struct{ Short time.Duration }

func (a Lengthened) run(w *scenarioRun) error {
	for n := range 10 {
		client, began := Client{Inside, n}, time.Now()
		for _, step := range []Action{
			Program{{Affinity: a.Short, Weights: each(0)}}, Ask{Client: client, Want: each(0)},
			Program{{Affinity: long, Weights: each(0, 1)}},
		} {
			if err := step.run(w); err != nil {
				return err
			}
		}
		if _, _, err := w.try(client, "", patience); err != nil {
			return err
		}
		if time.Since(began) >= a.Short {
			continue
		}
		pause(w.t.Context(), a.Short+time.Second)
		return Ask{Client: client, Times: 2, Want: Weights{0: 2}}.run(w)
	}
	return errors.New("the machine is too slow for any client")
}

// Remembered connects twice after a restart, with affinity from before it. With the trait
// RemembersClients, this backend must answer.
type Remembered struct {
	Client
	Frontend string
	Backend  int
}

func (a Remembered) run(w *scenarioRun) error {
	if w.traits.RemembersClients {
		return Ask{Client: a.Client, Frontend: a.Frontend, Times: 2, Want: Weights{a.Backend: 2}}.run(w)
	}
	return AskAmong{From: a.From, Frontend: a.Frontend, Clients: a.N + 1, Times: 2, Sticky: true}.run(w)
}
