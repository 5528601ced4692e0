package forward

import (
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// FuzzAnswer takes any bytes for the answer of an upstream server. An answer to another question is
// refused. A cached answer has the records that came, never with a longer life than they had, nor
// longer than maxPositive; once expired it lives for staleTTL.
func FuzzAnswer(f *testing.F) {
	asked := new(dns.Msg).SetQuestion("example.com.", dns.TypeA)
	answer := func(change func(*dns.Msg)) {
		m := new(dns.Msg).SetReply(asked)
		for _, text := range []string{"example.com. 300 IN CNAME www.example.com.", "www.example.com. 60 IN A 192.0.2.1"} {
			rr, err := dns.NewRR(text)
			if err != nil {
				f.Fatal(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		change(m)
		packet, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packet, 10)
	}
	answer(func(*dns.Msg) {})
	answer(func(m *dns.Msg) { m.Answer[1].Header().Ttl = 1<<32 - 1 })
	answer(func(m *dns.Msg) { m.Question[0].Name = "EXAMPLE.com." })
	answer(func(m *dns.Msg) { m.Question[0].Name = "other.example." })
	answer(func(m *dns.Msg) { m.Question = nil })
	answer(func(m *dns.Msg) { m.Truncated = true })
	answer(func(m *dns.Msg) {
		m.Answer, m.Rcode = nil, dns.RcodeNameError
		m.Ns = []dns.RR{&dns.SOA{Hdr: dns.RR_Header{Name: "com.", Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 86400}, Ns: "ns.", Mbox: "m.", Minttl: 5}}
	})
	f.Add([]byte{}, 0)
	f.Fuzz(func(t *testing.T, packet []byte, seconds int) {
		reply := new(dns.Msg)
		if reply.Unpack(packet) != nil || new(upstream).checkReply(asked, reply) != nil {
			return
		}
		if len(reply.Question) != 1 || !strings.EqualFold(reply.Question[0].Name, "example.com.") || reply.Question[0].Qtype != dns.TypeA {
			t.Fatalf("%x is taken for an answer", packet)
		}
		now := time.Now()
		c := newCache(1, time.Hour)
		c.now = func() time.Time { return now }
		key := question{"example.com.", dns.TypeA}
		reply.Extra = nil
		c.put(key, reply)
		age := time.Duration(min(max(seconds, 0), 7200)) * time.Second
		now = now.Add(age)
		got, fresh := c.get(key)
		if got == nil {
			return
		}
		if reply.Truncated || fresh && age >= maxPositive || reply.Rcode != got.Rcode || len(got.Answer) != len(reply.Answer) || len(got.Ns) != len(reply.Ns) {
			t.Fatalf("%v\ncached for %s is\n%v, %v", reply, age, got, fresh)
		}
		for i, rr := range got.Answer {
			before := time.Duration(reply.Answer[i].Header().Ttl) * time.Second
			after := time.Duration(rr.Header().Ttl) * time.Second
			if fresh && after != before-age || !fresh && after != staleTTL*time.Second {
				t.Fatalf("%v after %s is %v, fresh: %v", reply.Answer[i], age, rr, fresh)
			}
		}
	})
}
