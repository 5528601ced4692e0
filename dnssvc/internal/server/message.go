package server

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// Sizes in bytes.
const (
	headerSize = 12
	udpLimit   = 512   // of an answer by UDP without EDNS
	tcpLimit   = 65535 // of an answer by TCP
)

// Bits of the second 16 bits of a header.
const (
	flagQR     = 1 << 15
	flagAA     = 1 << 10
	flagTC     = 1 << 9
	flagRD     = 1 << 8
	flagRA     = 1 << 7
	flagCD     = 1 << 4
	opcodeMask = 0xf << 11
)

// errorReply answers a packet of which only the header can be read. It does not repeat the
// question, because the question may be the unreadable part.
func errorReply(packet []byte, rcode int) []byte {
	reply := make([]byte, headerSize)
	copy(reply, packet[:2])
	flags := binary.BigEndian.Uint16(packet[2:])
	binary.BigEndian.PutUint16(reply[2:], flagQR|flags&(opcodeMask|flagRD)|uint16(rcode))
	return reply
}

// edns holds the values of a question's OPT record.
type edns struct {
	opt   *dns.OPT // for the answer; nil if the question has none
	size  int      // largest answer by UDP that the client accepts
	rcode int      // response code for an unacceptable record
}

// readEDNS reads the OPT record. It ignores options, as RFC 6891 requires for unknown ones.
func readEDNS(req *dns.Msg, maxSize int) edns {
	var e edns
	e.size = udpLimit
	for _, rr := range req.Extra {
		theirs, ok := rr.(*dns.OPT)
		if !ok {
			continue
		}
		if e.opt != nil || theirs.Hdr.Name != "." {
			return edns{size: udpLimit, rcode: dns.RcodeFormatError}
		}
		e.opt = &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		e.opt.SetUDPSize(uint16(maxSize))
		if theirs.Do() {
			e.opt.SetDo()
		}
		e.size = min(max(int(theirs.UDPSize()), udpLimit), maxSize)
		if theirs.Version() != 0 {
			e.rcode = dns.RcodeBadVers
		}
	}
	for _, rr := range append(req.Answer, req.Ns...) {
		if rr.Header().Rrtype == dns.TypeOPT {
			return edns{size: udpLimit, rcode: dns.RcodeFormatError}
		}
	}
	return e
}
