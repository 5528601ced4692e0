package server

import (
	"slices"
	"strings"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/zone"
)

// maxChain bounds how many aliases are followed for one question.
const maxChain = 10

// answer is what is said to a question before it is known how much of it fits. Record sets are whole or absent.
type answer struct {
	rcode      int
	outside    bool // the name is in none of the zones
	answer     [][]dns.RR
	authority  []dns.RR
	additional [][]dns.RR
	// chase is the name at the end of the aliases where it is not ours.
	chase string
}

// resolver finds the answer to one question in one snapshot.
type resolver struct {
	*zone.Snapshot
	qtype  uint16
	rotate uint32 // where to start in sets of addresses
	answer
}

// resolve answers from the zones alone. qname is given as it was asked, which is how the answer spells it.
func resolve(s *zone.Snapshot, qname string, qtype uint16, rotate uint32) answer {
	r := &resolver{Snapshot: s, qtype: qtype, rotate: rotate}
	owner := qname
	name, err := zone.ParseName(qname)
	if err != nil {
		return answer{rcode: dns.RcodeFormatError}
	}
	seen := []string{name}
	for {
		n := s.Get([]byte(name))
		if n == nil {
			r.absent(owner, name, len(seen) > 1)
			return r.answer
		}
		alias := n.Set(dns.TypeCNAME)
		if alias == nil || qtype == dns.TypeCNAME || qtype == dns.TypeANY {
			r.present(owner, n)
			return r.answer
		}
		r.answer.answer = append(r.answer.answer, r.records(owner, n, alias))
		name = alias.Data
		owner = zone.Text(name)
		if slices.Contains(seen, name) || len(seen) > maxChain {
			return r.answer // a loop, or as good as one: what there is of it
		}
		seen = append(seen, name)
	}
}

// absent answers for a name that has no node. At the end of a chain of aliases it may be elsewhere.
func (r *resolver) absent(owner, name string, chained bool) {
	if addr, ok := r.InsecurePod(name); ok {
		r.insecurePod(owner, name, zone.InsecurePodSet(addr))
		return
	}
	index := r.ZoneOf([]byte(name))
	switch {
	case index < 0 && chained:
		r.chase = owner
	case index < 0:
		r.outside = true
		r.rcode = dns.RcodeRefused
	case !r.Synced:
		r.rcode = dns.RcodeServerFailure
	default:
		r.rcode = dns.RcodeNameError
		r.authority = []dns.RR{r.soa(index)}
	}
}

func (r *resolver) insecurePod(owner, name string, set zone.Set) {
	switch r.qtype {
	case set.Type:
		r.answer.answer = append(r.answer.answer, addresses(owner, r.TTL, &set, 0))
	case dns.TypeANY:
		r.minimalAny(owner)
	default:
		r.authority = []dns.RR{r.soa(r.ZoneOf([]byte(name)))}
	}
}

// present answers for a name that exists.
func (r *resolver) present(owner string, n *zone.Node) {
	apex := r.Apex(n)
	if r.qtype == dns.TypeANY && (apex || len(n.Sets()) > 0) {
		if alias := n.Set(dns.TypeCNAME); alias != nil {
			r.answer.answer = append(r.answer.answer, r.records(owner, n, alias))
			return
		}
		r.minimalAny(owner)
		return
	}
	if apex && r.qtype == dns.TypeSOA {
		soa := r.soa(n.Zone())
		soa.Hdr.Name = owner
		r.answer.answer = append(r.answer.answer, []dns.RR{soa})
		return
	}
	set := n.Set(r.qtype)
	if set == nil {
		r.authority = []dns.RR{r.soa(n.Zone())}
		return
	}
	r.answer.answer = append(r.answer.answer, r.records(owner, n, set))
	r.glue(n, set)
}

// minimalAny answers ANY with as little as possible (RFC 8482): nobody can use it to make a small question a large answer.
func (r *resolver) minimalAny(owner string) {
	r.answer.answer = append(r.answer.answer, []dns.RR{&dns.HINFO{Hdr: header(owner, dns.TypeHINFO, r.TTL), Cpu: "RFC8482"}})
}

// glue adds the addresses of the targets.
func (r *resolver) glue(n *zone.Node, set *zone.Set) {
	for _, target := range targets(n, set) {
		t := r.Get([]byte(target))
		if t == nil {
			continue
		}
		for _, rrtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
			if addrs := t.Set(rrtype); addrs != nil {
				r.additional = append(r.additional, addresses(zone.Text(target), r.TTL, addrs, r.rotate))
			}
		}
	}
}

// targets are the names that SRV and NS records point at, each once.
func targets(n *zone.Node, set *zone.Set) []string {
	var names []string
	switch set.Type {
	case dns.TypeSRV:
		base := n.Name()[set.Strip():]
		last := "-" // no label
		for srv := range set.SRVs() {
			if srv.Label != last { // they are sorted
				names = append(names, srv.Label+base)
				last = srv.Label
			}
		}
	case dns.TypeNS:
		names = slices.AppendSeq(names, set.Names())
	}
	return names
}

// records unpacks a set.
func (r *resolver) records(owner string, n *zone.Node, set *zone.Set) []dns.RR {
	var rrs []dns.RR
	switch h := header(owner, set.Type, r.TTL); set.Type {
	case dns.TypeA, dns.TypeAAAA:
		return addresses(owner, r.TTL, set, r.rotate)
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
		for srv := range set.SRVs() {
			rrs = append(rrs, &dns.SRV{Hdr: h, Weight: srv.Weight, Port: srv.Port, Target: zone.Text(srv.Label + base)})
		}
	}
	return rrs
}

func header(owner string, rrtype uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: rrtype, Class: dns.ClassINET, Ttl: ttl}
}

// addresses unpacks a set of addresses, beginning at one that differs from question to question.
func addresses(owner string, ttl uint32, set *zone.Set, rotate uint32) []dns.RR {
	size := zone.AddrSize(set.Type)
	count := int(set.Count)
	rrs := make([]dns.RR, 0, count)
	for i := range count {
		at := (i + int(rotate)%count) % count * size
		raw := []byte(set.Data[at : at+size])
		if set.Type == dns.TypeA {
			rrs = append(rrs, &dns.A{Hdr: header(owner, dns.TypeA, ttl), A: raw})
		} else {
			rrs = append(rrs, &dns.AAAA{Hdr: header(owner, dns.TypeAAAA, ttl), AAAA: raw})
		}
	}
	return rrs
}

// Times of the SOA record; secondaries follow NOTIFY, so these are for when it is lost.
const (
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400
	soaMaxTTL  = 300
)

// soa is the SOA record of a zone. Its minimum, how long absence may be remembered, is the TTL of all records.
func (r *resolver) soa(index int) *dns.SOA { return soaOf(r.Snapshot, index) }

func soaOf(s *zone.Snapshot, index int) *dns.SOA {
	z := s.Zones[index]
	return &dns.SOA{
		Hdr: header(zone.Text(z.Name), dns.TypeSOA, min(s.TTL, soaMaxTTL)),
		Ns:  zone.Text(z.MName), Mbox: zone.Text(z.RName),
		Serial: s.Serial, Refresh: soaRefresh, Retry: soaRetry, Expire: soaExpire, Minttl: s.TTL,
	}
}

// reply makes the message for an answer, with what fits into limit bytes.
func (a *answer) reply(req *dns.Msg, limit int, opt *dns.OPT) []byte {
	m := new(dns.Msg)
	m.SetReply(req)
	m.Compress = true
	m.Rcode = a.rcode
	m.Authoritative = !a.outside && a.rcode != dns.RcodeServerFailure
	return fit(m, a, limit, opt)
}

// fit packs as much of an answer as there is room for: first additional sets are left out, which needs no flag because nobody asked for them;
// then whole sets of the answer, and the flag says so.
func fit(m *dns.Msg, a *answer, limit int, opt *dns.OPT) []byte {
	try := func(answers, additional int) []byte {
		m.Answer = slices.Concat(a.answer[:answers]...)
		m.Ns = a.authority
		if answers < len(a.answer) {
			m.Ns, m.Truncated = nil, true
		}
		m.Extra = slices.Concat(a.additional[:additional]...)
		if opt != nil {
			m.Extra = append(m.Extra, opt)
		}
		packed, err := m.Pack()
		if err != nil || len(packed) > limit {
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
		if packed := try(answers, 0); packed != nil {
			return packed
		}
	}
	m.Truncated = true
	m.Answer, m.Ns, m.Extra = nil, nil, nil
	if opt != nil {
		m.Extra = []dns.RR{opt}
	}
	packed, err := m.Pack()
	if err != nil {
		return nil // cannot be: it is the question, which came packed
	}
	return packed
}

// sameName compares names as people write them.
func sameName(a, b string) bool { return strings.EqualFold(a, b) }
