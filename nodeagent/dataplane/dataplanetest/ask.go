package dataplanetest

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"portolan.dev/nodeagent/plan"
)

// Sight is what a backend sees of a client.
type Sight uint8

// The sights.
const (
	Anything Sight = iota
	Own            // the client's own address
	Hidden         // another one
)

// Ask connects Times (default once) and counts who answers.
type Ask struct {
	Client
	Frontend string
	Times    int
	Want     Weights // answers by backend
	Sees     Sight
}

func (a Ask) run(w *world) error {
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

// sees compares what a backend saw of a client with what it is to see.
func (w *world) sees(c Client, want Sight, seen netip.Addr) error {
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

// shares compares who answered with who had to. Where the plane has another
// scheduler than the server, or no turns, it must be one of them at least.
func (w *world) shares(frontend string, got, want Weights) error {
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

// AskAmong connects Times as each of Clients clients. Each client must be served
// by one and the same backend (Sticky), and all clients together by this many
// backends.
type AskAmong struct {
	From     Vantage
	Frontend string
	Clients  int
	Times    int
	Sticky   bool
	AtLeast  int
	AtMost   int
	Not      []int // backends that must not answer
}

func (a AskAmong) run(w *world) error {
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

// AskHeld connects as each of Clients clients, who are hashed to backends of
// which only one takes new connections. Where hashes hold, it serves some of them
// and the others are refused.
type AskHeld struct {
	Frontend string
	Clients  int
	Backend  int
}

func (a AskHeld) run(w *world) error {
	served, held := 0, 0
	for n := range a.Clients {
		b, _, err := w.try(Client{N: n}, a.Frontend, patience)
		switch {
		case err != nil && !refused(err):
			return err
		case err != nil:
			held++
		case b != a.Backend:
			return fmt.Errorf("client %d was served by %d", n, b)
		default:
			served++
		}
	}
	if served == 0 || (held > 0) != w.traits.HashHolds {
		return fmt.Errorf("%d clients were served, %d refused", served, held)
	}
	return nil
}

// Refused connects and must be told no, at once.
type Refused struct {
	Client
	Frontend string
}

func (a Refused) run(w *world) error {
	n, _, err := w.try(a.Client, a.Frontend, patience)
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

func (a Dropped) run(w *world) error {
	n, _, err := w.try(a.Client, a.Frontend, silence)
	if err == nil {
		return fmt.Errorf("served by %d", n)
	}
	if w.traits.SilentDrop && !timedOut(err) {
		return fmt.Errorf("answered with %w", err)
	}
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

// Stray connects to the address of a frontend, at the port of a socket of the
// node that listens on all addresses.
type Stray struct {
	Client
	Frontend string
}

func (a Stray) run(w *world) error {
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

// OwnSocket connects to the same socket at the node's own address, where it is
// served by no plane.
type OwnSocket struct{ Client }

func (a OwnSocket) run(w *world) error {
	at := netip.AddrPortFrom(w.rig.NodeAddrs(w.v6)[0], w.nodeSocket().addr.Port())
	n, _, err := w.tryAt(a.Client, at, patience)
	if err != nil || n != nodeSocket {
		return fmt.Errorf("served by %d, %w, and not by the node's own socket", n, err)
	}
	return nil
}

// Forgotten waits until a client that asks only now and then, with Silent in
// between, is served by another backend than before: nothing keeps it at one.
// Where a plane pins clients, this one must be where it was.
type Forgotten struct {
	Client
	Frontend string
	Backend  int
	Silent   time.Duration
}

func (a Forgotten) run(w *world) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for ctx.Err() == nil {
		pause(ctx, a.Silent)
		n, _, err := w.try(a.Client, a.Frontend, patience)
		switch {
		case err != nil:
			return err
		case w.traits.PinsClients && n != a.Backend:
			return fmt.Errorf("served by %d, though flows to %d are remembered", n, a.Backend)
		case w.traits.PinsClients || n != a.Backend:
			return nil
		}
	}
	return fmt.Errorf("still served by %d", a.Backend)
}

// Remembered connects twice where affinity began before a restart: where the
// plane remembers clients, this backend has to answer.
type Remembered struct {
	Client
	Frontend string
	Backend  int
}

func (a Remembered) run(w *world) error {
	if w.traits.RemembersClients {
		return Ask{Client: a.Client, Frontend: a.Frontend, Times: 2, Want: Weights{a.Backend: 2}}.run(w)
	}
	return AskAmong{From: a.From, Frontend: a.Frontend, Clients: a.N + 1, Times: 2, Sticky: true}.run(w)
}
