package dataplanetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/plan"
)

// Scenario is a sequence of actions with one plane.
type Scenario struct {
	Name string
	// Over lists the protocols of the variants; none: TCP and UDP.
	Over []plan.Protocol
	// V6 selects the variants with IPv6.
	V6 Family6
	// Forges is set if the scenario sends packets that no socket would send.
	Forges bool
	// Kills is set if the scenario kills the plane's process during a change.
	Kills bool
	// Backends is the number of backends, numbered from 0. They are followed by Others6 backends of
	// the other family.
	Backends, Others6 int
	Do                []Action
}

// Family6 is the use of IPv6 in a scenario.
type Family6 uint8

// The uses of IPv6.
const (
	Without6 Family6 = iota
	Also6            // variants with IPv4 and with IPv6
	Sources6         // as Also6, and its clients or frontends need different addresses
)

// variant is a protocol and family to run a scenario with.
type variant struct {
	protocol plan.Protocol
	v6       bool
}

// String returns the variant's part of a test name.
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

// lacks returns a reason why the scenario cannot run on the rig's machine, or an empty string.
func (v variant) lacks(rig Rig, s Scenario) string {
	m, t := rig.Machine(), rig.Traits()
	switch {
	case (v.v6 || s.Others6 > 0) && !m.IPv6:
		return "no IPv6 on this machine"
	case v.v6 && s.V6 == Sources6 && !m.Sources6:
		return "one IPv6 address is all that clients have here"
	case s.Forges && !forges(rig):
		return "packets can only be sent by sockets here"
	case s.Kills && !kills(rig):
		return "the process of the plane cannot be killed alone here"
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
type Action interface{ run(w *scenarioRun) error }

// Client is the n-th client at a location. The default location is Inside.
type Client struct {
	From ClientLocation
	N    int
}

// Weights maps backends, by number, to their weights or to their numbers of answers.
type Weights map[int]int

// each returns weight 1 for each of the backends.
func each(numbers ...int) Weights {
	w := Weights{}
	for _, n := range numbers {
		w[n] = 1
	}
	return w
}

// Masquerading selects the clients that have their source addresses replaced.
type Masquerading uint8

// The choices.
const (
	MasqueradeAll Masquerading = iota
	MasqueradeOutside
	MasqueradeNone
)

func (h Masquerading) masquerade() plan.Masquerade {
	return [...]plan.Masquerade{plan.MasqueradeAlways, plan.MasqueradeOutside, plan.MasqueradeNever}[h]
}

// Server is a virtual server in a scenario.
type Server struct {
	Frontend   string        // a name; equal names are the same frontend
	Exposure   plan.Exposure // exposure of the frontend if its name is new
	Other6     bool          // whether the frontend is of the other family
	Audience   plan.Audience
	Scheduler  plan.Scheduler // default rr
	Flags      plan.Flags
	Affinity   time.Duration
	Drain      time.Duration
	NoBackends plan.NoBackendsAction
	Masquerade Masquerading
	Only       []Client // source ranges; nil: all clients
	Weights    Weights
}

// WithoutPodRanges removes the ranges of pods from the plane with the next change.
type WithoutPodRanges struct{}

func (WithoutPodRanges) run(w *scenarioRun) error {
	w.podless = true
	return nil
}

// Program makes the plane forward exactly these servers.
type Program []Server

func (p Program) run(w *scenarioRun) error { return w.program(w.servers(p)) }

// program brings the plane to a state, and checks that the state is in force.
func (w *scenarioRun) program(want *plan.State) error {
	failed := w.apply(want)
	var reports []plan.Frontend
	for _, v := range want.Servers {
		f, reported := failed[v.Frontend]
		lacking := !w.traits.has(v.Scheduler)
		reports = append(reports, v.Frontend)
		switch {
		case reported && !lacking:
			return fmt.Errorf("%s: %w (%s)", f.Frontend, f.Err, f.Remedy)
		case reported && (!errors.Is(f.Err, dataplane.ErrNotSupported) || f.Remedy == ""):
			return fmt.Errorf("%s: %w (%s), want not supported, with a remedy", f.Frontend, f.Err, f.Remedy)
		case !reported && lacking && w.changed[v.Frontend]:
			return fmt.Errorf("%s: scheduler %s is not reported to be lacking", v.Key, v.Scheduler)
		}
		if err := w.inForce(v, lacking); err != nil {
			return err
		}
	}
	for _, at := range reports {
		delete(failed, at)
	}
	for _, f := range failed {
		return fmt.Errorf("%s: %w (%s)", f.Frontend, f.Err, f.Remedy)
	}
	return w.readBack(want)
}

// inForce checks that a server counts as programmed.
func (w *scenarioRun) inForce(v *plan.VirtualServer, lacking bool) error {
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

// readBack checks that the plane reads back the wanted state.
func (w *scenarioRun) readBack(want *plan.State) error {
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
