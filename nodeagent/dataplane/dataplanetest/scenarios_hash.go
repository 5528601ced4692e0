package dataplanetest

import "portolan.dev/nodeagent/plan"

// hashing returns the scenarios in which the schedulers that hash lose, gain and drain backends. No
// connection may be refused while another backend is ready.
func hashing() []Scenario {
	dh := func(w Weights) Server { return Server{Scheduler: plan.DestinationHash, Drain: long, Weights: w} }
	sticky := func(w Weights) Server {
		return Server{Scheduler: plan.DestinationHash, Affinity: long, Drain: long, Weights: w}
	}
	return []Scenario{
		{Name: "dh spreads addresses", Over: onlyTCP, V6: Sources6, Backends: 3, Do: []Action{
			everywhere(dh(each(0, 1, 2))),
			AskAddresses{Times: 2, AtLeast: 2},
		}},
		{Name: "dh, a backend leaves after its connections have ended", V6: Sources6, Backends: 2, Do: []Action{
			everywhere(dh(each(0, 1))),
			AskAddresses{AtLeast: 2},
			everywhere(dh(each(1))),
			AskAddresses{Times: 2, Not: []int{0}},
			everywhere(dh(each(0, 1))),
			AskAddresses{AtLeast: 2},
		}},
		{Name: "dh, a backend leaves with open connections", Over: []plan.Protocol{plan.TCP, plan.SCTP}, V6: Sources6, Backends: 3, Do: []Action{
			everywhere(dh(each(0, 1, 2))),
			HoldAddresses{},
			everywhere(dh(each(1, 2))),
			AskAddresses{Times: 2, Not: []int{0}},
			ContinueAddresses{},
			everywhere(dh(each(2))),
			AskAddresses{Not: []int{0, 1}},
			ContinueAddresses{},
			everywhere(dh(each(0, 1, 2))),
			AskAddresses{AtLeast: 2},
			ContinueAddresses{},
		}},
		{Name: "dh, a backend has weight 0", V6: Sources6, Backends: 2, Do: []Action{
			everywhere(dh(Weights{0: 0, 1: 1})),
			AskAddresses{Times: 2, Not: []int{0}},
			everywhere(dh(Weights{0: 1, 1: 0})),
			AskAddresses{Times: 2, Not: []int{1}},
			Program{dh(Weights{0: 0, 1: 0})},
			Refused{},
		}},
		{Name: "dh moves the addresses of the backend that leaves", Over: onlyTCP, Backends: 4, Do: []Action{
			everywhere(dh(each(0, 1, 2, 3))),
			AskAddresses{AtLeast: 3},
			everywhere(dh(each(0, 1, 3))),
			AskAddresses{Not: []int{2}, Keep: []int{0, 1, 3}},
			everywhere(dh(each(0, 3))),
			AskAddresses{Not: []int{1, 2}, Keep: []int{0, 3}},
		}},
		{Name: "dh, clients with affinity stay when a backend comes", Over: onlyTCP, Backends: 3, Do: []Action{
			everywhere(sticky(each(0, 1))),
			AskAddresses{AtLeast: 2},
			everywhere(sticky(each(0, 1, 2))),
			AskAddresses{Keep: []int{0, 1}, Sticky: true},
			everywhere(sticky(each(0, 2))),
			AskAddresses{Not: []int{1}, Keep: []int{0}, Sticky: true},
		}},
		{Name: "dh and a restart", Over: onlyTCP, Backends: 3, Do: []Action{
			everywhere(dh(Weights{0: 1, 1: 2, 2: 3})),
			HoldAddresses{},
			everywhere(dh(Weights{0: 1, 1: 2})),
			AskAddresses{AtLeast: 2, Not: []int{2}},
			Restart{},
			AskAddresses{Not: []int{2}, Keep: []int{0, 1}},
			Outlives{Conn: address(0)},
		}},
		{Name: "dh changes under load", Over: onlyTCP, V6: Also6, Backends: 3, Do: []Action{
			Program{dh(each(0, 1))},
			UnderLoad{From: []ClientLocation{Inside, Node, Outside}, Do: []Action{
				Program{dh(each(1, 2))},
				Program{dh(each(0))},
				Program{dh(each(1))},
				Program{dh(Weights{0: 1, 1: 0, 2: 2})},
				Program{dh(each(0, 1, 2))},
				Program{dh(each(2))},
			}},
		}},
		{Name: "sh by weight", Over: onlyTCP, V6: Sources6, Backends: 3, Do: []Action{
			Program{{Scheduler: plan.SourceHash, Weights: Weights{0: 1, 1: 3, 2: 0}}},
			AskShares{Clients: 200, Want: Weights{0: 1, 1: 3}},
			Program{{Scheduler: plan.SourceHash, Flags: plan.HashPort, Weights: Weights{0: 3, 1: 1, 2: 0}}},
			AskShares{Clients: 200, Ports: true, Want: Weights{0: 3, 1: 1}},
		}},
		{Name: "sh by large weights", Over: onlyTCP, Backends: 4, Do: []Action{
			Program{{Scheduler: plan.SourceHash, Weights: Weights{0: 100, 1: 100, 2: 100, 3: 100}}},
			AskShares{Clients: 200, Want: each(0, 1, 2, 3)},
			Program{{Scheduler: plan.SourceHash, Weights: Weights{0: 65535, 1: 20000}}},
			AskShares{Clients: 200, Want: Weights{0: 65535, 1: 20000}},
		}},
		{Name: "mh by weight and port", Over: onlyTCP, V6: Sources6, Backends: 3, Do: []Action{
			Program{{Scheduler: plan.Maglev, Weights: Weights{0: 1, 1: 3, 2: 0}}},
			AskShares{Clients: 200, Want: Weights{0: 1, 1: 3}},
			Program{{Scheduler: plan.Maglev, Flags: plan.HashPort, Weights: Weights{0: 30000, 1: 10000, 2: 0}}},
			AskShares{Clients: 200, Ports: true, Want: Weights{0: 3, 1: 1}},
		}},
		{Name: "mh, a backend of four leaves", Over: onlyTCP, Backends: 4, Do: []Action{
			Program{{Scheduler: plan.Maglev, Drain: long, Weights: each(0, 1, 2, 3)}},
			AskShares{Clients: 200, Want: each(0, 1, 2, 3)},
			Program{{Scheduler: plan.Maglev, Drain: long, Weights: each(0, 1, 3)}},
			AskShares{Clients: 200, Want: each(0, 1, 3), Keep: []int{0, 1, 3}},
			// The kernel's table changes when the backend is removed from it.
			Program{{Scheduler: plan.Maglev, Weights: each(0, 1, 2, 3)}},
			AskShares{Clients: 200, Want: each(0, 1, 2, 3)},
			Program{{Scheduler: plan.Maglev, Weights: each(0, 1, 3)}},
			AskShares{Clients: 200, Want: each(0, 1, 3), Keep: []int{0, 1, 3}, MayMove: 1. / 4},
		}},
		{Name: "sh by port, one of two drains", Over: onlyTCP, V6: Also6, Backends: 2, Do: drains(plan.SourceHash)},
		{Name: "mh by port, one of two drains", Over: onlyTCP, V6: Also6, Backends: 2, Do: drains(plan.Maglev)},
	}
}

// drains returns the actions in which one of two backends drains, while the scheduler hashes the
// source port too.
func drains(s plan.Scheduler) []Action {
	hashed := func(w Weights) Program {
		return Program{{Scheduler: s, Flags: plan.HashPort, Drain: long, Weights: w}}
	}
	return []Action{
		hashed(each(0, 1)),
		AskAmong{Clients: 1, Times: 24, AtLeast: 2},
		HoldEach{},
		hashed(each(1)),
		AskAmong{Clients: 24, Times: 1, AtLeast: 1, Not: []int{0}},
		Continue{Conn: heldBy(0)},
		Continue{Conn: heldBy(1)},
		hashed(Weights{0: 1, 1: 0}),
		AskAmong{Clients: 24, Times: 1, AtLeast: 1, Not: []int{1}},
		Continue{Conn: heldBy(1)},
	}
}
