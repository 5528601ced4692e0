package ipvs

import (
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"portolan.dev/nodeagent/dataplane/kernel"
	"portolan.dev/nodeagent/plan"
)

const table = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
UDP  0A600103:0035 rr persistent 10800 FFFFFFFF
UDP  0A600102:0035 rr
  -> 0A400101:0035      Masq    1      0          7         
TCP  0A600101:0050 wrr  
  -> 0A400101:1F90      Masq    3      2          1         
  -> 0A400102:1F90      Masq    0      0          0         
FWM  00000007 rr 
  -> 0A400103:1F90      Masq    1      0          0         
SCTP  [fd00:0096:0000:0000:0000:0000:0000:0100]:0050 sh 
  -> [fd00:0064:0000:0000:0000:0000:0000:0101]:1F90      Masq    1      0          0         
`

func TestParseTable(t *testing.T) {
	got, err := parseTable(strings.NewReader(table))
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort
	want := map[plan.Frontend][]kernel.Backend{
		{Addr: at("10.96.1.2:53"), Protocol: plan.UDP}: {{Addr: at("10.64.1.1:53"), Weight: 1, Connections: 7}},
		{Addr: at("10.96.1.3:53"), Protocol: plan.UDP}: nil,
		{Addr: at("10.96.1.1:80"), Protocol: plan.TCP}: {
			{Addr: at("10.64.1.1:8080"), Weight: 3, Connections: 2, Closing: 1}, {Addr: at("10.64.1.2:8080")},
		},
		{Addr: at("[fd00:96::100]:80"), Protocol: plan.SCTP}: {{Addr: at("[fd00:64::101]:8080"), Weight: 1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, bad := range []string{"TCP  0A6001:0050 rr", "TCP  0A600101 rr", "TCP  0A600101:10050 rr", "TCP  0A600101: rr", "TCP  0A600101:0050 rr\n  -> 0A400101:1F90 Masq x 0 0"} {
		if got, err := parseTable(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

// TestWeightsChooseTheScheduler checks that rr becomes wrr if weights differ, and that no other
// scheduler is replaced.
func TestWeightsChooseTheScheduler(t *testing.T) {
	b := &balancer{missing: map[string]bool{"lc": true}}
	for _, tt := range []struct {
		scheduler plan.Scheduler
		weights   []uint32
		want      string
	}{
		{plan.RoundRobin, nil, "rr"},
		{plan.RoundRobin, []uint32{3, 3, 0}, "rr"},
		{plan.RoundRobin, []uint32{3, 1}, "wrr"},
		{plan.RoundRobin, []uint32{0, 3, 1}, "wrr"},
		{plan.SourceHash, []uint32{3, 1}, "sh"},
		{plan.LeastConnections, []uint32{3, 3}, "rr"}, // the kernel lacks it
	} {
		v := &plan.VirtualServer{Attributes: plan.Attributes{Scheduler: tt.scheduler}}
		for _, w := range tt.weights {
			v.Reals = append(v.Reals, plan.RealServer{Weight: w})
		}
		if got := b.Settings(v).Scheduler; got != tt.want {
			t.Errorf("%s with weights %d: %s, want %s", tt.scheduler, tt.weights, got, tt.want)
		}
	}
}
