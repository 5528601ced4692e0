package dataplanetest

import "portolan.dev/nodeagent/plan"

var (
	onlyTCP  = []plan.Protocol{plan.TCP}
	onlyUDP  = []plan.Protocol{plan.UDP}
	onlySCTP = []plan.Protocol{plan.SCTP}

	in0, in1   = Client{Inside, 0}, Client{Inside, 1}
	node0      = Client{Node, 0}
	out0, out1 = Client{Outside, 0}, Client{Outside, 1}
	out2       = Client{Outside, 2}
)

// scenarios returns the scenarios that make up the contract of a plane.
func scenarios() []Scenario {
	var all []Scenario
	for _, group := range [][]Scenario{
		basics(), protection(), schedulers(), picking(), hashing(), sticking(), draining(), restarting(), udp(), audiences(), policies(),
	} {
		all = append(all, group...)
	}
	return all
}

func basics() []Scenario {
	return []Scenario{
		{Name: "one backend, from everywhere", V6: Also6, Backends: 1, Do: []Action{
			Program{{Weights: each(0)}},
			Ask{Client: in0, Want: each(0)},
			Ask{Client: node0, Want: each(0)},
			Ask{Client: out0, Want: each(0)},
		}},
		{Name: "both families", Over: onlyTCP, Backends: 2, Others6: 2, Do: []Action{
			Program{{Frontend: "a", Weights: each(0, 1)}, {Frontend: "b", Other6: true, Weights: each(2, 3)}},
			Ask{Frontend: "a", Times: 4, Want: Weights{0: 2, 1: 2}},
			Ask{Frontend: "b", Times: 4, Want: Weights{2: 2, 3: 2}},
			Program{{Frontend: "b", Other6: true, Weights: each(2)}},
			Refused{Frontend: "a"},
			Ask{Frontend: "b", Times: 2, Want: Weights{2: 2}},
		}},
		{Name: "without backends it refuses, with them it serves", V6: Also6, Backends: 1, Do: []Action{
			Program{{}},
			Refused{},
			Program{{Weights: each(0)}},
			Ask{Want: each(0)},
			Program{{Weights: Weights{0: 0}}},
			Refused{},
			Program{{Weights: each(0)}},
			Ask{Want: each(0)},
			Program{{}},
			Refused{},
			Program{},
			Refused{},
		}},
		{Name: "a refused pod is served from the same port", V6: Also6, Backends: 1, Do: []Action{
			Program{{}},
			ServedAfterRefusal{Client: in0, Then: Program{{Weights: each(0)}}, Want: each(0)},
		}},
		// IPVS answers a datagram of the node to a server without backends with EPERM.
		{Name: "a refused client of the node is served from the same port", Over: onlyTCP, V6: Also6, Backends: 1, Do: []Action{
			Program{{}},
			ServedAfterRefusal{Client: node0, Then: Program{{Weights: each(0)}}, Want: each(0)},
		}},
		{Name: "a refused client outside is served from the same port", V6: Also6, Backends: 1, Do: []Action{
			Program{{}},
			ServedAfterRefusal{Client: out0, Then: Program{{Weights: each(0)}}, Want: each(0)},
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
		{Name: "large datagrams", Over: onlyUDP, V6: Also6, Backends: 1, Do: []Action{
			Program{{Weights: each(0)}},
			Open{Conn: "c", Want: []int{0}},
			Transfer{Conn: "c", Size: 60000},
			Transfer{Conn: "c", Size: 8},
		}},
		{Name: "SCTP", Over: onlySCTP, V6: Sources6, Backends: 2, Do: []Action{
			Program{{}},
			Program{{Weights: each(0, 1)}},
			Ask{Client: in0, Times: 4, Want: Weights{0: 2, 1: 2}},
			Ask{Client: out0, Times: 2, Want: each(0, 1)},
			Open{Conn: "c", Want: []int{0, 1}},
			Transfer{Conn: "c", Size: 8 << 10},
			Program{{Weights: each(0)}},
			Ask{Times: 2, Want: Weights{0: 2}},
		}},
		{Name: "a dead backend", Over: onlyTCP, Backends: 3, Do: []Action{
			Program{{Weights: each(0, 1, 2)}},
			Stop{Backend: 1},
			AskDead{Times: 20, Alive: []int{0, 2}},
		}},
		{Name: "a source port that is used again at once", Over: onlyTCP, V6: Also6, Backends: 2, Do: []Action{
			Program{{Weights: each(0, 1)}},
			Reuse{Times: 5},
		}},
		{Name: "backends that cannot be", Over: onlyTCP, V6: Also6, Backends: 2, Do: []Action{
			InvalidBackends{Weights: each(0, 1)},
			Ask{Times: 6, Want: Weights{0: 3, 1: 3}},
		}},
		{Name: "connections are counted", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Weights: each(0)}},
			Hold{Times: 2, Want: Weights{0: 2}},
			Program{{Weights: each(1)}},
			Hold{Times: 3, Want: Weights{1: 3}},
			Count{Want: Weights{1: 3}},
		}},
		{Name: "changes under load", Over: onlyTCP, V6: Also6, Backends: 3, Do: []Action{
			Program{{Drain: long, Weights: each(0, 1)}},
			UnderLoad{From: []ClientLocation{Inside, Node, Outside}, Do: []Action{
				Program{{Drain: long, Weights: each(1)}},
				Program{{Drain: long, Weights: each(2)}},
				Program{{Drain: long, Affinity: long, Weights: each(0, 1, 2)}},
				Program{{Drain: long, Weights: Weights{0: 0, 1: 1}}},
				Program{{Drain: long, Audience: plan.Internal, Weights: each(0)}, {Drain: long, Audience: plan.External, Weights: each(1)}},
				Program{{Drain: long, Weights: each(2)}},
			}},
		}},
		{Name: "the scheduler changes under load", Over: onlyTCP, Backends: 3, Do: []Action{
			Program{{Drain: long, Weights: each(0, 1)}},
			UnderLoad{From: []ClientLocation{Inside, Outside}, Swaps: true, Do: []Action{
				Program{{Drain: long, Scheduler: plan.SourceHash, Weights: each(0, 1, 2)}},
				Program{{Drain: long, Weights: Weights{0: 5, 1: 1}}},
				Program{{Drain: long, Scheduler: plan.Maglev, Weights: Weights{0: 5, 1: 1}}},
				Program{{Drain: long, Weights: each(0, 1)}},
			}},
		}},
	}
}

func protection() []Scenario {
	return []Scenario{
		{Name: "sockets of the node at virtual addresses", Over: onlyTCP, V6: Also6, Backends: 1, Do: []Action{
			Program{{Frontend: "a", Weights: each(0)}, {Frontend: "b", Exposure: plan.ExternalIP, Weights: each(0)}},
			OwnSocket{Client: in0},
			ConnectNodeSocket{Client: in0, Frontend: "a"},
			ConnectNodeSocket{Client: node0, Frontend: "a"},
			ConnectNodeSocket{Client: out0, Frontend: "b"},
			ConnectNodeSocket{Client: node0, Frontend: "b"},
			Ask{Client: out0, Frontend: "b", Want: each(0)},
			Program{{Frontend: "b", Exposure: plan.ExternalIP, NoBackends: plan.Drop}},
			ConnectNodeSocket{Client: in0, Frontend: "a"},
			ConnectNodeSocket{Client: in0, Frontend: "b"},
			OwnSocket{Client: out0},
		}},
		{Name: "what is somebody else's", Over: onlyTCP, Backends: 2, Do: []Action{
			OccupyFrontend{Frontend: "theirs"},
			ProgramOccupied{Frontend: "theirs", Weights: each(0), Others: Program{{Frontend: "ours", Weights: each(1)}}},
			Ask{Frontend: "ours", Want: each(1)},
			Intact{},
			Program{},
			Intact{},
			Program{{Frontend: "ours", Weights: each(1)}, {Frontend: "out", Exposure: plan.ExternalIP, Weights: each(1)}},
			Cleanup{},
			Intact{},
			Denied{Frontend: "ours"},
			Program{{Frontend: "ours", Weights: each(1)}},
			Ask{Frontend: "ours", Want: each(1)},
		}},
		{Name: "what is somebody else's outlives restarts, audits and a cleanup", Over: onlyTCP, Backends: 1, Do: []Action{
			OccupyFrontend{Frontend: "in a range of ours"},
			OccupyFrontend{Frontend: "elsewhere", Exposure: plan.ExternalIP},
			Program{{Frontend: "ours", Weights: each(0)}},
			Restart{},
			Intact{},
			Damage{},
			Intact{},
			Ask{Frontend: "ours", Want: each(0)},
			Cleanup{},
			Intact{},
			Restart{},
			Intact{},
		}},
		{Name: "what others have taken away is put back", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{
				{Frontend: "a", Weights: each(0)},
				{Frontend: "b", Exposure: plan.ExternalIP, Audience: plan.Internal, Weights: each(0)},
				{Frontend: "b", Exposure: plan.ExternalIP, Audience: plan.External, Only: []Client{out1}, Weights: each(1)},
			},
			Damage{},
			Ask{Client: in0, Frontend: "a", Want: each(0)},
			Ask{Client: node0, Frontend: "b", Want: each(0)},
			Ask{Client: out1, Frontend: "b", Want: each(1)},
			Denied{Client: out2, Frontend: "b"},
			ConnectNodeSocket{Client: in0, Frontend: "a"},
		}},
		{Name: "what others have changed is put back", V6: Sources6, Backends: 2, Do: []Action{
			Program{{Frontend: "a", Weights: each(0)}, {Frontend: "b", Affinity: long, Weights: each(0, 1)}},
			Altered{Frontend: "a"},
			Ask{Client: in0, Frontend: "a", Want: each(0)},
			Altered{Frontend: "a", Restart: true},
			Ask{Client: out0, Frontend: "a", Want: each(0)},
			Altered{Frontend: "b"},
			AskAmong{Frontend: "b", Clients: 4, Times: 2, Sticky: true, AtLeast: 2},
		}},
		{Name: "source ranges", V6: Sources6, Backends: 1, Do: []Action{
			Program{{Only: []Client{out1}, Weights: each(0)}},
			Ask{Client: out1, Want: each(0)},
			Denied{Client: out2},
			Denied{Client: in1},
			Denied{Client: node0},
			Program{{Only: []Client{out2, in1, node0}, Weights: each(0)}},
			Denied{Client: out1},
			Ask{Client: out2, Want: each(0)},
			Ask{Client: in1, Want: each(0)},
			Ask{Client: node0, Want: each(0)},
			Program{{Only: []Client{}, Weights: each(0)}},
			Denied{Client: out2},
			Program{{Weights: each(0)}},
			Ask{Client: out1, Want: each(0)},
		}},
		{Name: "source ranges of one audience", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{
				{Audience: plan.Internal, Only: []Client{out1}, Weights: each(0)},
				{Audience: plan.External, Only: []Client{out1}, Weights: each(1)},
			},
			Ask{Client: out1, Want: each(1)},
			Denied{Client: out2},
			Denied{Client: in0},
		}},
		{Name: "what backends see of clients", Over: onlyTCP, V6: Sources6, Backends: 1, Do: []Action{
			Program{{Frontend: "all", Weights: each(0)}, {Frontend: "out", Masquerade: MasqueradeOutside, Weights: each(0)}, {Frontend: "none", Masquerade: MasqueradeNone, Weights: each(0)}},
			Ask{Client: in0, Frontend: "all", Want: each(0), Sees: Hidden},
			Ask{Client: out0, Frontend: "all", Want: each(0), Sees: Hidden},
			Ask{Client: in0, Frontend: "out", Want: each(0), Sees: Own},
			Ask{Client: out0, Frontend: "out", Want: each(0), Sees: Hidden},
			Ask{Client: node0, Frontend: "out", Want: each(0)},
			Ask{Client: in0, Frontend: "none", Want: each(0), Sees: Own},
			Ask{Client: out0, Frontend: "none", Want: each(0), Sees: Own},
			Ask{Client: node0, Frontend: "none", Want: each(0)},
		}},
		{Name: "segments outside the window reset nothing", Over: onlyTCP, V6: Sources6, Forges: true, Backends: 1, Do: []Action{
			Program{{Frontend: "all", Weights: each(0)}, {Frontend: "none", Masquerade: MasqueradeNone, Weights: each(0)}},
			Open{Client: in0, Frontend: "all", Conn: "hidden", Want: []int{0}},
			OutsideWindow{Client: in0, Frontend: "all", Conn: "hidden"},
			OutsideWindow{Frontend: "all", Conn: "hidden", Backend: true},
			Open{Client: out0, Frontend: "none", Conn: "seen", Want: []int{0}},
			OutsideWindow{Client: out0, Frontend: "none", Conn: "seen"},
			OutsideWindow{Frontend: "none", Conn: "seen", Backend: true},
		}},
		{Name: "a client beside the backend is served", Over: onlyTCP, V6: Sources6, Backends: 2, Do: []Action{
			Program{
				{Frontend: "cluster", Masquerade: MasqueradeOutside, Weights: each(0)},
				{Frontend: "local", Exposure: plan.LoadBalancerIP, Audience: plan.Internal, Masquerade: MasqueradeOutside, Weights: each(0)},
				{Frontend: "local", Exposure: plan.LoadBalancerIP, Audience: plan.External, Masquerade: MasqueradeNone, Weights: each(0)},
			},
			// The backend's answers would not return through the node.
			Ask{Client: Client{Self, 1}, Frontend: "cluster", Want: each(0), Sees: Hidden},
			Ask{Client: Client{Self, 1}, Frontend: "local", Want: each(0), Sees: Hidden},
			Ask{Client: in0, Frontend: "local", Want: each(0), Sees: Own},
			Ask{Client: out0, Frontend: "local", Want: each(0), Sees: Own},
		}},
		{Name: "without ranges of pods only those are hidden who have to be", Over: onlyTCP, V6: Sources6, Backends: 2, Do: []Action{
			Program{{Masquerade: MasqueradeOutside, Weights: each(0)}},
			WithoutPodRanges{},
			Program{{Masquerade: MasqueradeOutside, Weights: each(0)}},
			Ask{Client: in0, Want: each(0), Sees: Own},
			Ask{Client: out0, Want: each(0), Sees: Own},
			Ask{Client: node0, Want: each(0)},
			Ask{Client: Client{Self, 0}, Want: each(0), Sees: Hidden},
			Ask{Client: Client{Self, 1}, Want: each(0), Sees: Hidden},
			Restart{},
			Ask{Client: out0, Want: each(0), Sees: Own},
			Ask{Client: Client{Self, 1}, Want: each(0), Sees: Hidden},
		}},
		{Name: "a backend reaches itself", V6: Sources6, Backends: 1, Do: []Action{
			Program{{Frontend: "all", Weights: each(0)}, {Frontend: "out", Masquerade: MasqueradeOutside, Weights: each(0)}},
			Ask{Client: Client{Self, 0}, Frontend: "all", Want: each(0), Sees: Hidden},
			Ask{Client: Client{Self, 0}, Frontend: "out", Want: each(0), Sees: Hidden},
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
			AskAmong{Clients: 20, Times: 3, AtLeast: 2, Not: []int{3}},
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
		{Name: "dh sends one address to one backend", V6: Also6, Backends: 3, Do: []Action{
			Program{{Scheduler: plan.DestinationHash, Weights: each(0, 1, 2)}},
			AskAmong{Clients: 6, Times: 2, Sticky: true, AtLeast: 1, AtMost: 1},
		}},
		{Name: "sh sends a client to one backend", V6: Sources6, Backends: 3, Do: []Action{
			Program{{Scheduler: plan.SourceHash, Weights: each(0, 1, 2)}},
			AskAmong{Clients: 40, Times: 2, Sticky: true, AtLeast: 2},
		}},
		{Name: "sh falls back", Over: onlyTCP, Backends: 3, Do: []Action{
			Program{{Scheduler: plan.SourceHash, Weights: Weights{0: 1, 1: 0, 2: 1}}},
			AskAmong{Clients: 30, Times: 2, Sticky: true, AtLeast: 2, Not: []int{1}},
		}},
		{Name: "sh by port", Over: onlyTCP, Backends: 2, Do: []Action{
			Program{{Scheduler: plan.SourceHash, Flags: plan.HashPort, Weights: each(0, 1)}},
			AskAmong{Clients: 1, Times: 64, AtLeast: 2},
		}},
		{Name: "mh sends a client to one backend", Backends: 3, Do: []Action{
			Program{{Scheduler: plan.Maglev, Weights: each(0, 1, 2)}},
			AskAmong{Clients: 40, Times: 2, Sticky: true, AtLeast: 2},
		}},
	}
}
