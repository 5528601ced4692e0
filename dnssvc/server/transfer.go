package server

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/zone"
)

// Transfer gives whole zones to secondaries (AXFR), by TCP only.
type Transfer struct {
	// Allow lists the networks of the secondaries.
	Allow []netip.Prefix
}

func isTransfer(qtype uint16) bool { return qtype == dns.TypeAXFR || qtype == dns.TypeIXFR }

// transferSize is about how much of a zone goes into one message, in bytes.
const transferSize = 16 << 10

// transfer answers AXFR and IXFR. Of a zone that has changed the whole is sent, which RFC 1995 allows.
func (c *stream) transfer(packet []byte) error {
	req := new(dns.Msg)
	if err := req.Unpack(packet); err != nil || len(req.Question) != 1 || req.Response {
		return c.append(errorReply(packet, dns.RcodeFormatError))
	}
	e := readEDNS(req, c.server.cfg.MaxUDP)
	s := c.server.cfg.Names()
	name, err := zone.ParseName(req.Question[0].Name)
	index := s.ZoneNamed(name)
	allowed := slices.ContainsFunc(c.server.cfg.Transfer.Allow, func(p netip.Prefix) bool { return p.Contains(c.client.Addr()) })
	if err != nil || e.bad != 0 || !allowed || index < 0 || !s.Synced || req.Question[0].Qclass != dns.ClassINET {
		rcode := e.bad
		switch {
		case rcode != 0:
		case allowed && index >= 0:
			rcode = dns.RcodeServerFailure
		case allowed:
			rcode = dns.RcodeNotAuth
		default:
			rcode = dns.RcodeRefused
		}
		return c.append(refusal(rcode).reply(req, streamLimit, e.opt))
	}
	if req.Question[0].Qtype == dns.TypeIXFR && current(req, s.Serial) {
		return c.sendRecords(req, e.opt, []dns.RR{soaOf(s, index)})
	}
	c.server.cfg.Log.Info("zone transfer", "zone", zone.Text(name), "client", c.client, "serial", s.Serial)
	return c.sendZone(req, e.opt, s, index)
}

// current says whether the client of an IXFR has this serial, or a later one.
func current(req *dns.Msg, serial uint32) bool {
	for _, rr := range req.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return int32(soa.Serial-serial) >= 0 // RFC 1982
		}
	}
	return false
}

func (c *stream) sendZone(req *dns.Msg, opt *dns.OPT, s *zone.Snapshot, index int) error {
	r := &resolver{Snapshot: s}
	records := []dns.RR{soaOf(s, index)}
	size := 0
	for n := range s.Nodes(index) {
		owner := zone.Text(n.Name())
		for i := range n.Sets() {
			for _, rr := range r.records(owner, n, &n.Sets()[i]) {
				records = append(records, rr)
				if size += dns.Len(rr); size < transferSize {
					continue
				}
				if err := c.sendRecords(req, opt, records); err != nil {
					return err
				}
				records, size = nil, 0
			}
		}
	}
	return c.sendRecords(req, opt, append(records, soaOf(s, index)))
}

func (c *stream) sendRecords(req *dns.Msg, opt *dns.OPT, records []dns.RR) error {
	m := new(dns.Msg)
	m.SetReply(req)
	m.Authoritative, m.Compress, m.Answer = true, true, records
	if opt != nil {
		m.Extra = []dns.RR{opt}
	}
	packed, err := m.Pack()
	if err != nil {
		return fmt.Errorf("pack zone: %w", err)
	}
	if err := c.append(packed); err != nil {
		return err
	}
	return c.flush()
}
