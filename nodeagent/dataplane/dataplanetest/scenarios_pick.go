package dataplanetest

import "portolan.dev/nodeagent/plan"

// picking returns the scenarios with schedulers that count connections, over runs in which
// connections end, and weights and schedulers change.
func picking() []Scenario {
	pick := func(s plan.Scheduler) []Action {
		return []Action{
			Program{{Scheduler: s, Drain: long, Weights: Weights{0: 1, 1: 2, 2: 5}}},
			PickByRule{Steps: 60},
			Program{{Scheduler: s, Drain: long, Weights: Weights{0: 3, 1: 0, 2: 1}}},
			PickByRule{Steps: 40},
			Program{{Scheduler: s, Drain: long, Weights: Weights{1: 2, 2: 2}}},
			PickByRule{Steps: 40},
		}
	}
	var all, live []Action
	for _, s := range everyScheduler {
		swap := Program{{Scheduler: s, Drain: long, Weights: Weights{0: 1, 1: 2, 2: 3}}}
		live = append(live, swap, AskAmong{Clients: 6, Times: 2, AtLeast: 1}, Continue{Conn: "c"})
		all = append(all, swap, PickByRule{Steps: 20})
	}
	return []Scenario{
		{Name: "lc, connections end", Over: onlyTCP, V6: Also6, Backends: 3, Do: pick(plan.LeastConnections)},
		{Name: "sed, connections end", Over: onlyTCP, V6: Also6, Backends: 3, Do: pick(plan.ShortestDelay)},
		{Name: "nq, connections end", Over: onlyTCP, V6: Also6, Backends: 3, Do: pick(plan.NeverQueue)},
		{Name: "each scheduler after each other one, on a live service", Over: onlyTCP, V6: Also6, Backends: 3, Do: append([]Action{
			Program{{Scheduler: plan.Maglev, Drain: long, Weights: each(0, 1, 2)}},
			Open{Conn: "c", Want: []int{0, 1, 2}},
		}, live...)},
		{Name: "the next connection obeys the scheduler that the service has now", Over: onlyTCP, Backends: 3, Do: all},
	}
}
