package server

import (
	"slices"
	"strings"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/zone"
)

// maxChain is the largest number of aliases that are followed for one question.
const maxChain = 10

// answer is the answer to a question before it is fitted into a message. Each record set will be
// whole or absent.
type answer struct {
	rcode      int
	outOfZone  bool // the name is in none of the zones
	answer     [][]dns.RR
	authority  []dns.RR
	additional [][]dns.RR
	// externalAlias is the name at the end of the aliases, if it is in none of the zones.
	externalAlias string
	// partial is true if the answer lacks records of a set. It is a normal answer all the same.
	partial bool
}

// resolver finds the answer to one question in one snapshot.
type resolver struct {
	*zone.Snapshot
	qtype      uint16
	rotate     uint32 // where to start in sets of addresses
	maxRecords int    // largest number of records of one set in the answer
	answer
}

// resolve answers a question from the zones alone. The answer spells qname as the question does.
func resolve(s *zone.Snapshot, qname string, qtype uint16, rotate uint32, maxRecords int) answer {
	r := &resolver{Snapshot: s, qtype: qtype, rotate: rotate, maxRecords: maxRecords}
	owner := qname
	name, err := zone.ParseName(qname)
	if err != nil {
		return answer{rcode: dns.RcodeFormatError}
	}
	seen := []string{name}
	for {
		n := s.Get([]byte(name))
		if n == nil {
			r.answerAbsent(owner, name, len(seen) > 1)
			return r.answer
		}
		alias := n.Set(dns.TypeCNAME)
		if alias == nil || qtype == dns.TypeCNAME || qtype == dns.TypeANY {
			r.answerPresent(owner, n)
			return r.answer
		}
		if qtype == dns.TypeSRV {
			r.authority = []dns.RR{r.soa(n.Zone(), n.Name())} // an ExternalName service has no ports
			return r.answer
		}
		r.answer.answer = append(r.answer.answer, r.records(owner, n, alias))
		name = alias.Data
		owner = zone.Text(name)
		if slices.Contains(seen, name) || len(seen) > maxChain {
			return r.answer // A loop, or a chain that is too long: the answer has the aliases so far.
		}
		seen = append(seen, name)
	}
}

// answerAbsent answers for a name without a node. At the end of a chain of aliases the name may be
// outside of the zones.
func (r *resolver) answerAbsent(owner, name string, chained bool) {
	if addr, ok := r.InsecurePod(name); ok {
		r.answerInsecurePod(owner, name, zone.InsecurePodSet(addr))
		return
	}
	index := r.ZoneOf([]byte(name))
	switch {
	case index < 0 && chained:
		r.externalAlias = owner
	case index < 0:
		r.outOfZone = true
		r.rcode = dns.RcodeRefused
	case !r.Synced:
		r.rcode = dns.RcodeServerFailure
	default:
		r.rcode = dns.RcodeNameError
		r.authority = []dns.RR{r.soa(index, name)}
	}
}

func (r *resolver) answerInsecurePod(owner, name string, set zone.Set) {
	switch r.qtype {
	case set.Type:
		r.answer.answer = append(r.answer.answer, addresses(owner, r.TTL, &set, 0, int(set.Count)))
	case dns.TypeANY:
		r.minimalAny(owner)
	default:
		r.authority = []dns.RR{r.soa(r.ZoneOf([]byte(name)), name)}
	}
}

// answerPresent answers for a name that exists.
func (r *resolver) answerPresent(owner string, n *zone.Node) {
	apex := r.IsApex(n)
	if r.qtype == dns.TypeANY && (apex || len(n.Sets()) > 0) {
		if alias := n.Set(dns.TypeCNAME); alias != nil {
			r.answer.answer = append(r.answer.answer, r.records(owner, n, alias))
			return
		}
		r.minimalAny(owner)
		return
	}
	if apex && r.qtype == dns.TypeSOA {
		soa := r.soa(n.Zone(), n.Name())
		soa.Hdr.Name = owner
		r.answer.answer = append(r.answer.answer, []dns.RR{soa})
		return
	}
	set := n.Set(r.qtype)
	if set == nil {
		r.authority = []dns.RR{r.soa(n.Zone(), n.Name())}
		return
	}
	rrs := r.records(owner, n, set)
	r.partial = len(rrs) < int(set.Count)
	r.answer.answer = append(r.answer.answer, rrs)
	r.addGlue(rrs)
}

// minimalAny answers ANY with a single record (RFC 8482), so that ANY cannot be used to turn a
// small question into a large answer.
func (r *resolver) minimalAny(owner string) {
	r.answer.answer = append(r.answer.answer, []dns.RR{&dns.HINFO{Hdr: header(owner, dns.TypeHINFO, r.TTL), Cpu: "RFC8482"}})
}

// addGlue adds the addresses of the targets to the additional section.
func (r *resolver) addGlue(rrs []dns.RR) {
	for _, target := range targets(rrs) {
		name, err := zone.ParseName(target)
		if err != nil {
			continue // impossible: the target is in one of the zones
		}
		t := r.Get([]byte(name))
		if t == nil {
			continue
		}
		for _, rrtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
			if addrs := t.Set(rrtype); addrs != nil {
				r.additional = append(r.additional, addresses(target, r.TTL, addrs, r.rotate, int(addrs.Count)))
			}
		}
	}
}

// targets returns the names in the data of SRV and NS records, each once.
func targets(rrs []dns.RR) []string {
	var names []string
	seen := map[string]bool{}
	for _, rr := range rrs {
		var target string
		switch rr := rr.(type) {
		case *dns.SRV:
			target = rr.Target
		case *dns.NS:
			target = rr.Ns
		}
		if target != "" && !seen[target] {
			names = append(names, target)
			seen[target] = true
		}
	}
	return names
}

// records unpacks a set. It unpacks only part of a set that is larger than an answer may be.
func (r *resolver) records(owner string, n *zone.Node, set *zone.Set) []dns.RR {
	var rrs []dns.RR
	count := min(r.maxRecords, int(set.Count))
	switch h := header(owner, set.Type, r.TTL); set.Type {
	case dns.TypeA, dns.TypeAAAA:
		return addresses(owner, r.TTL, set, r.rotate, count)
	case dns.TypePTR:
		for name := range set.Names() {
			rrs = append(rrs, &dns.PTR{Hdr: h, Ptr: zone.Text(name)})
		}
	case dns.TypeCNAME:
		rrs = append(rrs, &dns.CNAME{Hdr: h, Target: zone.Text(set.Data)})
	case dns.TypeNS:
		for name := range set.Names() {
			rrs = append(rrs, &dns.NS{Hdr: h, Ns: zone.Text(name)})
		}
	case dns.TypeTXT:
		rrs = append(rrs, &dns.TXT{Hdr: h, Txt: []string{set.Data[1:]}})
	case dns.TypeSRV:
		base := n.Name()[set.Strip():]
		records := set.SRVs()
		if count < int(set.Count) {
			records = set.RotatedSRVs(r.rotate, count)
		}
		for srv := range records {
			rrs = append(rrs, &dns.SRV{Hdr: h, Weight: srv.Weight, Port: srv.Port, Target: zone.Text(srv.Label + base)})
		}
	}
	return rrs
}

func header(owner string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

// addresses unpacks n addresses of a set, starting at a position that changes from question to
// question.
func addresses(owner string, ttl uint32, set *zone.Set, rotate uint32, n int) []dns.RR {
	size := zone.AddrSize(set.Type)
	rrs := make([]dns.RR, 0, n)
	for i := range set.Rotated(rotate, n) {
		raw := []byte(set.Data[i*size : (i+1)*size])
		if set.Type == dns.TypeA {
			rrs = append(rrs, &dns.A{Hdr: header(owner, dns.TypeA, ttl), A: raw})
		} else {
			rrs = append(rrs, &dns.AAAA{Hdr: header(owner, dns.TypeAAAA, ttl), AAAA: raw})
		}
	}
	return rrs
}

// Times of the SOA record, in seconds. Secondaries follow NOTIFY, so the times matter only if a
// notification is lost.
const (
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400
	soaMaxTTL  = 300
)

// soa returns the SOA record of the zone with that index, which contains name. Its minimum, the
// time for which absence may be cached, is the TTL of all records.
func (r *resolver) soa(index int, name string) *dns.SOA {
	return soaOf(r.Snapshot, r.ZoneAt(index, name))
}

func soaOf(s *zone.Snapshot, z zone.Zone) *dns.SOA {
	return &dns.SOA{
		Hdr: header(zone.Text(z.Name), dns.TypeSOA, min(s.TTL, soaMaxTTL)),
		Ns:  zone.Text(z.MName), Mbox: zone.Text(z.RName),
		Serial: s.Serial, Refresh: soaRefresh, Retry: soaRetry, Expire: soaExpire, Minttl: s.TTL,
	}
}

// sizeLimit is the space for an answer.
type sizeLimit struct {
	bytes         int
	lastTransport bool // no other transport has more space
}

// reply returns the packed message for an answer, with the records that fit.
func (a *answer) reply(req *dns.Msg, limit sizeLimit, opt *dns.OPT) []byte {
	m := new(dns.Msg)
	m.SetReply(req)
	m.Compress = true
	m.Rcode = a.rcode
	m.Authoritative = !a.outOfZone && a.rcode != dns.RcodeServerFailure
	return fit(m, a, limit, opt)
}

// fit packs as much of an answer as there is room for. It first leaves out additional sets, without
// the TC flag, because the client did not ask for them. It then leaves out whole sets of the answer
// and sets the TC flag. On the last transport it answers with part of a set instead, because that
// is better than no record, and without the flag, because no other transport would carry more.
func fit(m *dns.Msg, a *answer, limit sizeLimit, opt *dns.OPT) []byte {
	sets, cut := a.answer, false
	try := func(answers, additional int) []byte {
		m.Answer = slices.Concat(sets[:answers]...)
		m.Ns = a.authority
		if cut || answers < len(sets) {
			m.Ns, m.Truncated = nil, !cut
		}
		m.Extra = slices.Concat(a.additional[:additional]...)
		if opt != nil {
			m.Extra = append(m.Extra, opt)
		}
		packed, err := m.Pack()
		if err != nil || len(packed) > limit.bytes {
			return nil
		}
		return packed
	}
	all := len(a.answer)
	if packed := try(all, len(a.additional)); packed != nil {
		return packed
	}
	if packed := try(all, 0); packed != nil {
		lo, hi := 0, len(a.additional) // lo fits, hi does not
		for lo+1 < hi {
			mid := (lo + hi) / 2
			if p := try(all, mid); p != nil {
				lo, packed = mid, p
			} else {
				hi = mid
			}
		}
		return packed
	}
	for answers := all - 1; answers >= 0; answers-- {
		packed := try(answers, 0)
		if packed == nil {
			continue
		}
		if !limit.lastTransport {
			return packed
		}
		whole, large := a.answer[:answers], a.answer[answers]
		cut, a.partial = true, true
		for n := roomFor(large, limit.bytes-len(packed)); n > 0; n -= max(1, n/100) {
			sets = append(slices.Clip(whole), large[:n])
			if some := try(answers+1, 0); some != nil {
				return some
			}
		}
		return packed
	}
	m.Truncated = true
	m.Answer, m.Ns, m.Extra = nil, nil, nil
	if opt != nil {
		m.Extra = []dns.RR{opt}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil // impossible: the question was packed when it arrived
	}
	return packed
}

// roomFor returns the number of records of a set that fit into room bytes, if only the name of
// their owner is compressed.
func roomFor(set []dns.RR, room int) int {
	const pointer = 2
	for n, rr := range set {
		if room -= dns.Len(rr) - len(rr.Header().Name) - 1 + pointer; room < 0 {
			return n
		}
	}
	return len(set)
}

// sameName compares names in text form.
func sameName(a, b string) bool { return strings.EqualFold(a, b) }
