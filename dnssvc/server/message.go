package server

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// Sizes in bytes.
const (
	headerSize  = 12
	plainLimit  = 512   // of an answer by UDP without EDNS
	streamLimit = 65535 // of an answer by TCP
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

// errorReply answers a packet that cannot be read any further than its header. The question is not repeated: it may be what cannot be read.
func errorReply(packet []byte, rcode int) []byte {
	reply := make([]byte, headerSize)
	copy(reply, packet[:2])
	flags := binary.BigEndian.Uint16(packet[2:])
	binary.BigEndian.PutUint16(reply[2:], flagQR|flags&(opcodeMask|flagRD)|uint16(rcode))
	return reply
}

// edns is what a question says by its OPT record.
type edns struct {
	opt  *dns.OPT // to be put into the answer; nil where there was none
	size int      // what the client can take by UDP
	bad  int      // rcode for a record that cannot be accepted
}

// readEDNS reads the OPT record. Options are ignored, as RFC 6891 wants of those that are not known.
func readEDNS(req *dns.Msg, maxSize int) edns {
	var e edns
	e.size = plainLimit
	for _, rr := range req.Extra {
		theirs, ok := rr.(*dns.OPT)
		if !ok {
			continue
		}
		if e.opt != nil || theirs.Hdr.Name != "." {
			return edns{size: plainLimit, bad: dns.RcodeFormatError}
		}
		e.opt = &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
		e.opt.SetUDPSize(uint16(maxSize))
		if theirs.Do() {
			e.opt.SetDo()
		}
		e.size = min(max(int(theirs.UDPSize()), plainLimit), maxSize)
		if theirs.Version() != 0 {
			e.bad = dns.RcodeBadVers
		}
	}
	for _, rr := range append(req.Answer, req.Ns...) {
		if rr.Header().Rrtype == dns.TypeOPT {
			return edns{size: plainLimit, bad: dns.RcodeFormatError}
		}
	}
	return e
}
