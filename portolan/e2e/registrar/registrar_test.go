package registrar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/registrar"
	"portolan.dev/registrar/source"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/object"
)

func at(address string) func(*source.Workload) {
	return func(w *source.Workload) { w.Addresses = []string{address} }
}

func terminating(w *source.Workload) { w.Terminating = true }

func of(service string) func(*source.Workload) {
	return func(w *source.Workload) { w.Service = service }
}

// TestLifeOfAWorkload follows a workload from its start to its end.
func TestLifeOfAWorkload(t *testing.T) {
	w := start(t)
	w.says(container("a", func(w *source.Workload) { w.Ready, w.Reason = false, "health: starting" }))
	w.await("web", "127.0.0.2:8000 not ready")
	w.says(container("a"))
	w.await("web", "127.0.0.2:8000 ready")
	w.says(container("a"), container("b", at("127.0.0.3")))
	w.await("web", "127.0.0.2:8000 ready", "127.0.0.3:8000 ready")
	w.says(container("a", at("127.0.0.4")), container("b", at("127.0.0.3")))
	w.await("web", "127.0.0.4:8000 ready", "127.0.0.3:8000 ready")
	w.says(container("a", terminating), container("b", at("127.0.0.3")))
	w.await("web", "127.0.0.4:8000 terminating", "127.0.0.3:8000 ready")
	w.says(container("b", at("127.0.0.3")))
	w.await("web", "127.0.0.3:8000 ready")
	w.says()
	w.await("web")
	w.awaitPods(0)
}

// TestAWorkloadThatRunsAgain checks that a workload that starts before its terminating pod is removed
// gets a new one.
func TestAWorkloadThatRunsAgain(t *testing.T) {
	w := start(t)
	w.says(container("a"))
	w.await("web", "127.0.0.2:8000 ready")
	before := w.awaitPods(1)
	w.says(container("a", terminating))
	w.await("web", "127.0.0.2:8000 terminating")
	w.says(container("a"))
	w.await("web", "127.0.0.2:8000 ready")
	if after := w.awaitPods(1); after[0] == before[0] {
		t.Errorf("the pod %s is not terminating any more", after[0])
	}
}

// TestGhosts stops the registrar, ends a workload and starts the registrar again. It checks that the pod of
// that workload is deleted, but only after the first report of the source that has no error.
func TestGhosts(t *testing.T) {
	w := start(t)
	w.says(container("a"), container("b", at("127.0.0.3")))
	w.await("web", "127.0.0.2:8000 ready", "127.0.0.3:8000 ready")
	w.stop()
	w.source.last = nil
	w.startRegistrar()
	w.report(source.Report{Err: errors.New("the engine does not answer")})
	kittest.Eventually(t, "the error in the status", func() error {
		if sources := w.status().GetSources(); len(sources) != 1 || sources[0].GetConnected() || !strings.Contains(sources[0].GetError(), "does not answer") {
			return fmt.Errorf("%v", sources)
		}
		return nil
	})
	w.await("web", "127.0.0.2:8000 ready", "127.0.0.3:8000 ready")
	w.says(container("b", at("127.0.0.3")))
	w.await("web", "127.0.0.3:8000 ready")
}

// TestServicesOnDemand checks the service and the namespace that are made, and that ports lead to where
// each workload listens.
func TestServicesOnDemand(t *testing.T) {
	w := start(t)
	published := func(number uint16) func(*source.Workload) {
		return func(w *source.Workload) {
			w.Namespace = "shop"
			w.Ports = []source.Port{{Name: "http", Number: number, ServicePort: 80, Protocol: corev1.Protocol_PROTOCOL_TCP}}
		}
	}
	w.says(container("a", published(32001)), container("b", published(32002)))
	w.awaitIn("shop", "web", "127.0.0.2:32001 ready", "127.0.0.2:32002 ready")
	res, err := registryv1.NewServiceServiceClient(w.conn).GetService(t.Context(), &registryv1.GetServiceRequest{Namespace: "shop", Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	if svc := res.GetService(); len(svc.GetSpec().GetPorts()) != 1 || svc.GetSpec().GetPorts()[0].GetPort() != 80 || svc.GetMetadata().GetAnnotations()[object.AnnotationWorkload] != "registrar/n1" {
		t.Errorf("the service is %v", svc)
	}
}

// TestServicesOfOthers checks that a workload becomes a backend of a service that another client creates
// later, with a selector of that client's choice. The registrar creates no services itself.
func TestServicesOfOthers(t *testing.T) {
	w := start(t)
	w.stop()
	w.startRegistrar(func(cfg *registrar.Config) { cfg.CreateServices = false })
	w.says(container("a"))
	w.awaitEvent("NoService", "docker web-a: service default/web: does not exist")
	tcp := corev1.Protocol_PROTOCOL_TCP
	w.createService(&corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: "web"},
		Spec: &corev1.ServiceSpec{Selector: map[string]string{"app": "shop"}, Ports: []*corev1.ServicePort{
			{Name: "http", Port: 80, Protocol: tcp, TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: "http"}}},
			{Name: "admin", Port: 81, Protocol: tcp, TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Name{Name: "admin"}}},
		}},
	})
	w.await("web", "127.0.0.2:8000 ready")
	w.awaitEvent("PortMissing", "port 81 leads to a port of the name \"admin\"")
	if problems := w.status().GetSources()[0].GetWorkloads()[0].GetProblems(); len(problems) != 1 || problems[0].GetReason() != "PortMissing" {
		t.Errorf("problems %v", problems)
	}
}

// TestProblems checks that a problem of a workload is reported as an Event and in the status, and that the
// other workloads are registered all the same.
func TestProblems(t *testing.T) {
	w := start(t)
	w.createService(&corev1.Service{Metadata: &corev1.ObjectMeta{Name: "manual"}, Spec: &corev1.ServiceSpec{Ports: []*corev1.ServicePort{{Port: 80}}}})
	w.report(source.Report{
		Workloads: []source.Workload{
			container("a"),
			container("b", at("127.0.0.3"), func(w *source.Workload) {
				w.Origin = "compose project one"
				w.Problems = []source.Problem{{Object: w.Name, Field: "portolan.port.x", Reason: source.ReasonInvalid, Message: `portolan.port.x="y": want a port`}}
			}),
			container("c", at("127.0.0.4"), func(w *source.Workload) { w.Origin = "compose project two" }),
			container("d", of("manual")),
			container("e", of("refused"), at("not an address")),
		},
		Problems: []source.Problem{{Object: "lost", Reason: source.ReasonNoAddress, Message: "is in no network: connect it to one"}},
	})
	w.await("web", "127.0.0.2:8000 ready", "127.0.0.3:8000 ready", "127.0.0.4:8000 ready")
	w.awaitEvent(source.ReasonInvalid, `docker web-b: portolan.port.x="y"`)
	w.awaitEvent(source.ReasonNoAddress, "docker lost: is in no network")
	w.awaitEvent("ServiceShared", "is of the compose project two, and web-b of the compose project one")
	w.awaitEvent("ServiceWithoutSelector", "default/manual")
	w.awaitEvent("Refused", "not an address")
	for _, one := range w.status().GetSources()[0].GetWorkloads() {
		if one.GetName() == "web-e" && len(one.GetProblems()) == 0 {
			t.Error("the status does not say that a pod was refused")
		}
	}
}

// TestForeignPods checks that a registrar leaves the pods of others alone.
func TestForeignPods(t *testing.T) {
	w := start(t)
	pods := registryv1.NewPodServiceClient(w.conn)
	if _, err := pods.CreatePod(t.Context(), &registryv1.CreatePodRequest{Pod: &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: "mine", Labels: map[string]string{object.LabelSource: "docker"}}, Spec: &corev1.PodSpec{NodeName: "n1"},
	}}); err != nil {
		t.Fatal(err)
	}
	w.says(container("a"))
	w.await("web", "127.0.0.2:8000 ready")
	w.says()
	w.await("web")
	w.awaitPods(1)
}

// TestAtRestEverythingIsRegistered changes workloads at random while the registrar stops and starts, and
// compares the endpoints with the last report.
func TestAtRestEverythingIsRegistered(t *testing.T) {
	w := start(t)
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(uint64(seed), 0))
	now := map[string]source.Workload{}
	say := func() {
		var all []source.Workload
		for _, one := range now {
			all = append(all, one)
		}
		w.says(all...)
	}
	for range 60 {
		id := fmt.Sprint(random.IntN(12))
		switch one, there := now[id]; {
		case !there:
			now[id] = container(id, at("127.0.1."+id), of([]string{"web", "api"}[random.IntN(2)]))
		case random.IntN(3) == 0:
			delete(now, id)
		case random.IntN(3) == 0:
			one.Terminating = !one.Terminating
			now[id] = one
		default:
			one.Ready = !one.Ready
			now[id] = one
		}
		if random.IntN(12) == 0 {
			w.stop()
			w.startRegistrar()
		}
		say()
	}
	for id, one := range now { // all terminating workloads end
		if one.Terminating {
			delete(now, id)
		}
	}
	say()
	want := map[string][]string{"web": nil, "api": nil}
	for _, one := range now {
		state := "not ready"
		if one.Ready {
			state = "ready"
		}
		want[one.Service] = append(want[one.Service], one.Addresses[0]+":8000 "+state)
	}
	for service, endpoints := range want {
		w.await(service, endpoints...)
	}
}

// TestNodeAddresses checks that a workload in the host's network is a backend at the configured address of
// the node, if the agent of the node reports no address that endpoints can have.
func TestNodeAddresses(t *testing.T) {
	w := start(t)
	w.stop()
	w.startRegistrar(func(cfg *registrar.Config) { cfg.NodeAddresses = []netip.Addr{netip.MustParseAddr("127.0.0.1")} })
	w.says(container("a", func(w *source.Workload) { w.HostNetwork, w.Addresses = true, nil }))
	w.await("web", "127.0.0.1:8000 ready")
}
