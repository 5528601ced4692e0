package netfilter

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// FirstRegister is the first register of a key: an address, then 4 bytes each. Registers of 4 bytes
// are numbered from 8. Register 1 is another name of the first four.
const FirstRegister = 8

// LastRegister is the last register of 4 bytes.
const LastRegister = 23

// Packet loads parts of packets of one family into registers of 4 bytes.
type Packet struct{ V6 bool }

// AddrLen returns the length of an address in bytes.
func (p Packet) AddrLen() uint32 {
	if p.V6 {
		return 16
	}
	return 4
}

// AddrType returns the type of an address in a set.
func (p Packet) AddrType() nftables.SetDatatype {
	if p.V6 {
		return nftables.TypeIP6Addr
	}
	return nftables.TypeIPAddr
}

func (p Packet) load(offset4, offset6, register uint32) expr.Any {
	e := &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset4, Len: p.AddrLen()}
	if p.V6 {
		e.Offset = offset6
	}
	return e
}

// Source loads the source address of a packet.
func (p Packet) Source(register uint32) expr.Any { return p.load(12, 8, register) }

// Destination loads the destination address of a packet.
func (p Packet) Destination(register uint32) expr.Any { return p.load(16, 24, register) }

// Frontend loads the frontend that a packet is addressed to: address, protocol, port.
func (p Packet) Frontend(register uint32) []expr.Any {
	rest := register + p.AddrLen()/4
	return []expr.Any{
		p.Destination(register),
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: rest},
		&expr.Payload{DestRegister: rest + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
	}
}

// IntervalElements returns the elements of an interval set for the prefixes of one family: for each range its
// start, and the address after its end.
func IntervalElements(prefixes []netip.Prefix, v6 bool) []nftables.SetElement {
	var out []nftables.SetElement
	for _, r := range MergePrefixes(prefixes, v6) {
		out = append(out, nftables.SetElement{Key: r.First.AsSlice()})
		if next := r.Last.Next(); next.IsValid() { // a range up to the last address has no end element
			out = append(out, nftables.SetElement{Key: next.AsSlice(), IntervalEnd: true})
		}
	}
	return out
}
