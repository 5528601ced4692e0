package batch

import (
	"encoding/binary"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// FuzzCounters decodes any answer about a service. A service that is decoded stays the same when it
// is encoded by the library, as the kernel does, and decoded again.
func FuzzCounters(f *testing.F) {
	seed := func(family uint16, address []byte, packets uint64) []byte {
		var counted Counted
		counted.Service.AddressFamily, counted.Service.Protocol, counted.Service.Port = family, unix.IPPROTO_TCP, 80
		counted.Service.Address = address
		counted.Counters.PacketsIn = packets
		b, err := encodeCounted(counted)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.Add(seed(unix.AF_INET, make([]byte, 16), 7))
	f.Add(seed(unix.AF_INET6, make([]byte, 16), 1<<40))
	f.Add([]byte{})
	f.Add([]byte{4, 0, 1, 0})
	f.Add([]byte{0xff, 0xff, 1, 0x80, 0})
	f.Fuzz(func(t *testing.T, answer []byte) {
		got, err := decodeCounted(answer)
		if err != nil {
			return
		}
		b, err := encodeCounted(got)
		if err != nil {
			return // an attribute that is longer than attributes can be
		}
		again, err := decodeCounted(b)
		if err != nil || again.Counters != got.Counters || again.Service.Port != got.Service.Port || string(again.Service.Address) != string(got.Service.Address) {
			t.Fatalf("%+v came back as %+v, %v", got, again, err)
		}
	})
}

func encodeCounted(c Counted) ([]byte, error) {
	e := netlink.NewAttributeEncoder()
	e.Nested(attrService, func(e *netlink.AttributeEncoder) error {
		e.Uint16(svcFamily, c.Service.AddressFamily)
		e.Uint16(svcProtocol, c.Service.Protocol)
		e.Bytes(svcAddr, c.Service.Address)
		e.Bytes(svcPort, binary.BigEndian.AppendUint16(nil, c.Service.Port))
		e.Uint32(svcFWMark, c.Service.FWMark)
		e.Nested(svcCounters, func(e *netlink.AttributeEncoder) error {
			e.Uint64(counterConnections, c.Counters.Connections)
			e.Uint64(counterPacketsIn, c.Counters.PacketsIn)
			e.Uint64(counterPacketsOut, c.Counters.PacketsOut)
			e.Uint64(counterBytesIn, c.Counters.BytesIn)
			e.Uint64(counterBytesOut, c.Counters.BytesOut)
			return nil
		})
		return nil
	})
	return e.Encode()
}
