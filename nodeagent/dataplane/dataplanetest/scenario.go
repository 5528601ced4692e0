package dataplanetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// Scenario is a story about one plane.
type Scenario struct {
	Name string
	// Over lists the protocols to play it over; none: TCP and UDP.
	Over []plan.Protocol
	// V6 says whether it is played with IPv6 too.
	V6 Family6
	// Forges: it sends packets that no socket would send.
	Forges bool
	// Backends is how many there are, numbered from 0. Others6 more follow, of the
	// other family.
	Backends, Others6 int
	Do                []Action
}

// Family6 says how a scenario uses IPv6.
type Family6 uint8

// The uses of IPv6.
const (
	Without6 Family6 = iota
	Also6            // it is played with IPv4 and with IPv6
	Sources6         // the same, and its clients differ in their addresses
)

// variant is a way to play a scenario.
type variant struct {
	protocol plan.Protocol
	v6       bool
}

// String returns a word for the names of tests.
func (v variant) String() string {
	if v.v6 {
		return v.protocol.String() + "6"
	}
	return v.protocol.String()
}

func (s *Scenario) variants() []variant {
	over := s.Over
	if len(over) == 0 {
		over = []plan.Protocol{plan.TCP, plan.UDP}
	}
	var out []variant
	for _, p := range over {
		out = append(out, variant{p, false})
		if s.V6 != Without6 {
			out = append(out, variant{p, true})
		}
	}
	return out
}

// lacks says what a machine lacks to play it; empty: nothing.
func (v variant) lacks(rig Rig, s Scenario) string {
	m, t := rig.Machine(), rig.Traits()
	switch {
	case (v.v6 || s.Others6 > 0) && !m.IPv6:
		return "no IPv6 on this machine"
	case v.v6 && s.V6 == Sources6 && !m.Sources6:
		return "one IPv6 address is all that clients have here"
	case s.Forges && !forges(rig):
		return "packets can only be sent by sockets here"
	case v.protocol == plan.SCTP && t.SCTP && !m.SCTP:
		return "no SCTP on this machine"
	}
	return ""
}

func forges(rig Rig) bool {
	_, ok := rig.(Forger)
	return ok
}

// Action is one step of a scenario.
type Action interface{ run(w *world) error }

// Client is the n-th client at a vantage; without one it is inside.
type Client struct {
	From Vantage
	N    int
}

// Weights are the backends of a server, or what they got, by number.
type Weights map[int]int

// each gives backends weight 1.
func each(numbers ...int) Weights {
	w := Weights{}
	for _, n := range numbers {
		w[n] = 1
	}
	return w
}

// Hiding says which clients backends do not get to see.
type Hiding uint8

// The ways to hide clients.
const (
	HideAll Hiding = iota
	HideOutside
	HideNone
)

func (h Hiding) masquerade() plan.Masquerade {
	return [...]plan.Masquerade{plan.MasqueradeAlways, plan.MasqueradeOutside, plan.MasqueradeNever}[h]
}

// Server is a virtual server as a scenario describes it.
type Server struct {
	Frontend  string        // a name; the same name is the same frontend
	Exposure  plan.Exposure // of the frontend, when its name is new
	Other6    bool          // the frontend is of the other family
	Audience  plan.Audience
	Scheduler plan.Scheduler // default rr
	Flags     plan.Flags
	Affinity  time.Duration
	Drain     time.Duration
	Without   plan.Verdict
	Hide      Hiding
	Only      []Client // source ranges; nil: everybody
	Weights   Weights
}

// Podless takes the ranges of pods from the plane, with the next change.
type Podless struct{}

func (Podless) run(w *world) error {
	w.podless = true
	return nil
}

// Program makes the plane forward exactly these servers.
type Program []Server

func (p Program) run(w *world) error { return w.program(w.servers(p)) }

// program brings the plane to a state, and looks whether it is there.
func (w *world) program(want *plan.State) error {
	failed := w.apply(want)
	for _, v := range want.Servers {
		f, reported := failed[v.Key]
		lacking := !w.traits.has(v.Scheduler)
		delete(failed, v.Key)
		switch {
		case reported && !lacking:
			return fmt.Errorf("%s: %w (%s)", f.Step, f.Err, f.Remedy)
		case reported && (!errors.Is(f.Err, dataplane.ErrNotSupported) || f.Remedy == ""):
			return fmt.Errorf("%s: %w (%s), want not supported, with a remedy", f.Step, f.Err, f.Remedy)
		case !reported && lacking && w.fresh[v.Key]:
			return fmt.Errorf("%s: scheduler %s is not reported to be lacking", v.Key, v.Scheduler)
		}
		if err := w.inForce(v, lacking); err != nil {
			return err
		}
	}
	for _, f := range failed {
		return fmt.Errorf("%s: %w (%s)", f.Step, f.Err, f.Remedy)
	}
	return w.readBack(want)
}

// inForce looks whether a server counts as programmed.
func (w *world) inForce(v *plan.VirtualServer, lacking bool) error {
	have := w.rig.Plane().Programmed(v.Key)
	if have == nil {
		return fmt.Errorf("%s is not programmed", v.Key)
	}
	got := *have
	if lacking {
		got.Scheduler = v.Scheduler
	}
	if !got.Equal(v) {
		return fmt.Errorf("%s: programmed is %+v, not %+v", v.Key, have, v)
	}
	return nil
}

// readBack looks whether the plane finds what it was told.
func (w *world) readBack(want *plan.State) error {
	have, err := w.rig.Plane().State(w.t.Context())
	if err != nil {
		return err
	}
	have.Sources = want.Sources
	steps := slices.DeleteFunc(plan.Diff(have, want), func(s plan.Step) bool {
		return s.Op == plan.UpdateServer && !w.traits.has(s.Server.Scheduler)
	})
	if len(steps) > 0 {
		return fmt.Errorf("what is read back differs: %v", steps)
	}
	return nil
}
