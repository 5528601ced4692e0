package server

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/zone"
)

// Transfer configures transfers of whole zones to secondaries (AXFR), by TCP only.
type Transfer struct {
	// Allow lists the networks of the secondaries. If it is empty, a key suffices.
	Allow []netip.Prefix
}

// allows reports whether a secondary may copy zones. Its address must be listed, and the question
// must be signed if there are keys. Without a list and keys no client may copy zones.
func (t *Transfer) allows(client netip.Addr, keys Keys, sig *signature) bool {
	listed := slices.ContainsFunc(t.Allow, func(p netip.Prefix) bool { return p.Contains(client) })
	if len(keys) == 0 {
		return listed
	}
	return sig != nil && sig.fault == 0 && (listed || len(t.Allow) == 0)
}

func isTransfer(qtype uint16) bool { return qtype == dns.TypeAXFR || qtype == dns.TypeIXFR }

// transferSize is the approximate size in bytes of one message of a transfer.
const transferSize = 16 << 10

// transfer answers AXFR and IXFR. It answers IXFR with the whole zone if the zone has changed, as
// RFC 1995 allows.
func (c *tcpConn) transfer(packet []byte) error {
	req := new(dns.Msg)
	if err := req.Unpack(packet); err != nil || len(req.Question) != 1 || req.Response {
		return c.append(errorReply(packet, dns.RcodeFormatError))
	}
	sig, err := c.server.handler.signature(req, packet)
	if err != nil {
		return c.append(errorReply(packet, dns.RcodeFormatError))
	}
	e := readEDNS(req, c.server.cfg.MaxUDP)
	s := c.server.cfg.Names()
	name, err := zone.ParseName(req.Question[0].Name)
	index := -1
	if err == nil {
		index = s.ZoneNamed(name)
	}
	if rcode := c.refusalCode(req, s, index, e, sig); rcode != dns.RcodeSuccess {
		return c.append(sig.signPacked(refusal(rcode).reply(req, sizeLimit{bytes: tcpLimit - sig.room(), lastTransport: true}, e.opt)))
	}
	t := &zoneTransfer{tcpConn: c, req: req, opt: e.opt, sig: sig}
	if req.Question[0].Qtype == dns.TypeIXFR && hasSerial(req, s.Serial) {
		return t.sendRecords([]dns.RR{soaOf(s, s.Zones[index])})
	}
	c.server.cfg.Log.Info("zone transfer", "zone", zone.Text(name), "client", c.client, "serial", s.Serial, "key", sig.keyName())
	return t.sendZone(s, index)
}

// refusalCode returns the response code that refuses a transfer, or success if it is allowed. index
// is the index of the zone in the snapshot, or -1 if no zone has the name.
func (c *tcpConn) refusalCode(req *dns.Msg, s *zone.Snapshot, index int, e edns, sig *signature) int {
	switch {
	case e.rcode != 0:
		return e.rcode
	case sig != nil && sig.fault != 0:
		return dns.RcodeNotAuth
	case !c.server.cfg.Transfer.allows(c.client.Addr(), c.server.cfg.Keys, sig):
		return dns.RcodeRefused
	case index < 0:
		return dns.RcodeNotAuth
	case !s.Synced || req.Question[0].Qclass != dns.ClassINET:
		return dns.RcodeServerFailure
	}
	return dns.RcodeSuccess
}

// zoneTransfer is the answer to a transfer, in any number of messages.
type zoneTransfer struct {
	*tcpConn
	req *dns.Msg
	opt *dns.OPT
	sig *signature // nil if the answer is not signed
}

// hasSerial reports whether the client of an IXFR has this serial or a later one.
func hasSerial(req *dns.Msg, serial uint32) bool {
	for _, rr := range req.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return int32(soa.Serial-serial) >= 0 // RFC 1982
		}
	}
	return false
}

func (t *zoneTransfer) sendZone(s *zone.Snapshot, index int) error {
	r := &resolver{Snapshot: s, maxRecords: allRecords}
	records := []dns.RR{soaOf(s, s.Zones[index])}
	length := 0
	for n := range s.Nodes(index) {
		owner := zone.Text(n.Name())
		for i := range n.Sets() {
			for _, rr := range r.records(owner, n, &n.Sets()[i]) {
				records = append(records, rr)
				if length += dns.Len(rr); length < transferSize {
					continue
				}
				if err := t.sendRecords(records); err != nil {
					return err
				}
				records, length = nil, 0
			}
		}
	}
	return t.sendRecords(append(records, soaOf(s, s.Zones[index])))
}

func (t *zoneTransfer) sendRecords(records []dns.RR) error {
	m := new(dns.Msg)
	m.SetReply(t.req)
	m.Authoritative, m.Compress, m.Answer = true, true, records
	if t.opt != nil {
		m.Extra = []dns.RR{t.opt}
	}
	packed, err := t.sig.sign(m)
	if err != nil {
		return fmt.Errorf("pack zone: %w", err)
	}
	if err := t.append(packed); err != nil {
		return err
	}
	return t.flush()
}
