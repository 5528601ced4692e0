package dataplanetest

import (
	"fmt"
	"slices"
	"strings"

	"portolan.dev/nodeagent/plan"
)

// Traits are the permitted differences between planes. The expectations of scenarios are computed
// from them.
type Traits struct {
	// Outlives is set if forwarding continues without the process and the next process takes it
	// over. Otherwise connections end with the process.
	Outlives bool
	// SilentDrop is set if clients get no answer under verdict Drop, or if a source range excludes
	// them. Otherwise they are refused.
	SilentDrop bool
	// Guards is set if sockets of the node that listen on all addresses do not answer at virtual
	// ones.
	Guards bool
	// HidesClients is set if backends always see the node's address, for any plan.
	HidesClients bool
	// Retries is set if another backend serves a connection if its backend is dead.
	Retries bool
	// CutsOnUse is set if a connection ends when it is used for the first time after the end of
	// draining. Otherwise it ends at once.
	CutsOnUse bool
	// Claims is set if a frontend of another program is reported and not taken. Otherwise both can
	// have it, and the plane's forwarding takes precedence.
	Claims bool
	// SCTP is set if SCTP is forwarded. Otherwise adding an SCTP server fails with
	// dataplane.ErrNotSupported.
	SCTP bool
	// Schedulers are the plane's schedulers. Others are replaced by rr, which is reported with
	// dataplane.ErrNotSupported.
	Schedulers []plan.Scheduler
	// Rehashes is set if dh may move any address when the backends change. Otherwise it moves only
	// the addresses of backends that leave, and those that a new backend gets.
	Rehashes bool
	// SwapsGap is set if new connections may be refused for a moment while the scheduler of a
	// server changes.
	SwapsGap bool
	// Turns is set if rr uses the backends in turn. Otherwise it chooses at random, by weight.
	Turns bool
	// RemembersClients is set if affinity outlives the process.
	RemembersClients bool
	// PinsClients is set if affinity lasts as long as the plane remembers a flow of the client.
	// Otherwise only its time counts.
	PinsClients bool
	// KeepsAffinity is set if a client keeps the time of affinity with which it became known. Otherwise a changed
	// time applies from the client's next connection on.
	KeepsAffinity bool
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
		Schedulers: everyScheduler, SwapsGap: true, Turns: true, RemembersClients: true, PinsClients: true,
		KeepsAffinity: true,
	}
	Nftables = Traits{
		Outlives: true, SilentDrop: true, Guards: true, CutsOnUse: true, SCTP: true,
		Schedulers: []plan.Scheduler{plan.RoundRobin, plan.DestinationHash, plan.SourceHash, plan.Maglev},
		Rehashes:   true, Turns: true, RemembersClients: true,
	}
	Userspace = Traits{
		HidesClients: true, Retries: true, Claims: true, Schedulers: everyScheduler, Turns: true,
	}
)

// Table formats traits as a Markdown table with a column for each plane.
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
	either("a changed time of affinity applies to a client", "once it has been forgotten; an Event says so", "from its next connection on", func(t *Traits) bool { return t.KeepsAffinity })
	row("schedulers", func(t *Traits) string {
		var names []string
		for _, s := range t.Schedulers {
			names = append(names, s.String())
		}
		return strings.Join(names, ", ")
	})
	either("when backends change, dh moves", "any address", "the addresses of a backend that leaves, and a new backend's share", func(t *Traits) bool { return t.Rehashes })
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
