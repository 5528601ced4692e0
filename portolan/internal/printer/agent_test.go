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
