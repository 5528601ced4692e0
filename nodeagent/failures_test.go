package nodeagent_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "portolan.dev/api/core/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"

	"portolan.dev/nodeagent"
	"portolan.dev/nodeagent/dataplane"
	"portolan.dev/nodeagent/dataplane/dataplanetest"
	"portolan.dev/nodeagent/dataplane/kernelmode"
	"portolan.dev/nodeagent/plan"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

// TestHeartbeatNamesWhatFails checks that the revision advances while a port is in use, and that
// the service is named until it is in force.
func TestHeartbeatNamesWhatFails(t *testing.T) {
	w := newWorld(t)
	beats := w.beats()
	taken, b := freePort(t), backend(t, "b")
	foreign, err := net.Listen("tcp", taken.String())
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	w.log.Put(service("blocked", taken), endpoints("blocked", "here", b), service("fine", freePort(t)))
	_, client, _ := w.start(w.config())
	head := w.applied(client).GetAppliedRevision()
	got := w.beat("a failing service", beats, func(b *nodeagentv1.Heartbeat) bool {
		return b.GetAppliedRevision() >= head && len(b.GetFailingServices()) > 0
	})
	if fmt.Sprint(got.GetFailingServices()) != "[default/blocked]" || got.GetFailingSteps() != 1 || got.GetMoreFailingServices() != 0 || got.GetNodeFailure() != "" {
		t.Errorf("heartbeat %v", got)
	}
	foreign.Close()
	w.beat("no failing service", beats, func(b *nodeagentv1.Heartbeat) bool {
		return b.GetAppliedRevision() >= head && len(b.GetFailingServices()) == 0 && b.GetFailingSteps() == 0
	})
}

// TestHeartbeatIsBounded has forty services claim one address.
func TestHeartbeatIsBounded(t *testing.T) {
	w := newWorld(t)
	beats := w.beats()
	vip := freePort(t)
	for i := range 41 {
		w.log.Put(service(fmt.Sprintf("s%02d", i), vip))
	}
	_, client, _ := w.start(w.config())
	w.applied(client)
	got := w.beat("failing services", beats, func(b *nodeagentv1.Heartbeat) bool { return len(b.GetFailingServices()) > 0 })
	if names := got.GetFailingServices(); len(names) != 32 || names[0] != "default/s01" || got.GetMoreFailingServices() != 8 {
		t.Errorf("%d named, first %s, %d more", len(names), names[0], got.GetMoreFailingServices())
	}
}

// flaky is a data plane that refuses some changes and records all others.
type flaky struct {
	dataplane.Plane
	sources  bool                            // refuses the sources
	refuse   func(plan.FrontendServers) bool // nil: refuses no frontend
	reason   error                           // error of refusals; nil: errRefused
	blind    atomic.Bool                     // makes State fail
	refusing atomic.Bool

	mu    sync.Mutex
	calls []plan.Changes
}

var errRefused = errors.New("refused by the test")

func (f *flaky) Apply(ctx context.Context, changed plan.Changes) []dataplane.Failure {
	var failures []dataplane.Failure
	refused := func(at plan.Frontend) {
		failures = append(failures, dataplane.Failure{Frontend: at, Err: cmp.Or(f.reason, errRefused), Remedy: "end the test"})
	}
	rest := changed
	if f.refusing.Load() {
		if f.sources && changed.Sources != nil {
			refused(dataplane.SharedRules)
			rest.Sources = nil
		}
		rest.Frontends = nil
		for _, c := range changed.Frontends {
			if f.refuse != nil && f.refuse(c) {
				refused(c.Frontend)
				continue
			}
			rest.Frontends = append(rest.Frontends, c)
		}
	}
	f.mu.Lock()
	f.calls = append(f.calls, rest)
	f.mu.Unlock()
	return append(failures, f.Plane.Apply(ctx, rest)...)
}

func (f *flaky) State(ctx context.Context) (*plan.State, error) {
	if f.blind.Load() {
		return nil, errRefused
	}
	return f.Plane.State(ctx)
}

// behind inserts the plane between an agent and its own.
func (f *flaky) behind(a *nodeagent.Daemon) {
	a.Interpose(func(p dataplane.Plane) dataplane.Plane {
		f.Plane = p
		return f
	})
}

// TestSharedRulesFail checks that a failure of the shared rules is in the heartbeat and the status,
// causes an event on the node, and is tried again.
func TestSharedRulesFail(t *testing.T) {
	w := newWorld(t)
	beats := w.beats()
	plane := &flaky{sources: true}
	plane.refusing.Store(true)
	vip, b := freePort(t), backend(t, "b")
	w.log.Put(service("web", vip), endpoints("web", "here", b))
	_, client, _ := w.start(w.config(), plane.behind)
	status := w.applied(client)
	if f := status.GetFailures(); len(f) != 1 || f[0].GetService() != "" || f[0].GetError() != errRefused.Error() || f[0].GetRemedy() == "" {
		t.Errorf("failures %v", f)
	}
	w.beat("a failing node", beats, func(b *nodeagentv1.Heartbeat) bool {
		return strings.Contains(b.GetNodeFailure(), errRefused.Error()) && b.GetFailingSteps() == 1 && len(b.GetFailingServices()) == 0
	})
	if e := w.event("FailedToProgram"); e.GetRegarding().GetKind() != "Node" || e.GetRegarding().GetName() != "here" || !strings.Contains(e.GetMessage(), errRefused.Error()) {
		t.Errorf("event %v", e)
	}
	if got, err := ask(vip); got != "b\n" {
		t.Errorf("services suffer: %q %v", got, err)
	}
	explained, err := client.GetPlan(t.Context(), &nodeagentv1.GetPlanRequest{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if p := explained.GetPending(); len(p) != 1 || p[0].GetOp() != "set_sources" || !strings.Contains(p[0].GetReason(), "tried again in") {
		t.Errorf("pending %v", p)
	}
	plane.refusing.Store(false)
	w.beat("a node without failures", beats, func(b *nodeagentv1.Heartbeat) bool {
		return b.GetNodeFailure() == "" && b.GetFailingSteps() == 0 && b.GetAppliedRevision() > 0
	})
}

// TestReasonOfTheNode checks that a failure of the node that stops the changes of several services is
// reported by one Event on the Node, and that both services are forwarded once it is over.
func TestReasonOfTheNode(t *testing.T) {
	w := newWorld(t)
	full := &dataplane.NodeError{Err: errRefused, Remedy: "end the test"}
	plane := &flaky{refuse: func(f plan.FrontendServers) bool { return !f.Empty() }, reason: full}
	plane.refusing.Store(true)
	b, vips := backend(t, "b"), []netip.AddrPort{freePort(t), freePort(t)}
	for i, name := range []string{"web", "shop"} {
		w.log.Put(service(name, vips[i]), endpoints(name, "here", b))
	}
	_, client, _ := w.start(w.config(), plane.behind)
	if f := w.applied(client).GetFailures(); len(f) != 2 || f[0].GetService() == "" || f[1].GetService() == "" {
		t.Errorf("failures %v, want one of each service", f)
	}
	e := w.event("FailedToProgram")
	if e.GetRegarding().GetKind() != "Node" || e.GetMessage() != "refused by the test; end the test" {
		t.Errorf("event %v", e)
	}
	plane.refusing.Store(false)
	for _, vip := range vips {
		kittest.Eventually(t, "the service to be forwarded", func() error {
			if got, err := ask(vip); got != "b\n" {
				return fmt.Errorf("%q %v", got, err)
			}
			return nil
		})
	}
	w.log.Put(service("twin", vips[0])) // its event comes after all others
	for e := range w.events {
		if e.GetReason() == "AddressInUse" {
			break
		}
		t.Errorf("another event: %v", e)
	}
}

// TestRemovalFails checks that a deleted service that is still forwarded is a failure too.
func TestRemovalFails(t *testing.T) {
	w := newWorld(t)
	plane := &flaky{refuse: func(f plan.FrontendServers) bool { return f.Empty() }}
	plane.refusing.Store(true)
	vip, b := freePort(t), backend(t, "b")
	w.log.Put(service("web", vip), endpoints("web", "here", b))
	_, client, _ := w.start(w.config(), plane.behind)
	w.applied(client)
	w.log.Delete(object.Key{Kind: "Service", Namespace: "default", Name: "web"})
	if f := w.applied(client).GetFailures(); len(f) != 1 || !strings.Contains(f[0].GetStep(), "remove "+vip.String()) {
		t.Errorf("failures %v", f)
	}
	if e := w.event("FailedToProgram"); e.GetRegarding().GetKind() != "Node" {
		t.Errorf("event %v", e)
	}
	plane.refusing.Store(false)
	kittest.Eventually(t, "the service to be gone", func() error {
		if got, err := ask(vip); !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("%q %v", got, err)
		}
		return nil
	})
}

// TestBlindAgent checks that a kernel that cannot be read back is reported once, and that
// forwarding continues.
func TestBlindAgent(t *testing.T) {
	w := newWorld(t)
	beats := w.beats()
	plane := &flaky{}
	vip, b := freePort(t), backend(t, "b")
	w.log.Put(service("web", vip), endpoints("web", "here", b))
	_, client, _ := w.start(w.config(), plane.behind)
	w.applied(client)
	plane.blind.Store(true)
	for range 2 {
		if _, err := client.Resync(t.Context(), &nodeagentv1.ResyncRequest{}); err == nil {
			t.Error("a resync that could not look says nothing")
		}
	}
	if e := w.event("FailedToReadBack"); e.GetRegarding().GetKind() != "Node" {
		t.Errorf("event %v", e)
	}
	w.beat("a failing node", beats, func(b *nodeagentv1.Heartbeat) bool { return strings.Contains(b.GetNodeFailure(), "read back") })
	if got, err := ask(vip); got != "b\n" {
		t.Errorf("%q %v", got, err)
	}
	plane.blind.Store(false)
	if _, err := client.Resync(t.Context(), &nodeagentv1.ResyncRequest{}); err != nil {
		t.Error(err)
	}
	w.beat("a node without failures", beats, func(b *nodeagentv1.Heartbeat) bool { return b.GetNodeFailure() == "" })
	select {
	case e := <-w.events:
		t.Errorf("a second event: %v", e)
	default:
	}
}

// strictKernel is a data plane in a kernel that refuses some settings.
type strictKernel struct{ dataplane.Plane }

func (strictKernel) Settings() []kernelmode.Setting {
	return []kernelmode.Setting{{Name: "net.ipv4.fine", Want: "1", Before: "1"}, {Name: "net.ipv4.stubborn", Want: "1", Before: "0", Err: errRefused}}
}

// TestRefusedKernelSettings checks that the settings are in the status, and that there is an event
// for the refused one.
func TestRefusedKernelSettings(t *testing.T) {
	w := newWorld(t)
	_, client, _ := w.start(w.config(), func(a *nodeagent.Daemon) {
		a.Interpose(func(p dataplane.Plane) dataplane.Plane { return strictKernel{p} })
	})
	if s := w.applied(client).GetSysctls(); len(s) != 2 || !strings.Contains(s[1], "net.ipv4.stubborn") {
		t.Errorf("settings %q", s)
	}
	if e := w.event("KernelSettingRefused"); e.GetRegarding().GetKind() != "Node" || !strings.Contains(e.GetMessage(), "net.ipv4.stubborn") {
		t.Errorf("event %v", e)
	}
}

// TestUrgentServicesFirst checks that the services that all others depend on are in force before
// the first other one is passed to the plane, when an agent starts.
func TestUrgentServicesFirst(t *testing.T) {
	w := newWorld(t)
	var wantFirst []string
	put := func(first bool, s *corev1.Service) {
		w.log.Put(s, endpointsOf(s, backend(t, s.GetMetadata().GetName())))
		if first {
			wantFirst = append(wantFirst, s.GetMetadata().GetNamespace()+"/"+s.GetMetadata().GetName())
		}
	}
	in := func(namespace, name string) *corev1.Service {
		s := service(name, freePort(t))
		s.Metadata.Namespace = namespace
		return s
	}
	for i := range 20 {
		put(false, in("default", fmt.Sprintf("app%02d", i)))
	}
	put(true, in("default", "kubernetes"))
	put(true, in("kube-system", "zz"))
	put(true, in("portolan-system", "zz"))
	labelled := in("infra", "zz-names")
	labelled.Metadata.Labels = map[string]string{"k8s-app": "kube-dns"}
	put(true, labelled)
	annotated := in("infra", "zz-store")
	annotated.Metadata.Annotations = map[string]string{"portolan.dev/program-first": "true"}
	put(true, annotated)
	not := in("kube-system", "aa")
	not.Metadata.Annotations = map[string]string{"portolan.dev/program-first": "false"}
	put(false, not)

	plane := &flaky{}
	_, client, _ := w.start(w.config(), plane.behind)
	w.applied(client)
	plane.mu.Lock()
	defer plane.mu.Unlock()
	var calls [][]string // the added services of each call
	for _, changed := range plane.calls {
		var added []string
		for _, f := range changed.Frontends {
			if v := f.Any(); v != nil {
				added = append(added, v.Service.String())
			}
		}
		if slices.Sort(added); len(added) > 0 {
			calls = append(calls, added)
		}
	}
	slices.Sort(wantFirst)
	if len(calls) != 2 || !slices.Equal(calls[0], wantFirst) || len(calls[1]) != 21 {
		t.Errorf("services came as %v, want %v first and 21 others after them", calls, wantFirst)
	}
}

func endpointsOf(s *corev1.Service, at netip.AddrPort) *corev1.EndpointSlice {
	slice := endpoints(s.GetMetadata().GetName(), "here", at)
	slice.Metadata.Namespace = s.GetMetadata().GetNamespace()
	return slice
}

// TestPending checks the pending steps and their reasons.
func TestPending(t *testing.T) {
	w := newWorld(t)
	vip, taken, b := freePort(t), freePort(t), backend(t, "b")
	foreign, err := net.Listen("tcp", taken.String())
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	w.log.Put(service("web", vip), endpoints("web", "here", b), service("blocked", taken), endpoints("blocked", "here", b))
	w.log.Put(service("younger", vip))
	agent, client, _ := w.start(w.config())
	w.applied(client)
	pending := func(req *nodeagentv1.GetPlanRequest) []*nodeagentv1.PendingStep {
		t.Helper()
		res, err := client.GetPlan(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return res.GetPending()
	}
	expect := func(what string, got []*nodeagentv1.PendingStep, op, service, reason string) {
		t.Helper()
		if len(got) != 1 || got[0].GetOp() != op || got[0].GetService() != service || !strings.Contains(got[0].GetReason(), reason) {
			t.Errorf("%s: pending %v, want %s of %s: %s", what, got, op, service, reason)
		}
	}
	if got := pending(&nodeagentv1.GetPlanRequest{Name: "web"}); len(got) != 0 {
		t.Errorf("pending of what is in force: %v", got)
	}
	expect("taken", pending(&nodeagentv1.GetPlanRequest{Name: "blocked"}), "add_server", "default/blocked", "in use")
	expect("claimed", pending(&nodeagentv1.GetPlanRequest{Name: "younger"}), "add_server", "default/younger", "in use by service default/web")
	expect("all", pending(&nodeagentv1.GetPlanRequest{PendingOnly: true}), "add_server", "default/blocked", "failed: ")

	foreign.Close()
	kittest.Eventually(t, "nothing to be pending", func() error {
		if got := pending(&nodeagentv1.GetPlanRequest{PendingOnly: true}); len(got) != 0 {
			return fmt.Errorf("pending %v", got)
		}
		return nil
	})
	agent.Plane().Apply(t.Context(), dataplanetest.Removal(plan.Frontend{Addr: vip, Protocol: plan.TCP}))
	expect("drift, all", pending(&nodeagentv1.GetPlanRequest{PendingOnly: true}), "add_server", "default/web", "the next audit")
	expect("drift, one", pending(&nodeagentv1.GetPlanRequest{Name: "web"}), "add_server", "default/web", "the next audit")
	if _, err := client.GetPlan(t.Context(), &nodeagentv1.GetPlanRequest{PendingOnly: true, Name: "web"}); err == nil {
		t.Error("pending_only of one service is not refused")
	}
}

// lookedAt counts the calls of Connections.
type lookedAt struct {
	dataplane.Plane
	looks atomic.Int32
}

func (p *lookedAt) Connections(keys ...plan.Key) map[plan.Key]map[netip.AddrPort]uint32 {
	p.looks.Add(1)
	return p.Plane.Connections(keys...)
}

// TestPlanReadsConnectionsOnce checks that the plan of many services reads the connections once,
// because a plane may read all flows of the node for it, and changes wait meanwhile.
func TestPlanReadsConnectionsOnce(t *testing.T) {
	w := newWorld(t)
	for n := range 5 {
		name := fmt.Sprint("web-", n)
		w.log.Put(service(name, freePort(t)), endpoints(name, "here", backend(t, name)))
	}
	plane := &lookedAt{}
	_, client, _ := w.start(w.config(), func(a *nodeagent.Daemon) {
		a.Interpose(func(p dataplane.Plane) dataplane.Plane {
			plane.Plane = p
			return plane
		})
	})
	w.applied(client)
	answer, err := client.GetPlan(t.Context(), &nodeagentv1.GetPlanRequest{})
	if err != nil || len(answer.GetVirtualServers()) != 5 {
		t.Fatalf("%d virtual servers, %v", len(answer.GetVirtualServers()), err)
	}
	if n := plane.looks.Load(); n != 1 {
		t.Errorf("asked %d times for one plan, want once", n)
	}
}
