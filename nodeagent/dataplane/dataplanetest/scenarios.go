package dataplanetest

import (
	"time"

	"portolan.dev/nodeagent/plan"
)

var (
	onlyTCP = []plan.Protocol{plan.TCP}
	onlyUDP = []plan.Protocol{plan.UDP}
)

// scenarios are the contract of a plane.
func scenarios() []Scenario {
	var all []Scenario
	for _, group := range [][]Scenario{basics(), schedulers(), sticking(), draining(), policies()} {
		all = append(all, group...)
	}
	return all
}

func basics() []Scenario {
	return []Scenario{
		{Name: "one backend, from everywhere", Backends: 1, Do: []Action{
			Program{{Weights: each(0)}},
			Ask{Client: Client{Inside, 0}, Want: Weights{0: 1}},
			Ask{Client: Client{Node, 0}, Want: Weights{0: 1}},
			Ask{Client: Client{Outside, 0}, Want: Weights{0: 1}},
		}},
		{Name: "IPv6", V6: true, Backends: 2, Do: []Action{
			Program{{Weights: each(0, 1)}},
			Ask{Times: 4, Want: Weights{0: 2, 1: 2}},
		}},
		{Name: "without backends it refuses, with them it serves", Backends: 1, Do: []Action{
			Program{{}},
			Refused{},
			Program{{Weights: each(0)}},
			Ask{Want: Weights{0: 1}},
			Program{{Weights: Weights{0: 0}}},
			Refused{},
			Program{{Weights: each(0)}},
			Ask{Want: Weights{0: 1}},
			Program{{}},
			Refused{},
			Program{},
			Refused{},
		}},
		{Name: "frontends do not mix", Backends: 2, Do: []Action{
			Program{{Frontend: "a", Weights: each(0)}, {Frontend: "b", Weights: each(1)}},
			Ask{Frontend: "a", Times: 3, Want: Weights{0: 3}},
			Ask{Frontend: "b", Times: 3, Want: Weights{1: 3}},
			Program{{Frontend: "b", Weights: each(1)}},
			Refused{Frontend: "a"},
			Ask{Frontend: "b", Times: 3, Want: Weights{1: 3}},
		}},
		{Name: "streams arrive whole, and end one direction at a time", Over: onlyTCP, Backends: 1, Do: []Action{
			Program{{Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Transfer{Conn: "c", Size: 4 << 20},
			HalfClose{Conn: "c"},
			Broken{Conn: "c"},
		}},
		{Name: "large datagrams", Over: onlyUDP, Backends: 1, Do: []Action{
			Program{{Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Transfer{Conn: "c", Size: 60000},
			Transfer{Conn: "c", Size: 8},
		}},
		{Name: "a dead backend", Over: onlyTCP, Backends: 3, Do: []Action{
			Program{{Weights: each(0, 1, 2)}},
			Ask{Times: 3, Want: Weights{0: 1, 1: 1, 2: 1}},
			Stop{Backend: 1},
			AskDead{Times: 20, Alive: []int{0, 2}},
		}},
		{Name: "SCTP", Over: onlyTCP, Backends: 1, Do: []Action{
			AddSCTP{},
			Program{{Weights: each(0)}},
			Ask{Want: Weights{0: 1}},
		}},
	}
}

func schedulers() []Scenario {
	return []Scenario{
		{Name: "rr", Backends: 3, Do: []Action{
			Program{{Weights: each(0, 1, 2)}},
			Ask{Times: 30, Want: Weights{0: 10, 1: 10, 2: 10}},
		}},
		{Name: "rr by weight", Backends: 4, Do: []Action{
			Program{{Weights: Weights{0: 1, 1: 2, 2: 3, 3: 0}}},
			Ask{Times: 30, Want: Weights{0: 5, 1: 10, 2: 15}},
		}},
		{Name: "lc", Over: onlyTCP, Backends: 3, Do: []Action{
			Program{{Scheduler: plan.LeastConnections, Weights: each(0, 1)}},
			Hold{Times: 4, Want: Weights{0: 2, 1: 2}},
			Program{{Scheduler: plan.LeastConnections, Weights: each(0, 1, 2)}},
			Hold{Times: 2, Want: Weights{2: 2}},
		}},
		{Name: "sed", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Scheduler: plan.ShortestDelay, Weights: Weights{0: 1, 1: 2}}},
			Hold{Times: 6, Want: Weights{0: 2, 1: 4}},
		}},
		{Name: "nq", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Scheduler: plan.NeverQueue, Weights: Weights{0: 1, 1: 100}}},
			Hold{Times: 2, Want: Weights{0: 1, 1: 1}},
			Hold{Times: 4, Want: Weights{1: 4}},
		}},
		{Name: "dh sends one address to one backend", Backends: 3, Do: []Action{
			Program{{Scheduler: plan.DestinationHash, Weights: each(0, 1, 2)}},
			AskAmong{Clients: 6, Times: 2, Sticky: true, AtLeast: 1, AtMost: 1},
		}},
		{Name: "sh sends a client to one backend", Backends: 3, Do: []Action{
			Program{{Scheduler: plan.SourceHash, Flags: plan.HashFallback, Weights: each(0, 1, 2)}},
			AskAmong{Clients: 40, Times: 2, Sticky: true, AtLeast: 2},
		}},
		{Name: "mh sends a client to one backend", Backends: 3, Do: []Action{
			Program{{Scheduler: plan.Maglev, Flags: plan.HashFallback, Weights: each(0, 1, 2)}},
			AskAmong{Clients: 40, Times: 2, Sticky: true, AtLeast: 2},
		}},
	}
}

func sticking() []Scenario {
	const long = time.Hour
	return []Scenario{
		{Name: "affinity", Backends: 3, Do: []Action{
			Program{{Affinity: long, Weights: each(0, 1, 2)}},
			AskAmong{Clients: 6, Times: 4, Sticky: true, AtLeast: 3},
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
			Ask{Want: Weights{0: 1}},
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
	}
}

func draining() []Scenario {
	return []Scenario{
		{Name: "a connection outlives its backend's removal", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Drain: time.Hour, Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Program{{Drain: time.Hour, Weights: each(1)}},
			Ask{Times: 4, Want: Weights{1: 4}},
			Continue{Conn: "c"},
			Program{{Drain: time.Hour, Weights: each(0, 1)}},
			Continue{Conn: "c"},
			Ask{Times: 4, Want: Weights{0: 2, 1: 2}},
			Continue{Conn: "c"},
		}},
		{Name: "a connection outlives its server's removal and return", Over: onlyTCP, Backends: 1, Do: []Action{
			Program{{Drain: time.Hour, Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Program{},
			Refused{},
			Continue{Conn: "c"},
			Program{{Drain: time.Hour, Weights: each(0)}},
			Ask{Want: Weights{0: 1}},
			Continue{Conn: "c"},
		}},
		{Name: "draining has an end", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Drain: time.Second, Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Program{{Drain: time.Second, Weights: each(1)}},
			Cut{Conn: "c"},
			Ask{Want: Weights{1: 1}},
		}},
		{Name: "UDP moves at once", Over: onlyUDP, Backends: 2, Do: []Action{
			Program{{Drain: time.Hour, Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Continue{Conn: "c"},
			Program{{Drain: time.Hour, Weights: each(1)}},
			Continue{Conn: "c", Moved: true},
			Program{{Drain: time.Hour, Weights: each(0)}},
			Continue{Conn: "c"},
		}},
		{Name: "changes in place break nothing", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Program{{Scheduler: plan.LeastConnections, Weights: each(0, 1)}},
			Continue{Conn: "c"},
			Program{{Scheduler: plan.SourceHash, Affinity: time.Hour, Drain: time.Minute, Weights: Weights{0: 7, 1: 1}}},
			Continue{Conn: "c"},
		}},
	}
}

func policies() []Scenario {
	return []Scenario{
		{Name: "internal and external clients have backends of their own", Backends: 2, Do: []Action{
			Program{{Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External, Weights: each(1)}},
			Ask{Client: Client{Inside, 0}, Times: 3, Want: Weights{0: 3}},
			Ask{Client: Client{Node, 0}, Times: 3, Want: Weights{0: 3}},
			Ask{Client: Client{Outside, 0}, Times: 3, Want: Weights{1: 3}},
		}},
		{Name: "nothing here for clients outside", Backends: 1, Do: []Action{
			Program{{Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External, Without: plan.Drop}},
			Ask{Client: Client{Inside, 0}, Want: Weights{0: 1}},
			Dropped{Client: Client{Outside, 0}},
			Program{{Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External, Without: plan.Drop, Weights: each(0)}},
			Ask{Client: Client{Outside, 0}, Want: Weights{0: 1}},
		}},
		{Name: "the policy changes in place", Backends: 2, Do: []Action{
			Program{{Weights: each(0, 1)}},
			Ask{Client: Client{Outside, 0}, Times: 2, Want: Weights{0: 1, 1: 1}},
			Program{{Audience: plan.Internal, Weights: each(0, 1)}, {Audience: plan.External, Weights: each(1)}},
			Ask{Client: Client{Outside, 0}, Times: 2, Want: Weights{1: 2}},
			Ask{Client: Client{Inside, 0}, Times: 2, Want: Weights{0: 1, 1: 1}},
			Program{{Weights: each(0)}},
			Ask{Client: Client{Outside, 0}, Times: 2, Want: Weights{0: 2}},
		}},
		{Name: "a change of the policy breaks no connection to a backend that stays", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Drain: time.Hour, Weights: each(0)}},
			Open{Conn: "stays", Want: []int{0}},
			Program{{Drain: time.Hour, Weights: each(1)}}, // 0 is back before it has drained, however slow the machine is
			Open{Conn: "goes", Want: []int{1}},
			Program{{Drain: time.Second, Weights: each(0, 1)}},
			Program{{Drain: time.Second, Audience: plan.Internal, Weights: each(0)}, {Audience: plan.External}},
			Cut{Conn: "goes"},
			Continue{Conn: "stays"},
		}},
		{Name: "source ranges", Backends: 1, Do: []Action{
			Program{{Only: []Client{{Outside, 1}}, Weights: each(0)}},
			Ask{Client: Client{Outside, 1}, Want: Weights{0: 1}},
			Denied{Client: Client{Outside, 2}},
			Denied{Client: Client{Inside, 1}},
			Program{{Only: []Client{{Outside, 2}, {Inside, 1}}, Weights: each(0)}},
			Denied{Client: Client{Outside, 1}},
			Ask{Client: Client{Outside, 2}, Want: Weights{0: 1}},
			Ask{Client: Client{Inside, 1}, Want: Weights{0: 1}},
			Program{{Only: []Client{}, Weights: each(0)}},
			Denied{Client: Client{Outside, 2}},
			Program{{Weights: each(0)}},
			Ask{Client: Client{Outside, 1}, Want: Weights{0: 1}},
		}},
	}
}
