package planes

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"google.golang.org/grpc"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
)

// agent returns its statuses one after the other, and repeats the last one.
type agent struct {
	nodeagentv1.NodeAgentServiceClient
	statuses []*nodeagentv1.GetStatusResponse
	plan     *nodeagentv1.GetPlanResponse
	calls    int
}

func (a *agent) GetStatus(context.Context, *nodeagentv1.GetStatusRequest, ...grpc.CallOption) (*nodeagentv1.GetStatusResponse, error) {
	a.calls++
	return a.statuses[min(a.calls, len(a.statuses))-1], nil
}

func (a *agent) GetPlan(context.Context, *nodeagentv1.GetPlanRequest, ...grpc.CallOption) (*nodeagentv1.GetPlanResponse, error) {
	return a.plan, nil
}

// newWatcher returns a watcher of an agent with the process ID 1.
func newWatcher(a *agent) *Watcher {
	return &Watcher{
		Node: "node", Agent: a, PID: func() int { return 1 }, Kernel: func([]Frontend) (Content, error) { return Content{}, nil },
		Addresses: []netip.Addr{netip.MustParseAddr("172.31.1.2")}, NodePorts: [2]uint16{30000, 32767},
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
	}
}

func status(applied, view uint64, more ...func(*nodeagentv1.GetStatusResponse)) *nodeagentv1.GetStatusResponse {
	s := &nodeagentv1.GetStatusResponse{AppliedRevision: applied, ViewRevision: view}
	for _, m := range more {
		m(s)
	}
	return s
}

func fromDisk(s *nodeagentv1.GetStatusResponse) { s.FromDisk = true }

func failure(service string) func(*nodeagentv1.GetStatusResponse) {
	return func(s *nodeagentv1.GetStatusResponse) {
		s.Failures = append(s.Failures, &nodeagentv1.StepFailure{Service: service})
	}
}

func TestReading(t *testing.T) {
	server := func(address string, port int32, programmed bool, backends ...*nodeagentv1.RealServer) *nodeagentv1.VirtualServer {
		return &nodeagentv1.VirtualServer{
			Address: address, Port: port, Protocol: corev1.Protocol_PROTOCOL_TCP, Programmed: programmed, Error: "why not", RealServers: backends,
		}
	}
	w := newWatcher(&agent{
		statuses: []*nodeagentv1.GetStatusResponse{status(5, 6, failure("ns/a")), status(7, 9, failure("ns/b"))},
		plan: &nodeagentv1.GetPlanResponse{VirtualServers: []*nodeagentv1.VirtualServer{
			server("10.96.0.1", 80, true, &nodeagentv1.RealServer{Address: "10.1.0.2", Port: 8080, Used: true},
				&nodeagentv1.RealServer{Address: "10.1.0.1", Port: 8080, Used: true}, &nodeagentv1.RealServer{Address: "10.1.0.3", Port: 8080}),
			server("172.31.1.2", 30001, false), server("127.0.0.1", 30001, true), server("172.31.1.2", 7404, true),
		}},
	})
	w.Kernel = func([]Frontend) (Content, error) {
		return Content{at("10.96.0.1:80"): nil, at("172.31.1.2:7404"): nil}, nil
	}
	r, err := w.read(t.Context())
	if err != nil || r.Low != 5 || r.High != 7 || r.MaxPlanRevision != 9 || !r.Failing["ns/a"] || !r.Failing["ns/b"] || !r.Restarted {
		t.Errorf("%+v, %v", r, err)
	}
	if got := r.AgentPlan[at("10.96.0.1:80")]; len(r.AgentPlan) != 2 || len(got) != 2 || got[0] != "10.1.0.1:8080" || got[1] != "10.1.0.2:8080" {
		t.Errorf("the agent's plan is %v", r.AgentPlan)
	}
	if len(r.NotProgrammed) != 1 || r.NotProgrammed[at("172.31.1.2:30001")] != "why not" || len(r.Kernel) != 1 {
		t.Errorf("not programmed %v, kernel %v", r.NotProgrammed, r.Kernel)
	}
}

// TestFailedReadings checks that a reading fails if the agent was restarted meanwhile, or reports
// that the node fails.
func TestFailedReadings(t *testing.T) {
	statuses := func(s ...*nodeagentv1.GetStatusResponse) *agent { return &agent{statuses: s} }
	restarted, stopped := newWatcher(statuses(status(5, 5))), newWatcher(statuses(status(5, 5)))
	process := 0
	restarted.PID = func() int { process++; return process }
	stopped.PID = func() int { return 0 }
	for name, v := range map[string]struct {
		w    *Watcher
		want error
	}{
		"nothing applied":     {newWatcher(statuses(status(0, 5))), errNothingApplied},
		"a lower revision":    {newWatcher(statuses(status(6, 6), status(5, 5))), errStopped},
		"the node fails":      {newWatcher(statuses(status(5, 5, failure("")))), errNodeFailing},
		"the process changes": {restarted, errStopped},
		"no process":          {stopped, errStopped},
		"no failure":          {newWatcher(statuses(status(5, 5))), nil},
	} {
		if _, err := v.w.read(t.Context()); !errors.Is(err, v.want) {
			t.Errorf("%s: %v, want %v", name, err, v.want)
		}
	}
}

// TestRestarted checks when a restarted agent must have removed the frontends of an earlier one:
// after it has applied a later revision than the first one at which it reported a view from the
// registry.
func TestRestarted(t *testing.T) {
	a := &agent{}
	w := newWatcher(a)
	process := 1
	w.PID = func() int { return process }
	for n, step := range []struct {
		process int
		status  *nodeagentv1.GetStatusResponse
		want    bool
	}{
		{1, status(5, 5, fromDisk), true}, {1, status(6, 6, fromDisk), true}, {1, status(6, 6), true}, {1, status(6, 7), true},
		{1, status(7, 7), false}, {1, status(8, 8), false}, {2, status(8, 8), true}, {2, status(9, 9), false},
	} {
		process, a.statuses, a.calls = step.process, []*nodeagentv1.GetStatusResponse{step.status}, 0
		if r, err := w.read(t.Context()); err != nil || r.Restarted != step.want {
			t.Errorf("step %d: restarted %v, %v, want %v", n, r.Restarted, err, step.want)
		}
	}
}

// TestEqualReadingsAreStoredOnce checks that consecutive equal readings are stored once. This saves
// memory, because an agent at rest is read as often as a busy one.
func TestEqualReadingsAreStoredOnce(t *testing.T) {
	w := newWatcher(&agent{statuses: []*nodeagentv1.GetStatusResponse{status(5, 5)}})
	for range 3 {
		w.add(w.read(t.Context()))
	}
	w.add(Reading{}, errNothingApplied)
	if readings, lastErr := w.Readings(); len(readings) != 1 || !errors.Is(lastErr, errNothingApplied) {
		t.Errorf("%d readings, failed: %v", len(readings), lastErr)
	}
}
