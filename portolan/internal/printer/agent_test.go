package printer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	nodeagentv1 "portolan.dev/api/nodeagent/v1"
)

// TestAgentStatusShowsBGP checks the lines of an agent's status that are about BGP.
func TestAgentStatusShowsBGP(t *testing.T) {
	since := timestamppb.New(time.Now().Add(-90 * time.Second))
	for _, c := range []struct {
		name    string
		routing *nodeagentv1.Routing
		want    []string
	}{
		{"off", nil, nil},
		{"not begun", &nodeagentv1.Routing{Peers: []*nodeagentv1.RoutingPeer{{Peer: "10.0.0.1@64513"}}}, []string{
			"Advertises: nothing: the sessions begin when the node forwards", "BGP peers: 10.0.0.1@64513: no session yet",
		}},
		{"draining", &nodeagentv1.Routing{RouterId: "10.0.0.9"}, []string{"Advertises: nothing: the node takes no traffic of load balancers", "BGP peers: <none>"}},
		{"advertising", &nodeagentv1.Routing{RouterId: "10.0.0.9", Eligible: true, Addresses: []string{"203.0.113.1", "fd00::1"}, Peers: []*nodeagentv1.RoutingPeer{
			{Peer: "10.0.0.1@64513", Established: true, Since: since}, {Peer: "fd00::1@64513", Since: since, Reason: "hold timer expired"},
		}}, []string{
			"Advertises: 203.0.113.1, fd00::1", "BGP peers: 10.0.0.1@64513: established for 90s", "fd00::1@64513: lost 90s ago: hold timer expired",
		}},
		{"failing", &nodeagentv1.Routing{RouterId: "10.0.0.9", Eligible: true, Error: "no memory"}, []string{"Advertises: nothing; no memory", "BGP peers: <none>"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if err := AgentStatus(&out, &nodeagentv1.GetStatusResponse{Routing: c.routing}); err != nil {
				t.Fatal(err)
			}
			_, text, _ := strings.Cut(out.String(), "Draining:")
			text, _, _ = strings.Cut(text, "Pods probed:")
			var got []string
			for line := range strings.Lines(text) {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
			if got = got[1:]; !slices.Equal(got, c.want) && len(got)+len(c.want) > 0 {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestAgentStatusShowsTheEdge checks the lines of an agent's status that are about the edge on the node.
func TestAgentStatusShowsTheEdge(t *testing.T) {
	since := timestamppb.New(time.Now().Add(-90 * time.Second))
	for name, c := range map[string]struct {
		proxy *nodeagentv1.LocalProxy
		want  []string
	}{
		"connected": {&nodeagentv1.LocalProxy{Connected: true, Since: since, Addresses: []*nodeagentv1.ProxiedAddress{
			{Address: "203.0.113.1", Local: true, Served: true}, {Address: "203.0.113.2", Local: true}, {Address: "203.0.113.3"}, {Address: "203.0.113.4", Error: "no service has it"},
		}}, []string{
			"Edge: connected for 90s", "Edge's addresses: 203.0.113.1: served", "203.0.113.2: local, not served", "203.0.113.3: not local yet", "203.0.113.4: no service has it",
		}},
		"draining": {&nodeagentv1.LocalProxy{Connected: true, Since: since, Draining: true}, []string{"Edge: draining, connected for 90s", "Edge's addresses: <none>"}},
		"gone": {&nodeagentv1.LocalProxy{Since: since, Addresses: []*nodeagentv1.ProxiedAddress{{Address: "203.0.113.1", Local: true}}}, []string{
			"Edge: not connected for 90s", "Edge's addresses: 203.0.113.1: local, not served",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			if err := AgentStatus(&out, &nodeagentv1.GetStatusResponse{Proxy: c.proxy}); err != nil {
				t.Fatal(err)
			}
			_, text, _ := strings.Cut(out.String(), "Edge:")
			text, _, _ = strings.Cut(text, "Pods probed:")
			var got []string
			for line := range strings.Lines("Edge:" + text) {
				got = append(got, strings.Join(strings.Fields(line), " "))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
