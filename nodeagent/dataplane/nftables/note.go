package nftables

import (
	"encoding/binary"

	"github.com/google/nftables/expr"

	"portolan.dev/nodeagent/dataplane/netfilter"
)

// The rules note numbers in the priority of a connection's first packet (meta priority), where
// later rules find them: the number of the server's class, then the number of a slot, and for
// clients with affinity the number of a member. The chain leaving removes the note before a queue
// of a device sees it; packets to sockets of the node never come to a queue.
//
// The alternative is to look up the result of one map in another one within a rule. nft 1.0.6 aborts
// when it lists such a rule, and then lists nothing at all. Marks of packets and connections are no
// place for notes, because other programs route and filter by them. The kernel sets the priority of
// forwarded IPv4 packets after these rules. Other packets lose a priority that an earlier rule or
// device has set, but only the first one of each connection.

const (
	// noteTag is part of all notes, so that they are not taken for priorities of other programs. As the
	// number of a traffic class it has the major number f0c0 to f0cf, which tc does not assign by itself.
	noteTag = 0xf0c00000
	tagMask = 0xfff00000
	// memberBit distinguishes the numbers of members.
	memberBit = 0x00080000
	// maxNumber is the maximum number of a class or a slot, and of a member without its bit.
	maxNumber = memberBit - 1
)

// number returns the bytes of a note.
func number(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, noteTag|n) }

// numberOf is the inverse of number.
func numberOf(b []byte) (n uint32, ok bool) {
	if len(b) != 4 {
		return 0, false
	}
	n = binary.NativeEndian.Uint32(b)
	return n &^ tagMask, n&tagMask == noteTag
}

// note notes the number in a register.
func note(register uint32) expr.Any {
	return &expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: true, Register: register}
}

// noted loads the number that was noted.
func noted(register uint32) expr.Any {
	return &expr.Meta{Key: expr.MetaKeyPRIORITY, Register: register}
}

// forget removes the note from a packet that has one.
func forget() []expr.Any {
	const r = netfilter.FirstRegister
	return []expr.Any{
		noted(r),
		&expr.Bitwise{SourceRegister: r, DestRegister: r, Len: 4, Mask: native(tagMask), Xor: native(0)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: r, Data: native(noteTag)},
		&expr.Immediate{Register: r, Data: native(0)},
		note(r),
	}
}

func native(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
