package batch

import (
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/mdlayher/netlink"
	"github.com/moby/ipvs"
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

// FuzzDestination decodes any answer about a destination. A destination that is decoded stays the same when it
// is encoded by the library, as the kernel does, and decoded again.
func FuzzDestination(f *testing.F) {
	seed := func(d ipvs.Destination) []byte {
		b, err := encodeDestination(&d)
		if err != nil {
			f.Fatal(err)
		}
		return b
	}
	f.Add(seed(ipvs.Destination{AddressFamily: unix.AF_INET, Address: make([]byte, 16), Port: 80, Weight: 1, UpperThreshold: 7}))
	f.Add(seed(ipvs.Destination{AddressFamily: unix.AF_INET6, Address: make([]byte, 16), ConnectionFlags: 3, ActiveConnections: 1 << 30}))
	f.Add([]byte{})
	f.Add([]byte{4, 0, 2, 0})
	f.Add([]byte{0xff, 0xff, 2, 0x80, 0})
	f.Add([]byte{8, 0, 2, 0, 4, 0, 4, 0})
	f.Fuzz(func(t *testing.T, answer []byte) {
		var got, again ipvs.Destination
		if err := decodeDestination(answer, &got); err != nil {
			return
		}
		b, err := encodeDestination(&got)
		if err != nil {
			return // an attribute that is longer than attributes can be
		}
		if err := decodeDestination(b, &again); err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%+v came back as %+v, %v", got, again, err)
		}
	})
}

func encodeDestination(d *ipvs.Destination) ([]byte, error) {
	e := netlink.NewAttributeEncoder()
	e.Nested(attrDest, func(e *netlink.AttributeEncoder) error {
		if d.Address != nil {
			e.Bytes(destAddr, d.Address)
		}
		e.Bytes(destPort, binary.BigEndian.AppendUint16(nil, d.Port))
		e.Uint32(destForward, d.ConnectionFlags)
		e.Uint32(destWeight, uint32(d.Weight))
		e.Uint32(destUpper, d.UpperThreshold)
		e.Uint32(destLower, d.LowerThreshold)
		e.Uint32(destActive, uint32(d.ActiveConnections))
		e.Uint32(destInactive, uint32(d.InactiveConnections))
		e.Uint16(destFamily, d.AddressFamily)
		return nil
	})
	return e.Encode()
}
