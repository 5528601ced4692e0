package dataplanetest

import (
	"time"

	"portolan.dev/nodeagent/plan"
)

// long is a time that does not end within a scenario.
const long = time.Hour

// sticking returns the scenarios with affinity.
func sticking() []Scenario {
	return []Scenario{
		{Name: "affinity", V6: Sources6, Backends: 3, Do: []Action{
			Program{{Affinity: long, Weights: each(0, 1, 2)}},
			AskAmong{Clients: 6, Times: 4, Sticky: true, AtLeast: 2},
		}},
		{Name: "affinity ends after its time", Over: onlyUDP, V6: Also6, Backends: 2, Do: []Action{
			Program{{Affinity: time.Second, Weights: each(0)}},
			Ask{Want: each(0)},
			Program{{Affinity: time.Second, Weights: each(0, 1)}},
			Forgotten{Backend: 0, Silent: 2 * time.Second},
		}},
		{Name: "a shorter affinity reaches known clients", Backends: 2, Do: []Action{
			Program{{Affinity: long, Weights: each(0)}},
			Ask{Want: each(0)},
			Program{{Affinity: time.Second, Weights: each(0, 1)}},
			Forgotten{Backend: 0, Silent: 2 * time.Second, Changed: true},
		}},
		{Name: "a longer affinity reaches known clients", Backends: 2, Do: []Action{
			Lengthened{Short: 3 * time.Second},
		}},
		{Name: "affinity ends with its backend", Backends: 2, Do: []Action{
			Program{{Affinity: long, Weights: each(0)}},
			Ask{Times: 3, Want: Weights{0: 3}},
			Program{{Affinity: long, Weights: each(0, 1)}},
			Ask{Times: 4, Want: Weights{0: 4}},
			Program{{Affinity: long, Weights: each(1)}},
			Ask{Times: 3, Want: Weights{1: 3}},
			Program{{Affinity: long, Weights: each(0, 1)}},
			Ask{Times: 4, Want: Weights{1: 4}},
		}},
		{Name: "affinity leaves a backend that drains", Backends: 2, Do: []Action{
			Program{{Affinity: long, Drain: long, Weights: each(0)}},
			Ask{Want: each(0)},
			Program{{Affinity: long, Drain: long, Weights: Weights{0: 0, 1: 1}}},
			Ask{Times: 4, Want: Weights{1: 4}},
		}},
		{Name: "affinity can be switched on and off in place", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Weights: each(0, 1)}},
			Open{Conn: "c", Want: []int{0, 1}},
			Program{{Affinity: long, Weights: each(0, 1)}},
			AskAmong{Clients: 2, Times: 4, Sticky: true, AtLeast: 1},
			Program{{Weights: each(0, 1)}},
			Ask{Times: 4, Want: Weights{0: 2, 1: 2}},
			Continue{Conn: "c"},
		}},
		{Name: "affinity, draining and a restart", Over: onlyTCP, Backends: 3, Do: []Action{
			Program{{Affinity: long, Drain: long, Weights: each(0)}},
			Open{Conn: "drains", Want: []int{0}},
			Program{{Affinity: long, Drain: long, Weights: each(1)}},
			Ask{Client: in0, Times: 2, Want: Weights{1: 2}},
			Ask{Client: in1, Times: 2, Want: Weights{1: 2}},
			Program{{Affinity: long, Drain: long, Weights: each(1, 2)}},
			Restart{},
			Outlives{Conn: "drains"},
			Remembered{Client: in0, Backend: 1},
			Remembered{Client: in1, Backend: 1},
			AskAmong{From: Outside, Clients: 6, Times: 3, Sticky: true, AtLeast: 1, Not: []int{0}},
			Program{{Affinity: long, Drain: long, Weights: each(0, 1, 2)}},
			Outlives{Conn: "drains"},
			Remembered{Client: in0, Backend: 1},
		}},
	}
}

// draining returns the scenarios in which backends are removed.
func draining() []Scenario {
	return []Scenario{
		{Name: "a connection outlives its backend's removal", Over: onlyTCP, V6: Also6, Backends: 2, Do: []Action{
			Program{{Drain: long, Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Program{{Drain: long, Weights: each(1)}},
			Ask{Times: 4, Want: Weights{1: 4}},
			Continue{Conn: "c"},
			Program{{Drain: long, Weights: each(0, 1)}},
			Continue{Conn: "c"},
			Ask{Times: 4, Want: Weights{0: 2, 1: 2}},
			Continue{Conn: "c"},
		}},
		{Name: "a connection outlives its server's removal and return", Over: onlyTCP, Backends: 1, Do: []Action{
			Program{{Drain: long, Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Program{},
			Refused{},
			Continue{Conn: "c"},
			Program{{Drain: long, Weights: each(0)}},
			Ask{Want: each(0)},
			Continue{Conn: "c"},
		}},
		{Name: "draining has an end", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Drain: time.Second, Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Program{{Drain: time.Second, Weights: each(1)}},
			Cut{Conn: "c"},
			Ask{Want: each(1)},
		}},
		{Name: "a client that waits for a dead backend is sent to another", Over: onlyTCP, V6: Also6, Backends: 2, Do: []Action{
			Program{{Drain: long, Weights: each(0)}},
			Mute{Backend: 0},
			Call{Conn: "c", Unanswered: 0},
			Program{{Drain: long, Weights: each(1)}},
			Answered{Conn: "c", Backend: 1},
		}},
		{Name: "changes in place break nothing", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Program{{Scheduler: plan.LeastConnections, Weights: each(0, 1)}},
			Continue{Conn: "c"},
			Program{{Scheduler: plan.SourceHash, Affinity: long, Drain: time.Minute, Weights: Weights{0: 7, 1: 1}}},
			Continue{Conn: "c"},
		}},
	}
}

// restarting returns the scenarios in which the plane's process restarts.
func restarting() []Scenario {
	return []Scenario{
		{Name: "a restart", Over: onlyTCP, V6: Sources6, Backends: 2, Do: []Action{
			Program{
				{Frontend: "stays", Drain: long, Weights: each(0, 1)},
				{Frontend: "split", Drain: long, Audience: plan.Internal, Weights: each(0)},
				{Frontend: "split", Drain: long, Audience: plan.External, Masquerade: MasqueradeNone, Weights: each(1)},
				{Frontend: "goes", Weights: each(0)},
				{Frontend: "empty"},
			},
			Open{Frontend: "stays", Conn: "drains", Want: []int{0, 1}},
			Open{Frontend: "split", Client: out0, Conn: "out", Want: []int{1}},
			Open{Frontend: "split", Client: in0, Conn: "in", Want: []int{0}},
			Program{
				{Frontend: "stays", Drain: long},
				{Frontend: "split", Drain: long, Audience: plan.Internal, Weights: each(0)},
				{Frontend: "split", Drain: long, Audience: plan.External, Masquerade: MasqueradeNone, Weights: each(1)},
				{Frontend: "goes", Weights: each(0)},
				{Frontend: "empty"},
			},
			Restart{},
			Outlives{Conn: "drains"},
			Outlives{Conn: "out"},
			Outlives{Conn: "in"},
			Refused{Frontend: "stays"},
			Refused{Frontend: "empty"},
			Ask{Frontend: "split", Client: out0, Want: each(1), Sees: Own},
			Ask{Frontend: "split", Client: in0, Want: each(0)},
			Program{
				{Frontend: "stays", Drain: long, Weights: each(0, 1)},
				{Frontend: "split", Drain: long, Weights: each(0, 1)},
			},
			Outlives{Conn: "drains"},
			Outlives{Conn: "out"},
			Ask{Frontend: "stays", Times: 2, Want: each(0, 1)},
			Refused{Frontend: "goes"},
		}},
		{Name: "kill -9 between any two messages", Over: onlyTCP, Kills: true, Backends: 4, Do: []Action{
			Program{{Frontend: "stays", Drain: long, Weights: each(0)}},
			Open{Frontend: "stays", Conn: "c", Want: []int{0}},
			KilledBetween{
				Before: Program{
					{Frontend: "stays", Drain: long, Weights: each(0, 1)},
					{Frontend: "split", Drain: long, Exposure: plan.LoadBalancerIP, Audience: plan.Internal, Weights: each(0)},
					{Frontend: "split", Drain: long, Exposure: plan.LoadBalancerIP, Audience: plan.External, Masquerade: MasqueradeNone, Weights: each(1)},
					{Frontend: "goes", Weights: each(0)},
				},
				After: Program{
					{Frontend: "stays", Drain: long, Affinity: long, Weights: Weights{0: 1, 2: 5}},
					{Frontend: "split", Drain: long, Exposure: plan.LoadBalancerIP, Only: []Client{in0, out0}, Weights: each(2, 3)},
					{Frontend: "comes", Exposure: plan.ExternalIP, Audience: plan.External, Weights: each(3)},
				},
				Served: []string{"stays", "split"}, Conn: "c",
			},
			Ask{Client: out0, Frontend: "comes", Want: each(3)},
			Refused{Frontend: "goes"},
			Cleanup{},
		}},
		{Name: "restarts under load", Over: onlyTCP, Backends: 3, Do: []Action{
			Program{{Drain: long, Weights: each(0, 1)}},
			RestartsUnderLoad{Programs: []Program{
				{{Drain: long, Weights: each(1, 2)}},
				{{Drain: long, Audience: plan.Internal, Weights: each(2)}, {Drain: long, Audience: plan.External, Weights: each(0)}},
				{{Drain: long, Weights: each(0, 1, 2)}},
			}},
		}},
	}
}

// udp returns the scenarios with UDP flows, which have no end that a test could wait for.
func udp() []Scenario {
	return []Scenario{
		{Name: "UDP moves at once", Over: onlyUDP, V6: Also6, Backends: 2, Do: []Action{
			Program{{Drain: long, Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Continue{Conn: "c"},
			Program{{Drain: long, Weights: each(1)}},
			Continue{Conn: "c", Moved: true},
			Program{{Drain: long, Weights: each(0)}},
			Continue{Conn: "c"},
		}},
		{Name: "UDP to nobody, and then to somebody", Over: onlyUDP, V6: Also6, Backends: 1, Do: []Action{
			Program{{Drain: long}},
			SendOnly{Conn: "c"},
			SendOnly{Client: out0, Conn: "out"},
			Program{{Drain: long, Weights: each(0)}},
			Continue{Conn: "c", Moved: true},
			Continue{Conn: "out", Moved: true},
			Program{{Drain: long}},
			RefusedOn{Conn: "c"},
			Program{{Drain: long, Weights: each(0)}},
			Continue{Conn: "c", Moved: true},
			Program{},
			RefusedOn{Conn: "c"},
			Program{{Drain: long, Weights: each(0)}},
			Continue{Conn: "c", Moved: true},
		}},
		{Name: "UDP to silence, and then to somebody", Over: onlyUDP, Backends: 2, Do: []Action{
			Program{{Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External, NoBackends: plan.Drop}},
			SendOnly{Client: out0, Conn: "c"},
			Program{{Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External, NoBackends: plan.Drop, Weights: each(1)}},
			Continue{Conn: "c", Moved: true},
			Program{{Weights: each(0)}},
			Continue{Conn: "c", Moved: true},
		}},
	}
}
