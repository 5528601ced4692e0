package packetfilter

import (
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/netfilter"
	"portolan.dev/nodeagent/plan"
)

// loopTime is how long the sets loop and turn remember a packet's source or device: longer than the
// packet takes through the node.
const loopTime = 10 * time.Second

// table is the plane's table of one family.
type table struct {
	*nftables.Table
	netfilter.Packet
	sets map[Set]*nftables.Set
}

func newTable(name string, v6 bool) *table {
	t := &table{
		Table:  &nftables.Table{Name: name, Family: nftables.TableFamilyIPv4},
		Packet: netfilter.Packet{V6: v6}, sets: map[Set]*nftables.Set{},
	}
	if v6 {
		t.Family = nftables.TableFamilyIPv6
	}
	addr := t.AddrType()
	frontend := []nftables.SetDatatype{addr, nftables.TypeInetProto, nftables.TypeInetService}
	concat := func(name Set, types ...nftables.SetDatatype) *nftables.Set {
		return t.define(nftables.Set{Name: string(name), Concatenation: true, KeyType: nftables.MustConcatSetType(types...)})
	}
	for _, name := range []Set{podSet, nodeSet, rangeSet, standInSet} {
		t.define(nftables.Set{Name: string(name), KeyType: addr, Interval: true})
	}
	t.define(nftables.Set{Name: string(VirtualSet), KeyType: addr})
	loop := concat(hairpinSet, addr, addr)
	turn := concat(turnSet, nftables.TypeIFName, nftables.TypeIFName)
	for _, s := range []*nftables.Set{loop, turn} {
		s.Dynamic, s.HasTimeout, s.Timeout, s.Size = true, true, loopTime, 65535
	}
	for _, name := range []Set{LimitInside, LimitOutside, RefuseSet} {
		concat(name, frontend...)
	}
	for name := range dropping {
		concat(name, frontend...).Counter = true
	}
	concat(AllowedSet, append(slices.Clone(frontend), addr)...).Interval = true
	for _, name := range masqueradeMaps {
		masquerade := concat(name, frontend...)
		masquerade.IsMap, masquerade.DataType = true, nftables.TypeVerdict
	}
	split := concat(SplitMap, frontend...)
	split.IsMap, split.DataType = true, addr
	return t
}

func (t *table) define(s nftables.Set) *nftables.Set {
	s.Table = t.Table
	t.sets[Set(s.Name)] = &s
	return &s
}

// The parts of rules.

type rule []expr.Any

// frontend loads the frontend that a packet is addressed to.
func (t *table) frontend() rule { return t.Frontend(netfilter.FirstRegister) }

func (t *table) after(addresses uint32) uint32 {
	return netfilter.FirstRegister + addresses*t.AddrLen()/4
}

// originalFrontend loads the frontend to which a connection was opened.
func (t *table) originalFrontend() rule {
	return rule{
		&expr.Ct{Key: expr.CtKeyDST, Register: netfilter.FirstRegister},
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: t.after(1)},
		&expr.Ct{Key: expr.CtKeyPROTODST, Register: t.after(1) + 1},
	}
}

func in(s Set) expr.Any {
	return &expr.Lookup{SourceRegister: netfilter.FirstRegister, SetName: string(s)}
}

func notIn(s Set) expr.Any {
	return &expr.Lookup{SourceRegister: netfilter.FirstRegister, SetName: string(s), Invert: true}
}

// sourceIn matches packets with a source in a set.
func (t *table) sourceIn(s Set) rule { return rule{t.Source(netfilter.FirstRegister), in(s)} }

func (t *table) sourceNotIn(s Set) rule { return rule{t.Source(netfilter.FirstRegister), notIn(s)} }

func verdict(kind expr.VerdictKind, chain string) expr.Any {
	return &expr.Verdict{Kind: kind, Chain: chain}
}

func drop() expr.Any { return verdict(expr.VerdictDrop, "") }

func join(parts ...any) rule {
	var out rule
	for _, p := range parts {
		switch p := p.(type) {
		case rule:
			out = append(out, p...)
		case expr.Any:
			out = append(out, p)
		}
	}
	return out
}

// chain is a chain with its rules.
type chain struct {
	name     string
	kind     nftables.ChainType
	hook     *nftables.ChainHook
	priority int32
	rules    []rule
}

// chains returns all chains. A chain comes before the chains that jump to it.
func (t *table) chains(podsKnown, bridged bool) []chain {
	all := append(t.guards(), t.invalid()...)
	all = append(all, t.turning(podsKnown, bridged))
	all = append(all, t.masquerading(RangeClasses(podsKnown))...)
	all = append(all, chain{
		name: "split", kind: nftables.ChainTypeNAT, hook: nftables.ChainHookPrerouting, priority: -100,
		rules: []rule{
			join(t.sourceIn(podSet), verdict(expr.VerdictReturn, "")),
			join(t.sourceIn(nodeSet), verdict(expr.VerdictReturn, "")),
			join(t.frontend(),
				&expr.Lookup{SourceRegister: netfilter.FirstRegister, SetName: string(SplitMap), DestRegister: 1, IsDestRegSet: true},
				&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(t.Family), RegAddrMin: 1}),
		},
	})
	return append(all, t.protection()...)
}

// guards returns the chains that reject packets before any other chain sees them: packets to
// frontends that must not answer their clients, and packets from clients that a frontend does not
// allow.
func (t *table) guards() []chain {
	limited := verdict(expr.VerdictJump, "limited")
	return []chain{
		{name: "limited", rules: []rule{
			join(t.frontend(), t.Source(t.after(1)+2), in(AllowedSet), verdict(expr.VerdictReturn, "")),
			join(t.frontend(), in(DeniedSet), drop()),
			{drop()},
		}},
		{name: "guard-inside", rules: []rule{
			join(t.frontend(), in(DropInside), drop()),
			join(t.frontend(), in(LimitInside), limited),
		}},
		{name: "guard-outside", rules: []rule{
			join(t.frontend(), in(DropOutside), drop()),
			join(t.frontend(), in(LimitOutside), limited),
		}},
		{name: "guard-pods", rules: []rule{
			join(isNew(), t.Destination(netfilter.FirstRegister), in(rangeSet), t.remember()),
			join(isNew(), t.Destination(netfilter.FirstRegister), in(VirtualSet), t.remember()),
			{verdict(expr.VerdictGoto, "guard-inside")},
		}},
		{name: "guard", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookPrerouting, priority: -150, rules: []rule{
			join(t.Destination(netfilter.FirstRegister), in(standInSet), drop()),
			join(t.sourceIn(podSet), verdict(expr.VerdictGoto, "guard-pods")),
			join(t.sourceIn(nodeSet), verdict(expr.VerdictGoto, "guard-inside")),
			{verdict(expr.VerdictGoto, "guard-outside")},
		}},
		{name: "guard-node", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookOutput, priority: -150, rules: []rule{
			// Packets of clients that the node sends on to another one (package handover) are not the
			// node's own.
			join(inState(expr.CtStateBitUNTRACKED), verdict(expr.VerdictReturn, "")),
			join(t.frontend(), in(DropInside), drop()),
			join(t.frontend(), in(LimitNode), drop()),
		}},
	}
}

// remember adds the source of a packet to the set of pairs (source, source). A rule cannot compare
// two addresses of a packet, but a set of pairs can. Because packets fill the set, it needs no
// element for each backend.
func (t *table) remember() rule {
	return rule{
		t.Source(netfilter.FirstRegister), t.Source(t.after(1)),
		&expr.Dynset{SrcRegKey: netfilter.FirstRegister, SetName: string(hairpinSet), Operation: uint32(unix.NFT_DYNSET_OP_UPDATE)},
	}
}

// invalid returns the chains that drop TCP packets that connection tracking assigns to no
// connection, such as segments outside of a window. Connection tracking does not translate
// addresses in such packets. So the client of a virtual address would get a segment from a backend
// address that it does not know, and its reset would end the connection that the segment belongs
// to. If such a segment is addressed to a virtual address, or to the address that a client is
// masqueraded with, the node would reset the connection itself, and IPVS would pass the segment to
// a backend that resets it.
//
// The rules apply to all packets, as in kube-proxy. It would be enough to check packets from
// backends and to frontends, but a set of all backends costs more than all other sets together. A
// node that sees only one direction of other connections needs
// net.netfilter.nf_conntrack_tcp_be_liberal, which makes their segments valid.
func (t *table) invalid() []chain {
	dropping := func(name string, hook *nftables.ChainHook) chain {
		return chain{
			name: name, kind: nftables.ChainTypeFilter, hook: hook, priority: 0,
			rules: []rule{join(isInvalid(), isProtocol(unix.IPPROTO_TCP), drop())},
		}
	}
	return []chain{dropping("invalid-forward", nftables.ChainHookForward), dropping("invalid-input", nftables.ChainHookInput)}
}

// isNew matches the first packets of connections.
func isNew() rule { return inState(expr.CtStateBitNEW) }

// isInvalid matches packets that belong to no connection.
func isInvalid() rule { return inState(expr.CtStateBitINVALID) }

func inState(state uint32) rule {
	return rule{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(state), Xor: native(0)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: native(0)},
	}
}

func isProtocol(p byte) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{p}},
	}
}

// masquerading returns the chains that replace source addresses. Packets of the node itself count
// as Node, because their source is the virtual address.
func (t *table) masquerading(inRanges Class) []chain {
	masq := masquerade()
	var all []chain
	for c := range allClasses + 1 {
		ch := chain{name: c.chain()}
		if c&allSources == allSources {
			ch.rules = append(ch.rules, rule{masq})
		} else {
			if c&Pods != 0 {
				ch.rules = append(ch.rules, join(t.sourceIn(podSet), masq))
			}
			if c&Node != 0 {
				for _, s := range []Set{nodeSet, rangeSet, VirtualSet} {
					ch.rules = append(ch.rules, join(t.sourceIn(s), masq))
				}
			}
			if c&Outside != 0 {
				ch.rules = append(ch.rules, join(t.sourceNotIn(podSet), t.sourceNotIn(nodeSet),
					t.sourceNotIn(rangeSet), t.sourceNotIn(VirtualSet), masq))
			}
			if c&SameDevice != 0 {
				ch.rules = append(ch.rules, rule{verdict(expr.VerdictGoto, turningChain)})
			}
		}
		all = append(all, ch)
	}
	rules := []rule{join(t.Source(netfilter.FirstRegister), t.Destination(t.after(1)), in(hairpinSet), masq)}
	for _, p := range []plan.Protocol{plan.TCP, plan.UDP, plan.SCTP} {
		rules = append(rules, join(isProtocol(byte(p)), t.originalFrontend(),
			&expr.Lookup{SourceRegister: netfilter.FirstRegister, SetName: string(masqueradeMaps[p]), IsDestRegSet: true}))
	}
	rules = append(rules, rule{
		&expr.Ct{Key: expr.CtKeyDST, Register: netfilter.FirstRegister}, in(rangeSet), verdict(expr.VerdictGoto, inRanges.chain()),
	})
	return append(all, chain{
		name: "masquerading", kind: nftables.ChainTypeNAT, hook: nftables.ChainHookPostrouting, priority: 100, rules: rules,
	})
}

const turningChain = "turning"

// turning returns the chain that masquerades packets that leave by the device on which they
// arrived. Otherwise the answers would not pass the node, and would arrive from an address that the
// client did not use. A rule cannot compare two devices, so this uses a set of pairs (see
// remember). Devices are known by name, because nft does not restore a set with numbers of devices
// that have gone. Packets between ports of one bridge that pass the packet filter are translated back on
// their way, so they need no masquerading.
func (t *table) turning(podsKnown, bridged bool) chain {
	device := func(key expr.MetaKey, register uint32) expr.Any { return &expr.Meta{Key: key, Register: register} }
	var about rule
	if podsKnown { // other sources are masqueraded anyway, or must stay visible
		about = t.sourceIn(podSet)
	}
	if bridged {
		const incomingKind = 26 // NFT_META_IIFKIND
		kind := make([]byte, unix.IFNAMSIZ)
		copy(kind, "bridge")
		about = join(about, device(incomingKind, 1), &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: kind})
	}
	const first, second = netfilter.FirstRegister, netfilter.FirstRegister + unix.IFNAMSIZ/4
	note := &expr.Dynset{SrcRegKey: first, SetName: string(turnSet), Operation: uint32(unix.NFT_DYNSET_OP_UPDATE)}
	return chain{name: turningChain, rules: []rule{
		join(about, device(expr.MetaKeyIIFNAME, first), device(expr.MetaKeyIIFNAME, second), note),
		join(about, device(expr.MetaKeyIIFNAME, first), device(expr.MetaKeyOIFNAME, second), in(turnSet), masquerade()),
	}}
}

func masquerade() expr.Any { return &expr.Masq{FullyRandom: true} }

// protection returns the chains that refuse packets to a virtual address but to no frontend.
// Without it every socket of the node would answer there. The balancer has taken its own packets
// before this.
//
// TCP packets of the node itself are refused in the output hook. In the input hook it would be too
// late: connection tracking has confirmed their connection by then, without a translation, and
// keeps it for ten seconds. A client that connects again from the same port within that time would
// be refused even if the frontend has backends. The connections of all other packets are confirmed
// after the input hook. UDP is refused in the input hook because the output hook would return EPERM
// instead of ECONNREFUSED, and the plane deletes confirmed UDP connections.
func (t *table) protection() []chain {
	icmp := byte(unix.IPPROTO_ICMP)
	unreachable := uint8(3) // port
	if t.V6 {
		icmp, unreachable = unix.IPPROTO_ICMPV6, 4
	}
	refuse, unserved := verdict(expr.VerdictJump, "refuse"), verdict(expr.VerdictGoto, "unserved")
	return []chain{
		{name: "refuse", rules: []rule{
			join(isProtocol(icmp), verdict(expr.VerdictAccept, "")),
			join(isProtocol(unix.IPPROTO_TCP), &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}),
			{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: unreachable}},
		}},
		{name: "unserved", rules: []rule{
			join(t.Destination(netfilter.FirstRegister), in(rangeSet), refuse),
			join(t.Destination(netfilter.FirstRegister), in(VirtualSet), refuse),
			join(t.frontend(), in(RefuseSet), refuse),
		}},
		{name: "protect", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookInput, priority: 110, rules: []rule{
			join(isNew(), unserved),
		}},
		{name: "protect-node", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookOutput, priority: 110, rules: []rule{
			join(isProtocol(unix.IPPROTO_TCP), isNew(), unserved),
		}},
	}
}
