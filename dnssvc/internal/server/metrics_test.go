package server

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"portolan.dev/services/kit/kittest"

	"portolan.dev/dnssvc/internal/zone"
)

// values returns the counters that are not 0, by name and labels.
func values(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	ch := make(chan prometheus.Metric)
	go func() {
		defer close(ch)
		c.Collect(ch)
	}()
	all := map[string]float64{}
	for metric := range ch {
		var m dto.Metric
		if err := metric.Write(&m); err != nil {
			t.Error(err)
			continue
		}
		_, name, _ := strings.Cut(metric.Desc().String(), `fqName: "portolan_dnssvc_`)
		name, _, _ = strings.Cut(name, `"`)
		for _, label := range m.GetLabel() {
			name += " " + label.GetValue()
		}
		if v := m.GetCounter().GetValue(); v != 0 {
			all[name] = v
		}
	}
	return all
}

// TestCounters checks that each question is counted once by its type and its answer, on either
// path, and also after its worker has ended.
func TestCounters(t *testing.T) {
	questions := []struct {
		name  string
		qtype uint16
		times int
	}{
		{"web.default.svc.cluster.local.", dns.TypeA, 40}, // more than a batch
		{"nosuch.default.svc.cluster.local.", dns.TypeAAAA, 3},
		{"huge.default.svc.cluster.local.", dns.TypeA, 2},     // truncated
		{"web.default.svc.cluster.local.", dns.TypeDNSKEY, 5}, // counted as other
		{"www.example.com.", dns.TypeA, 1},
	}
	want := map[string]float64{
		"queries_total udp A": 43, "queries_total udp AAAA": 3, "queries_total udp other": 5,
		"replies_total NOERROR": 47, "replies_total NXDOMAIN": 3, "replies_total REFUSED": 1, "truncated_total": 2, "ignored_total": 1,
	}
	packets := [][]byte{{1, 2, 3}}
	for _, q := range questions {
		packet, err := new(dns.Msg).SetQuestion(q.name, q.qtype).Pack()
		if err != nil {
			t.Fatal(err)
		}
		for range q.times {
			packets = append(packets, packet)
		}
	}
	for _, ordinary := range []bool{true, false} {
		s := New(Config{Names: fastWorld(t, zone.PodsDisabled).Snapshot, Log: kittest.Logger(t), OrdinaryOnly: ordinary})
		exchange(t, s, "127.0.0.1:4711", packets, func([]byte, []byte) {})
		got := values(t, s)
		if fast := got["fast_replies_total"]; ordinary != (fast == 0) {
			t.Errorf("ordinary %v: %v answers by the fast path", ordinary, fast)
		}
		delete(got, "fast_replies_total")
		for name, v := range want {
			if got[name] != v {
				t.Errorf("ordinary %v: %s is %v, want %v", ordinary, name, got[name], v)
			}
			delete(got, name)
		}
		for name, v := range got {
			t.Errorf("ordinary %v: %s is %v, want 0", ordinary, name, v)
		}
	}
}
