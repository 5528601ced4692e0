package dataplanetest

import (
	"fmt"
	"slices"
	"strings"

	"portolan.dev/nodeagent/plan"
)

// Traits are what planes may do differently. What a scenario expects is computed
// from them.
type Traits struct {
	// Outlives: traffic goes on without the process, and the next one takes it
	// up. Otherwise connections end with it.
	Outlives bool
	// SilentDrop: verdict Drop, and a source range, leave a client without any
	// answer. Otherwise it is refused.
	SilentDrop bool
	// Guards: sockets of the node that listen on all addresses do not answer at
	// virtual ones.
	Guards bool
	// HidesClients: backends see the node, whatever the plan says.
	HidesClients bool
	// Retries: a connection for a dead backend is carried by another one.
	Retries bool
	// CutsOnUse: a connection whose draining is over hears of it when it is used
	// next. Otherwise at once.
	CutsOnUse bool
	// Claims: a frontend that somebody else has is reported, and left to them.
	// Otherwise both can have it, and the plane's forwarding wins.
	Claims bool
	// SCTP is forwarded. Otherwise adding such a server fails with
	// dataplane.ErrNotSupported.
	SCTP bool
	// Schedulers are those that the plane has. Another one is replaced by rr,
	// which is reported with dataplane.ErrNotSupported.
	Schedulers []plan.Scheduler
	// HashHolds: sh without fallback refuses clients whose backend takes no new
	// connections. Otherwise another one serves them.
	HashHolds bool
	// SwapsGap: while the scheduler of a server changes, new connections may be
	// refused for a moment.
	SwapsGap bool
	// Turns: rr takes turns. Otherwise it is a choice at random, by weight.
	Turns bool
	// RemembersClients: affinity outlives the process.
	RemembersClients bool
	// PinsClients: affinity lasts as long as a flow of the client is remembered.
	// Otherwise its time alone counts.
	PinsClients bool
}

func (t *Traits) has(s plan.Scheduler) bool { return slices.Contains(t.Schedulers, s) }

var everyScheduler = []plan.Scheduler{
	plan.RoundRobin, plan.LeastConnections, plan.DestinationHash, plan.SourceHash,
	plan.ShortestDelay, plan.NeverQueue, plan.Maglev,
}

// The traits of Portolan's own planes.
var (
	IPVS = Traits{
		Outlives: true, SilentDrop: true, Guards: true, CutsOnUse: true, Claims: true, SCTP: true,
		Schedulers: everyScheduler, HashHolds: true, SwapsGap: true, Turns: true, RemembersClients: true, PinsClients: true,
	}
	Nftables = Traits{
		Outlives: true, SilentDrop: true, Guards: true, CutsOnUse: true, SCTP: true,
		Schedulers: []plan.Scheduler{plan.RoundRobin, plan.DestinationHash, plan.SourceHash, plan.Maglev},
		Turns:      true, RemembersClients: true,
	}
	Userspace = Traits{
		HidesClients: true, Retries: true, Claims: true, Schedulers: everyScheduler, Turns: true,
	}
)

// Table writes traits as a table of Markdown, a column for each plane.
func Table(planes []string, traits []Traits) string {
	var b strings.Builder
	row := func(what string, of func(*Traits) string) {
		fmt.Fprintf(&b, "| %s |", what)
		for i := range traits {
			fmt.Fprintf(&b, " %s |", of(&traits[i]))
		}
		b.WriteString("\n")
	}
	either := func(what, yes, no string, of func(*Traits) bool) {
		row(what, func(t *Traits) string {
			if of(t) {
				return yes
			}
			return no
		})
	}
	fmt.Fprintf(&b, "| | %s |\n|---|%s\n", strings.Join(planes, " | "), strings.Repeat("---|", len(planes)))
	either("when the agent stops, traffic", "goes on", "ends", func(t *Traits) bool { return t.Outlives })
	either("affinity outlives the agent", "yes", "no", func(t *Traits) bool { return t.RemembersClients })
	either("affinity ends", "after its time, once the client's flows are forgotten", "after its time", func(t *Traits) bool { return t.PinsClients })
	row("schedulers", func(t *Traits) string {
		var names []string
		for _, s := range t.Schedulers {
			names = append(names, s.String())
		}
		return strings.Join(names, ", ")
	})
	either("sh without sh-fallback, where the client's backend takes no new connections", "refuses", "picks another", func(t *Traits) bool { return t.HashHolds })
	either("while the scheduler of a service changes, new connections are", "refused for a moment", "served", func(t *Traits) bool { return t.SwapsGap })
	either("rr", "takes turns", "picks at random, by weight", func(t *Traits) bool { return t.Turns })
	either("a dead backend costs a client its connection", "no: another one is tried", "yes", func(t *Traits) bool { return t.Retries })
	either("backends see", "the node", "the client, unless the traffic is masqueraded", func(t *Traits) bool { return t.HidesClients })
	either("a client that may not, or one from outside that finds no local backend under external policy Local, is", "left without an answer", "refused",
		func(t *Traits) bool { return t.SilentDrop })
	either("a connection that has drained for too long is cut", "when it is used", "at once", func(t *Traits) bool { return t.CutsOnUse })
	either("sockets of the node that listen everywhere answer at virtual addresses", "no", "yes", func(t *Traits) bool { return t.Guards })
	either("an address and port that somebody else forwards", "is left to them, and reported", "is forwarded all the same",
		func(t *Traits) bool { return t.Claims })
	either("SCTP", "yes", "no, and reported", func(t *Traits) bool { return t.SCTP })
	return b.String()
}
