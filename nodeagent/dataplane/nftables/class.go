package nftables

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/plan"
)

// flagPort makes the hash of a client include its source port.
const flagPort = 1

// lanes is the maximum number of chains of a round-robin class. The servers in a lane share a
// counter, so two servers that are used alternately would each get every other number only.
const lanes = 64

// hashSeed is constant, so that all nodes hash alike.
const hashSeed = 0x706f7274

// deleteOp is the nftables operation that removes an element from a set while a packet passes.
const deleteOp = 2

// class is the set of properties that servers in the same chain have in common.
type class struct {
	kernel.Settings
	slots   int
	outside bool // for external clients only
	lane    int
}

// chain returns the name of the class's chain. parseClass parses it.
func (c class) chain() string {
	audience := map[bool]string{false: "any", true: "outside"}[c.outside]
	state := map[bool]string{false: "open", true: "closed"}[c.Closed]
	return fmt.Sprintf("%s-%d-%d-%d-%s-%s-%d", c.Scheduler, c.Flags, c.slots, c.Affinity/time.Second, audience, state, c.lane)
}

func parseClass(chain string) (class, error) {
	part := strings.Split(chain, "-")
	var number [7]uint64
	ok := len(part) == len(number)
	for _, i := range []int{1, 2, 3, 6} {
		if ok {
			var err error
			number[i], err = strconv.ParseUint(part[i], 10, 31)
			ok = err == nil
		}
	}
	if ok {
		c := class{
			Settings: kernel.Settings{
				Scheduler: part[0], Flags: uint32(number[1]), Affinity: time.Duration(number[3]) * time.Second, Closed: part[5] == "closed",
			},
			slots: int(number[2]), outside: part[4] == "outside", lane: int(number[6]),
		}
		if c.chain() == chain {
			return c, nil
		}
	}
	return class{}, fmt.Errorf("chain %q is not ours", chain)
}

// withoutLane returns the class without its lane.
func (c class) withoutLane() class {
	c.lane = 0
	return c
}

// hasCounter reports whether the chain of the class has a counter.
func (c class) hasCounter() bool { return c.Scheduler == plan.RoundRobin.String() && c.slots > 1 }

// sticky reports whether the class has client affinity.
func (c class) sticky() bool { return c.Affinity > 0 }

// rules returns the rules of a class's chain. The number of slots is fixed by the class. The
// backend in each slot is an element of a map.
func (t *table) rules(c class) [][]expr.Any {
	switch {
	case c.Closed && c.outside: // all clients use the server for AnyClient
		return [][]expr.Any{t.jumpToClass(false)}
	case c.slots == 0: // there are no backends, so the packet filter refuses
		return [][]expr.Any{{&expr.Verdict{Kind: expr.VerdictAccept}}}
	case c.sticky():
		return t.stickyRules(c)
	}
	translate := t.translation(c.outside)
	return [][]expr.Any{slices.Concat(t.choose(c), translate.lookup, translate.nat)}
}

// stickyRules returns the rules of a class with affinity. They note the number of a member. The
// note may be of no member at first, which is as if the client were unknown.
func (t *table) stickyRules(c class) [][]expr.Any {
	const r = netfilter.FirstRegister
	sets, translate := t.setsOf(c.outside), t.translation(c.outside)
	client := append([]expr.Any{t.Source(r)}, t.Frontend(r+t.AddrLen()/4)...)
	member := r + 2*t.AddrLen()/4 + 2
	update := func(op uint32) []expr.Any {
		return append(slices.Clone(client), noted(member),
			&expr.Dynset{SrcRegKey: r, SrcRegData: member, SetName: sets.affinity.Name, Operation: op, Timeout: c.Affinity})
	}
	recall := append(slices.Clone(client),
		&expr.Lookup{SourceRegister: r, DestRegister: r, IsDestRegSet: true, SetName: sets.affinity.Name}, note(r))
	refresh := update(unix.NFT_DYNSET_OP_UPDATE)
	pick := append(t.slot(), &expr.Lookup{SourceRegister: r, DestRegister: r, IsDestRegSet: true, SetName: sets.picks.Name}, note(r))
	return [][]expr.Any{
		recall,
		slices.Concat(translate.lookup, refresh, translate.nat), // if the member is still there
		update(deleteOp),
		slices.Concat(t.choose(c), pick, translate.lookup, refresh, translate.nat),
		slices.Concat(translate.lookup, translate.nat), // if the affinity set is full
	}
}

// slot loads the frontend and the number that was noted.
func (t *table) slot() []expr.Any {
	return append(t.Frontend(netfilter.FirstRegister), noted(netfilter.FirstRegister+t.AddrLen()/4+2))
}

// choose chooses one of the slots and notes its number.
func (t *table) choose(c class) []expr.Any {
	const r = netfilter.FirstRegister
	slots := uint32(c.slots)
	hash := func(length uint32) expr.Any {
		return &expr.Hash{
			SourceRegister: r, DestRegister: r, Length: length, Modulus: slots, Seed: hashSeed, Offset: noteTag, Type: expr.HashTypeJenkins,
		}
	}
	var out []expr.Any
	switch {
	case slots == 1:
		out = append(out, &expr.Immediate{Register: r, Data: number(0)})
	case c.hasCounter():
		out = append(out, &expr.Numgen{Register: r, Modulus: slots, Offset: noteTag, Type: unix.NFT_NG_INCREMENTAL})
	case c.Scheduler == plan.DestinationHash.String():
		out = append(out, t.Destination(r), hash(t.AddrLen()))
	case c.Flags&flagPort != 0:
		port := r + t.AddrLen()/4
		out = append(out, t.Source(r), &expr.Payload{DestRegister: port, Base: expr.PayloadBaseTransportHeader, Offset: 0, Len: 2}, hash(t.AddrLen()+4))
	default:
		out = append(out, t.Source(r), hash(t.AddrLen()))
	}
	return append(out, note(r))
}

// translation holds the two parts of a rule that sends a connection to the backend with the noted
// number. Other parts may be between them, because the result of the lookup is in the last registers.
type translation struct{ lookup, nat []expr.Any }

func (t *table) translation(outside bool) translation {
	backend := netfilter.LastRegister - t.AddrLen()/4
	return translation{
		lookup: append(t.slot(), &expr.Lookup{
			SourceRegister: netfilter.FirstRegister, DestRegister: backend, IsDestRegSet: true, SetName: t.setsOf(outside).slots.Name,
		}),
		nat: []expr.Any{&expr.NAT{
			Type: expr.NATTypeDestNAT, Family: uint32(t.Family), RegAddrMin: backend, RegProtoMin: netfilter.LastRegister,
		}},
	}
}
