package handover

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"portolan.dev/nodeagent/dataplane/netfilter"
)

// tableName is the name of the tables, in the families ip and ip6.
const tableName = "portolan-handover"

// priority is after connection tracking (-200), and before the chains that check and translate
// packets.
const priority = -160

// The registers of a rule: the address of the packet, and the address of the previous node.
const (
	register         = netfilter.FirstRegister
	previousRegister = register + 4
)

// The flags of a TCP segment.
const (
	fin = 0x01
	syn = 0x02
	rst = 0x04
)

// table describes the table of one family.
type table struct {
	*nftables.Table
	netfilter.Packet
	previous *nftables.Set // address: address of the previous node
	// moved has the same addresses. A rule that only asks whether the map has an address is listed by nft
	// as a rule for all packets.
	moved *nftables.Set
}

func newTable(v6 bool) *table {
	t := &table{Table: &nftables.Table{Name: tableName, Family: nftables.TableFamilyIPv4}, Packet: netfilter.Packet{V6: v6}}
	if v6 {
		t.Family = nftables.TableFamilyIPv6
	}
	t.previous = &nftables.Set{
		Table: t.Table, Name: "previous", KeyType: t.AddrType(), DataType: t.AddrType(), IsMap: true, HasTimeout: true,
	}
	t.moved = &nftables.Set{Table: t.Table, Name: "addresses", KeyType: t.AddrType(), HasTimeout: true}
	return t
}

// build queues the messages that create the table, which must not exist.
func (t *table) build(conn *netfilter.Conn, elements []nftables.SetElement) error {
	conn.AddTable(t.Table)
	addresses := make([]nftables.SetElement, len(elements))
	for i, e := range elements {
		addresses[i] = nftables.SetElement{Key: e.Key, Timeout: e.Timeout}
	}
	for set, list := range map[*nftables.Set][]nftables.SetElement{t.previous: elements, t.moved: addresses} {
		if err := errors.Join(conn.AddSet(set, nil), conn.SetAddElements(set, list)); err != nil {
			return err
		}
	}
	send := conn.AddChain(&nftables.Chain{Name: "send", Table: t.Table})
	moved := conn.AddChain(&nftables.Chain{Name: "moved", Table: t.Table})
	arriving := conn.AddChain(&nftables.Chain{
		Name: "arriving", Table: t.Table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting,
		Priority: nftables.ChainPriorityRef(priority),
	})
	add := func(chain *nftables.Chain, rules ...[]expr.Any) {
		for _, r := range rules {
			conn.AddRule(&nftables.Rule{Table: t.Table, Chain: chain, Exprs: r})
		}
	}
	add(send, []expr.Any{
		t.Destination(register),
		&expr.Lookup{SourceRegister: register, SetName: t.previous.Name, DestRegister: previousRegister, IsDestRegSet: true},
		&expr.Dup{RegAddr: previousRegister}, &expr.Verdict{Kind: expr.VerdictDrop},
	})
	add(moved, t.unknown()...)
	add(arriving, []expr.Any{
		t.Destination(register), &expr.Lookup{SourceRegister: register, SetName: t.moved.Name},
		&expr.Verdict{Kind: expr.VerdictGoto, Chain: "moved"},
	})
	return nil
}

// unknown returns the rules for packets to addresses with a previous node. ICMP errors about packets of a
// connection, such as that they are too long, are treated like packets of the connection.
func (t *table) unknown() [][]expr.Any {
	icmp, life := byte(unix.IPPROTO_ICMP), uint32(8)
	if t.V6 {
		icmp, life = unix.IPPROTO_ICMPV6, 7
	}
	send := &expr.Verdict{Kind: expr.VerdictGoto, Chain: "send"}
	return [][]expr.Any{
		{
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: life, Len: 1},
			&expr.Cmp{Op: expr.CmpOpLte, Register: 1, Data: []byte{1}},
			&expr.Verdict{Kind: expr.VerdictReturn},
		},
		join(protocol(unix.IPPROTO_TCP), inState(expr.CtStateBitNEW), flags(syn, expr.CmpOpEq), send),
		join(protocol(unix.IPPROTO_TCP), inState(expr.CtStateBitINVALID), flags(fin|rst, expr.CmpOpNeq), send),
		join(protocol(icmp), inState(expr.CtStateBitINVALID), send),
	}
}

func join(parts ...any) []expr.Any {
	var out []expr.Any
	for _, p := range parts {
		switch p := p.(type) {
		case []expr.Any:
			out = append(out, p...)
		case expr.Any:
			out = append(out, p)
		}
	}
	return out
}

func protocol(p byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{p}},
	}
}

// inState matches packets in a state of connection tracking.
func inState(state uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binary.NativeEndian.AppendUint32(nil, state), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

// flags matches TCP segments with none of some flags (CmpOpEq), or with at least one (CmpOpNeq).
func flags(mask byte, op expr.CmpOp) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 13, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{mask}, Xor: []byte{0}},
		&expr.Cmp{Op: op, Register: 1, Data: []byte{0}},
	}
}

// element returns the element of the map for an address.
func element(o handOver, left time.Duration) nftables.SetElement {
	return nftables.SetElement{Key: o.addr.AsSlice(), Val: o.via.AsSlice(), Timeout: left}
}
