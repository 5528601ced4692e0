package announce

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	loadbalancerv1 "portolan.dev/api/loadbalancer/v1"
	"portolan.dev/nodeagent/machine"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/obs"
)

// handOverMachine is a machine with one interface and hand-overs in memory.
type handOverMachine struct {
	machine.Userspace
	network *network
	have    []machine.HandOver
	closed  bool
}

func (m *handOverMachine) HandOvers() (machine.HandOvers, error) { return m, nil }
func (m *handOverMachine) Set(all []machine.HandOver) error      { m.have = all; return nil }
func (m *handOverMachine) Check() error                          { return nil }
func (m *handOverMachine) Close() error                          { m.closed = true; return nil }
func (m *handOverMachine) Neighbors(i machine.Interface, v6 bool) (machine.Neighbors, error) {
	return m.network.neighbors(i, v6)
}

func (m *handOverMachine) Interfaces() ([]machine.Interface, error) {
	return []machine.Interface{device("eth0", 2, "192.0.2.200/24")}, nil
}

// noLeader is an lbctl that does not lead.
func noLeader(t *testing.T) []Controller {
	return []Controller{{Addr: "lbctl", Conn: kittest.Conn(t, func(r grpc.ServiceRegistrar) {
		loadbalancerv1.RegisterAnnouncerServiceServer(r, &fakeController{})
	})}}
}

// leftovers are the hand-overs of an earlier agent.
var leftovers = []machine.HandOver{{Address: pool[1], Via: netip.MustParseAddr("192.0.2.9"), Left: time.Hour}}

// TestOnlyReachableNodesGetPackets checks that the node follows only the hand-overs to nodes on its networks,
// and reports them to lbctl.
func TestOnlyReachableNodesGetPackets(t *testing.T) {
	m := &handOverMachine{network: &network{open: map[connKey]*link{}, refused: map[string]bool{}}}
	a := New(Options{
		Interfaces: []string{"eth0"}, Controllers: noLeader(t), Machine: m, Stays: true, Proxy: fakeProxy{}, Metrics: obs.NewMetrics(), Log: kittest.Logger(t),
		Ready: func() bool { return true }, Draining: func() bool { return false },
	})
	stop := kittest.Run(t, "announcer", func(ctx context.Context) error { return a.Run(ctx) })
	kittest.Eventually(t, "the interface", func() error {
		if len(a.responder.Subnets()) == 0 {
			return errors.New("it is not open")
		}
		return nil
	})
	hour := durationpb.New(time.Hour)
	a.holder.Begin()
	sent := a.holder.Message(State{Node: "n2"})
	a.client.follow(&loadbalancerv1.AnnounceResponse{
		Sequence: 2, AnsweredMessage: sent.GetSequence(), Validity: durationpb.New(2 * time.Second), Addresses: texts(pool),
		HandOvers: []*loadbalancerv1.HandOver{
			{Address: pool[0].String(), Node: "n1", Via: "192.0.2.7", Left: hour},
			{Address: pool[1].String(), Node: "n1", Via: "198.51.100.7", Left: hour}, // behind a router
			{Address: pool[2].String(), Node: "n1", Via: "192.0.2.7", Left: hour},    // of the other family
			{Address: "nonsense", Node: "n1", Via: "192.0.2.7", Left: hour},
		},
	})
	want := machine.HandOver{Address: pool[0], Via: netip.MustParseAddr("192.0.2.7"), Left: time.Hour}
	if !slices.Equal(m.have, []machine.HandOver{want}) {
		t.Errorf("hand-overs %+v, want %+v", m.have, want)
	}
	if status := a.Status(); status.GetAddresses()[0].GetPreviousNode() != "n1" {
		t.Errorf("status %v", status)
	}
	if text := *a.handOverError.Load(); !strings.Contains(text, "no network with 198.51.100.7") {
		t.Errorf("the error is %q", text)
	}
	if got := a.holder.Message(State{Node: "n2"}).GetHandOvers(); len(got) != 2 || got[0].GetNode() != "n1" || got[0].GetAddress() != pool[0].String() || got[0].GetLeft().AsDuration() > time.Hour {
		t.Errorf("lbctl is told %v", got)
	}
	stop()
	if len(m.have) != 1 || !m.closed {
		t.Error("the hand-overs end with the agent, or its socket is open")
	}
}

// TestNodesThatDoNotAnnounceHandNothingOver checks that the hand-overs of an earlier agent end if the node
// does not announce, or its kernel does not forward.
func TestNodesThatDoNotAnnounceHandNothingOver(t *testing.T) {
	for _, o := range []Options{{Stays: true}, {Interfaces: []string{"eth0"}}} {
		o.Proxy = fakeProxy{}
		m := &handOverMachine{network: &network{open: map[connKey]*link{}, refused: map[string]bool{}}, have: leftovers}
		o.Machine, o.Controllers, o.Metrics, o.Log = m, noLeader(t), obs.NewMetrics(), kittest.Logger(t)
		o.Ready, o.Draining = func() bool { return true }, func() bool { return false }
		kittest.Run(t, "announcer", New(o).Run)() // until it is stopped
		if len(m.have) > 0 || !m.closed {
			t.Errorf("with %+v the hand-overs are %+v", o, m.have)
		}
	}
}
