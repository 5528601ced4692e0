package dnssvc

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"github.com/miekg/dns"

	dnsv1 "portolan.dev/api/dns/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"

	"portolan.dev/dnssvc/internal/server"
	"portolan.dev/dnssvc/internal/zone"
)

// api implements DNSService.
type api struct {
	dnsv1.UnsafeDNSServiceServer
	daemon *Daemon
}

// GetStatus implements dnsv1.DNSServiceServer.
func (a *api) GetStatus(context.Context, *dnsv1.GetStatusRequest) (*dnsv1.GetStatusResponse, error) {
	s := a.daemon.table.Snapshot()
	status := &dnsv1.GetStatusResponse{
		Revision: s.Revision, Synced: s.Synced, Names: uint64(s.Size()),
		AgeSeconds: a.daemon.age().Seconds(), Listen: a.daemon.dns.Addrs(),
	}
	for _, z := range s.Zones {
		status.Zones = append(status.Zones, zone.Text(z.Name))
	}
	return status, nil
}

// Query implements dnsv1.DNSServiceServer.
func (a *api) Query(ctx context.Context, req *dnsv1.QueryRequest) (*dnsv1.QueryResponse, error) {
	rrtype, violations := queryType(req)
	names := a.searchNames(req)
	if len(names) == 0 {
		violations.Add("name", apierr.ReasonInvalid, "%q is no domain name", req.GetName())
	}
	if len(violations) > 0 {
		return nil, apierr.Invalid("Query", req.GetName(), violations)
	}
	var first *dns.Msg
	for _, name := range names {
		m, err := a.ask(ctx, name, rrtype)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = m
		}
		if len(m.Answer) > 0 {
			return a.response(m, rrtype), nil
		}
	}
	return a.response(first, rrtype), nil
}

// queryType reads the record type of a request. The default is A, or PTR if the name is an address.
func queryType(req *dnsv1.QueryRequest) (uint16, apierr.Violations) {
	var violations apierr.Violations
	text := strings.ToUpper(req.GetType())
	if text == "" {
		text = "A"
		if _, err := netip.ParseAddr(req.GetName()); err == nil {
			text = "PTR"
		}
	}
	rrtype, ok := dns.StringToType[text]
	if !ok || rrtype == dns.TypeAXFR || rrtype == dns.TypeIXFR || rrtype == dns.TypeOPT {
		violations.Add("type", apierr.ReasonNotSupported, "%q is no type that can be asked for; try %s", req.GetType(), zone.TypeNames("or"))
	}
	return rrtype, violations
}

// searchNames returns the full names that the request's name may stand for, the likeliest first.
// They are the names that a workload of the namespace tries by its search path.
func (a *api) searchNames(req *dnsv1.QueryRequest) []string {
	text := req.GetName()
	if addr, err := netip.ParseAddr(text); err == nil {
		return []string{zone.Text(zone.ReverseName(addr))}
	}
	name, err := zone.ParseName(text)
	if err != nil || text == "" {
		return nil
	}
	s := a.daemon.table.Snapshot()
	if strings.HasSuffix(text, ".") || s.ZoneOf([]byte(name)) >= 0 {
		return []string{dns.Fqdn(text)}
	}
	namespace := req.GetNamespace()
	if namespace == "" {
		namespace = object.DefaultNamespace
	}
	primary := zone.Text(s.Zones[0].Name)
	inNamespace, inZone := text+"."+namespace+".svc."+primary, text+".svc."+primary
	if strings.Contains(text, ".") && !strings.HasPrefix(text, "_") {
		inNamespace, inZone = inZone, inNamespace // SERVICE.NAMESPACE is likelier than ENDPOINT.SERVICE.
	}
	var names []string
	for _, candidate := range []string{inNamespace, inZone, text + "." + primary} {
		if _, err := zone.ParseName(candidate); err == nil {
			names = append(names, candidate)
		}
	}
	return names
}

// ask puts a question to the ordinary handler, as if a client on this machine had sent it by TCP.
func (a *api) ask(ctx context.Context, name string, rrtype uint16) (*dns.Msg, error) {
	m := new(dns.Msg).SetQuestion(name, rrtype)
	packet, err := m.Pack()
	if err != nil {
		return nil, apierr.Internal(err)
	}
	reply, later := a.daemon.dns.Handler().Handle(server.Query{
		Packet: packet, Client: netip.AddrPortFrom(netip.IPv6Loopback(), 1), TCP: true,
	})
	if later != nil {
		reply = later(ctx)
	}
	answer := new(dns.Msg)
	if err := answer.Unpack(reply); err != nil {
		return nil, apierr.Internal(err)
	}
	return answer, nil
}

func (a *api) response(m *dns.Msg, rrtype uint16) *dnsv1.QueryResponse {
	q := m.Question[0]
	resp := &dnsv1.QueryResponse{
		Name: q.Name, Rcode: dns.RcodeToString[m.Rcode], Revision: a.daemon.table.Snapshot().Revision,
		Answer: texts(m.Answer), Authority: texts(m.Ns), Additional: texts(m.Extra),
	}
	if name, err := zone.ParseName(q.Name); err == nil {
		resp.Explanation = append(a.daemon.table.Explain(name, rrtype), a.explainPartial(m, name, rrtype)...)
	}
	for _, rr := range m.Answer {
		if alias, ok := rr.(*dns.CNAME); ok && rrtype != dns.TypeCNAME {
			if name, err := zone.ParseName(alias.Target); err == nil {
				resp.Explanation = append(resp.Explanation, a.daemon.table.Explain(name, rrtype)...)
			}
		}
	}
	return resp
}

// explainPartial returns a sentence if the answer m lacks records of the set of that name and type.
func (a *api) explainPartial(m *dns.Msg, name string, rrtype uint16) []string {
	n := a.daemon.table.Snapshot().Get([]byte(name))
	if n == nil || n.Set(rrtype) == nil || len(m.Answer) >= int(n.Set(rrtype).Count) {
		return nil
	}
	return []string{fmt.Sprintf("an answer has %d of the %d records, each time others: there is no room "+
		"for more, or -max-records-tcp does not allow it", len(m.Answer), n.Set(rrtype).Count)}
}

func texts(rrs []dns.RR) []string {
	var out []string
	for _, rr := range rrs {
		out = append(out, rr.String())
	}
	return out
}
