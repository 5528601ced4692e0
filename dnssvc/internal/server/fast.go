package server

import (
	"encoding/binary"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/zone"
)

// fastPath answers frequent questions. It reads the question in place, copies it into the answer,
// and writes records with a pointer to it as their owner. It allocates nothing.
type fastPath struct {
	names        func() *zone.Snapshot
	maxUDP       int
	recordLimits recordLimits
	rotate       uint32
	// followsAliases is true if aliases to names outside are followed. The handler does that.
	followsAliases bool

	// State of the current question.
	s     *zone.Snapshot
	name  [256]byte // in lower case
	qlen  int       // length of the name
	qtype uint16
	end   int // end of the question section
	edns  bool
	do    bool
	tcp   bool
	limit int

	// State of the answer.
	partial                       bool // the set has more records
	out                           []byte
	base                          int // start of the message in out
	answers, authority, additions uint16
	target                        [256]byte
}

// Offsets and sizes in a message, in bytes.
const (
	questionTail = 4  // type and class
	optSize      = 11 // OPT record without options
	fixedRR      = 12 // record without data: pointer to its owner, type, class, TTL, length
	pointerBits  = 0xc000
	maxPointer   = 0x3fff
)

// answer appends the answer to packet to out. It declines any question that it does not fully
// support, and then leaves out unchanged.
func (f *fastPath) answer(out, packet []byte, tcp, recursion bool) (reply []byte, ok bool) {
	if !f.read(packet, tcp) {
		return out, false
	}
	f.s = f.names()
	f.base = len(out)
	f.answers, f.authority, f.additions = 0, 0, 0
	f.partial = false
	f.rotate++
	f.out = append(out, packet[:f.end]...)
	rcode, ok := f.write()
	if !ok {
		return out, false
	}
	if f.edns {
		f.writeOPT()
	}
	flags := flagQR | flagAA | binary.BigEndian.Uint16(packet[2:])&(flagRD|flagCD) | rcode
	if recursion {
		flags |= flagRA
	}
	header := f.out[f.base:]
	binary.BigEndian.PutUint16(header[2:], flags)
	binary.BigEndian.PutUint16(header[6:], f.answers)
	binary.BigEndian.PutUint16(header[8:], f.authority)
	binary.BigEndian.PutUint16(header[10:], f.additions)
	return f.out, true
}

// read reads a packet that holds one ordinary question and at most an OPT record.
func (f *fastPath) read(packet []byte, tcp bool) bool {
	if len(packet) < headerSize+1+questionTail {
		return false
	}
	const oneQuestion = 1 << 32 // numbers of questions, answers and authority records
	if binary.BigEndian.Uint16(packet[2:])&(flagQR|opcodeMask|flagTC) != 0 || binary.BigEndian.Uint64(packet[4:])&^0xffff != oneQuestion<<16 {
		return false
	}
	at := headerSize
	for {
		n := int(packet[at])
		if n == 0 {
			break
		}
		if at += 1 + n; n > 63 || at+1+questionTail > len(packet) || at-headerSize >= 255 {
			return false
		}
	}
	at++
	f.qlen = at - headerSize
	copy(f.name[:], packet[headerSize:at])
	zone.Lower(f.name[:f.qlen])
	f.qtype = binary.BigEndian.Uint16(packet[at:])
	f.end = at + questionTail
	if binary.BigEndian.Uint16(packet[at+2:]) != dns.ClassINET {
		return false
	}
	return f.readOPT(packet[f.end:], int(packet[11]), int(packet[10]), tcp)
}

// readOPT reads the records after the question.
func (f *fastPath) readOPT(rest []byte, records, recordsHigh int, tcp bool) bool {
	f.edns, f.do = false, false
	f.limit = udpLimit
	if records == 1 && recordsHigh == 0 {
		// The record is: root, OPT, size, extended code, version 0, flags, length.
		if len(rest) < optSize || rest[0] != 0 || binary.BigEndian.Uint16(rest[1:]) != dns.TypeOPT || rest[6] != 0 {
			return false
		}
		f.edns, f.do = true, rest[7]&0x80 != 0
		f.limit = min(max(int(binary.BigEndian.Uint16(rest[3:])), udpLimit), f.maxUDP)
		if !knownOptions(rest[optSize:], int(binary.BigEndian.Uint16(rest[9:]))) {
			return false
		}
	} else if records != 0 || recordsHigh != 0 || len(rest) != 0 {
		return false
	}
	f.tcp = tcp
	if tcp {
		f.limit = tcpLimit
	}
	if f.edns {
		f.limit -= optSize
	}
	return true
}

// knownOptions reports whether the options fill the rest of the packet and can all be ignored
// without looking into them.
func knownOptions(options []byte, size int) bool {
	if len(options) != size {
		return false
	}
	for len(options) >= 4 {
		code, n := binary.BigEndian.Uint16(options), int(binary.BigEndian.Uint16(options[2:]))
		if code != dns.EDNS0COOKIE && code != dns.EDNS0PADDING || n > len(options)-4 {
			return false
		}
		options = options[4+n:]
	}
	return len(options) == 0
}

// write writes the records, and returns the response code and the TC flag.
func (f *fastPath) write() (flags uint16, ok bool) {
	n := f.s.Get(f.name[:f.qlen])
	if n == nil {
		return f.answerAbsent()
	}
	if alias := n.Set(dns.TypeCNAME); alias != nil {
		if f.qtype == dns.TypeSRV {
			return 0, f.writeSOA(n.Zone())
		}
		return 0, f.answerAlias(alias)
	}
	switch f.qtype {
	case dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR:
	case dns.TypeNone, dns.TypeOPT, dns.TypeANY, dns.TypeAXFR, dns.TypeIXFR:
		return 0, false
	default:
		if f.s.IsApex(n) || n.Set(f.qtype) != nil {
			return 0, false
		}
	}
	set := n.Set(f.qtype)
	switch {
	case set == nil:
		return 0, f.writeSOA(n.Zone())
	case f.qtype == dns.TypeSRV:
		return f.writeSRVs(n, set)
	case f.qtype == dns.TypePTR:
		return 0, set.Count == 1 && f.answerName(dns.TypePTR, set.First())
	}
	return f.answerAddresses(set), true
}

// answerAddresses writes a set of addresses as the answer, and returns the TC flag. If the set is
// too large for TCP or exceeds the configured bound, it writes a part, which changes from question
// to question.
func (f *fastPath) answerAddresses(set *zone.Set) (flags uint16) {
	count := int(set.Count)
	n := min(count, f.recordLimits.forTransport(f.tcp))
	if size := fixedRR + zone.AddrSize(set.Type); f.tcp {
		n = min(n, (f.limit-f.offset())/size)
	} else if !f.hasRoom(n * size) {
		return f.truncate()
	}
	f.partial = n < count
	f.writeAddresses(headerSize, set, n)
	f.answers = uint16(n)
	return 0
}

func (f *fastPath) answerAbsent() (flags uint16, ok bool) {
	if isTransfer(f.qtype) || f.qtype == dns.TypeOPT || f.qtype == dns.TypeNone || !f.s.Synced || f.s.InsecurePods() {
		return 0, false
	}
	index := f.s.ZoneOf(f.name[:f.qlen])
	return dns.RcodeNameError, index >= 0 && f.writeSOA(index)
}

// answerAlias answers with a CNAME to a name outside of the zones. The handler follows other
// aliases.
func (f *fastPath) answerAlias(set *zone.Set) bool {
	if f.followsAliases || f.qtype == dns.TypeNone || f.qtype == dns.TypeOPT || isTransfer(f.qtype) {
		return false
	}
	target := append(f.target[:0], set.Data...)
	if f.qtype != dns.TypeCNAME && f.qtype != dns.TypeANY && f.s.ZoneOf(target) >= 0 {
		return false
	}
	return f.answerName(dns.TypeCNAME, set.Data)
}

// answerName writes the only record of a set of names.
func (f *fastPath) answerName(rrtype uint16, data string) bool {
	if !f.hasRoom(fixedRR + len(data)) {
		return false // the handler compresses names, so its answer may fit
	}
	f.writeRecord(headerSize, rrtype, f.s.TTL, len(data))
	f.out = append(f.out, data...)
	f.answers = 1
	return true
}

// offset returns the offset in the message at which the next byte is written.
func (f *fastPath) offset() int { return len(f.out) - f.base }

func (f *fastPath) hasRoom(n int) bool { return f.offset()+n <= f.limit }

// writeRecord writes a record up to its data. The owner is a pointer.
func (f *fastPath) writeRecord(owner int, rrtype uint16, ttl uint32, length int) {
	f.out = append(f.out,
		pointerBits>>8|byte(owner>>8), byte(owner), byte(rrtype>>8), byte(rrtype), 0, dns.ClassINET,
		byte(ttl>>24), byte(ttl>>16), byte(ttl>>8), byte(ttl), byte(length>>8), byte(length))
}

// writeAddresses writes n addresses of a set, in the order of zone.Set.Rotated. There must be room
// for them. It does not use Rotated because most answers consist of addresses and fallback records
// are rare.
func (f *fastPath) writeAddresses(owner int, set *zone.Set, n int) {
	lead := set.Preferred()
	f.writeAddressRun(owner, set, 0, lead, min(n, lead))
	if n > lead {
		f.writeAddressRun(owner, set, lead, int(set.Count), n-lead)
	}
}

// writeAddressRun writes n of the addresses at the positions from (inclusive) to to (exclusive).
func (f *fastPath) writeAddressRun(owner int, set *zone.Set, from, to, n int) {
	size := zone.AddrSize(set.Type)
	next := from + zone.RotationStart(f.rotate, to-from)
	for range n {
		f.writeRecord(owner, set.Type, f.s.TTL, size)
		f.out = append(f.out, set.Data[next*size:(next+1)*size]...)
		if next++; next == to {
			next = from
		}
	}
}

// writeSRVs writes SRV records, and adds as many address sets of their targets as there is room
// for.
func (f *fastPath) writeSRVs(n *zone.Node, set *zone.Set) (flags uint16, ok bool) {
	base := n.Name()[set.Strip():]
	count := int(set.Count)
	fits := f.hasRoom(count*fixedRR + set.SRVSize(base))
	if count > f.recordLimits.forTransport(f.tcp) || !fits && f.tcp {
		return f.writePartialSRVs(set, base)
	}
	if !fits {
		return f.truncate(), true
	}
	first := f.offset()
	for srv := range set.SRVs() {
		f.writeSRV(srv, base)
	}
	f.answers = set.Count
	if f.offset() > maxPointer {
		return 0, false // beyond the reach of a pointer
	}
	owner := first
	last := "-" // differs from every label
	for srv := range set.SRVs() {
		owner += fixedRR + 6
		if srv.Label != last && !f.writeGlue(owner, srv.Label, base) {
			break
		}
		last = srv.Label
		owner += len(srv.Label) + len(base)
	}
	return 0, true
}

// writeSRV writes an SRV record.
func (f *fastPath) writeSRV(srv zone.SRV, base string) {
	f.writeRecord(headerSize, dns.TypeSRV, f.s.TTL, 6+len(srv.Label)+len(base))
	f.out = append(f.out, 0, 0, byte(srv.Weight>>8), byte(srv.Weight), byte(srv.Port>>8), byte(srv.Port))
	f.out = append(f.out, srv.Label...)
	f.out = append(f.out, base...)
}

// writePartialSRVs writes as many SRV records as one answer may have. If all of these fit, it adds
// addresses as services does.
func (f *fastPath) writePartialSRVs(set *zone.Set, base string) (flags uint16, ok bool) {
	part := set.RotatedSRVs(f.rotate, min(int(set.Count), f.recordLimits.forTransport(f.tcp)))
	first := f.offset()
	for srv := range part {
		if !f.hasRoom(fixedRR + 6 + len(srv.Label) + len(base)) {
			if !f.tcp {
				return f.truncate(), true
			}
			f.partial = true
			return 0, true
		}
		f.writeSRV(srv, base)
		f.answers++
	}
	if f.offset() > maxPointer {
		return 0, false
	}
	f.partial = true
	owner := first
	seen := map[string]bool{} // a part may begin and end with the same label
	for srv := range part {
		owner += fixedRR + 6
		if !seen[srv.Label] && !f.writeGlue(owner, srv.Label, base) {
			break
		}
		seen[srv.Label] = true
		owner += len(srv.Label) + len(base)
	}
	return 0, true
}

// writeGlue writes the addresses of one target, which is at offset owner. It returns false if there
// was no room.
func (f *fastPath) writeGlue(owner int, label, base string) bool {
	target := append(append(f.target[:0], label...), base...)
	n := f.s.Get(target)
	if n == nil {
		return true
	}
	for _, rrtype := range [...]uint16{dns.TypeA, dns.TypeAAAA} {
		if set := n.Set(rrtype); set != nil {
			count := int(set.Count)
			if !f.hasRoom(count * (fixedRR + zone.AddrSize(rrtype))) {
				return false
			}
			f.writeAddresses(owner, set, count)
			f.additions += set.Count
		}
	}
	return true
}

// truncate removes all records.
func (f *fastPath) truncate() uint16 {
	f.out = f.out[:f.base+f.end]
	f.answers, f.authority, f.additions = 0, 0, 0
	return flagTC
}

// writeSOA writes the SOA record of a negative answer. The name of the zone is a suffix of the name
// in the question.
func (f *fastPath) writeSOA(index int) bool {
	if index == zone.AddressZone {
		return false
	}
	z := &f.s.Zones[index]
	const fixed = 20
	apex := headerSize + f.qlen - len(z.Name)
	if !f.hasRoom(fixedRR + len(z.MName) + len(z.RName) + fixed) {
		return false
	}
	f.writeRecord(apex, dns.TypeSOA, min(f.s.TTL, soaMaxTTL), 0)
	data := f.offset()
	primary := apex // the names in the record are below the first zone
	if index == 0 {
		f.out = append(f.out, zone.PrimaryLabels...)
		f.writePointer(apex)
	} else {
		primary = data + len(zone.PrimaryLabels)
		f.out = append(f.out, z.MName...)
	}
	f.out = append(f.out, zone.MailboxLabels...)
	f.writePointer(primary)
	for _, v := range [...]uint32{f.s.Serial, soaRefresh, soaRetry, soaExpire, f.s.TTL} {
		f.out = binary.BigEndian.AppendUint32(f.out, v)
	}
	binary.BigEndian.PutUint16(f.out[f.base+data-2:], uint16(f.offset()-data))
	f.authority = 1
	return true
}

func (f *fastPath) writePointer(offset int) {
	f.out = binary.BigEndian.AppendUint16(f.out, pointerBits|uint16(offset))
}

func (f *fastPath) writeOPT() {
	var do byte
	if f.do {
		do = 0x80
	}
	f.out = append(f.out, 0, 0, byte(dns.TypeOPT), byte(f.maxUDP>>8), byte(f.maxUDP), 0, 0, do, 0, 0, 0)
	f.additions++
}
