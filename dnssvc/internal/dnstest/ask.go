package dnstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"portolan.dev/dnssvc/internal/zone"
	"portolan.dev/services/object"
)

// Transport is a transport and message size with which to ask.
type Transport struct {
	Name string
	Net  string // udp or tcp
	Size uint16 // announced by EDNS, in bytes; 0: no EDNS
}

// Transports are all ways to ask that must give the same answer.
var Transports = []Transport{
	{"udp", "udp", 0},
	{"udp edns 512", "udp", 512},
	{"udp edns 1232", "udp", 1232},
	{"udp edns 4096", "udp", 4096},
	{"tcp", "tcp", 0},
	{"tcp edns", "tcp", 1232},
}

// AnswerTimeout bounds the wait for an answer.
const AnswerTimeout = 30 * time.Second

// Ask asks one question at addr. By UDP it asks again without an answer, because datagrams may be
// lost.
func Ask(t testing.TB, w Transport, addr, name string, qtype uint16) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, qtype)
	if w.Size > 0 {
		m.SetEdns0(w.Size, false)
	}
	return Exchange(t, w.Net, addr, m)
}

// Exchange sends a message and returns the answer.
func Exchange(t testing.TB, network, addr string, m *dns.Msg) *dns.Msg {
	t.Helper()
	client := &dns.Client{Net: network, Timeout: AnswerTimeout, UDPSize: dns.MaxMsgSize}
	if network == "udp" {
		client.Timeout = 5 * time.Second
	}
	var reply *dns.Msg
	var err error
	for range 6 {
		if reply, _, err = client.Exchange(m, addr); err == nil {
			return reply
		}
	}
	t.Fatalf("ask %s for %v: %v", network, m.Question, err)
	return nil
}

// Text returns a section as sorted lines, one per record.
func Text(rrs []dns.RR) []string {
	lines := []string{}
	for _, rr := range rrs {
		if rr.Header().Rrtype != dns.TypeOPT {
			lines = append(lines, strings.Join(strings.Fields(rr.String()), " "))
		}
	}
	slices.Sort(lines)
	return lines
}

// Table returns a table with objects in it.
func Table(t testing.TB, cfg zone.Config, objects ...object.Object) *zone.Table {
	t.Helper()
	table, err := zone.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	Apply(t, table, 1, objects...)
	return table
}

// Apply puts objects into a table.
func Apply(t testing.TB, table *zone.Table, revision uint64, objects ...object.Object) {
	t.Helper()
	var changes []zone.Change
	for _, o := range objects {
		changes = append(changes, zone.Change{Object: o})
	}
	if err := table.Apply(changes, revision); err != nil {
		t.Fatal(err)
	}
}

// Delete takes objects out of a table.
func Delete(t testing.TB, table *zone.Table, revision uint64, objects ...object.Object) {
	t.Helper()
	var changes []zone.Change
	for _, o := range objects {
		changes = append(changes, zone.Change{Object: o, Deleted: true})
	}
	if err := table.Apply(changes, revision); err != nil {
		t.Fatal(err)
	}
}

// Describe returns an answer as short text: its response code, whether it is truncated, and its
// answer section.
func Describe(m *dns.Msg) string {
	var b strings.Builder
	b.WriteString(dns.RcodeToString[m.Rcode])
	if m.Truncated {
		b.WriteString(" truncated")
	}
	for _, line := range Text(m.Answer) {
		fmt.Fprintf(&b, "\n  %s", line)
	}
	return b.String()
}
