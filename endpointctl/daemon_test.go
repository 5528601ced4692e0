package endpointctl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	endpointsv1 "portolan.dev/api/endpoints/v1"
	nodeagentv1 "portolan.dev/api/nodeagent/v1"
	"portolan.dev/services/changes"
	"portolan.dev/services/changes/changestest"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/kit/app"
	"portolan.dev/services/kit/config"
	"portolan.dev/services/kit/kittest"
	"portolan.dev/services/kit/rpc"
	"portolan.dev/services/object"

	"portolan.dev/endpointctl"
	"portolan.dev/endpointctl/internal/packing"
	"portolan.dev/endpointctl/internal/registrytest"
)

func ptr[T any](v T) *T { return &v }

// start runs a replica and returns a client of it.
func start(t *testing.T, r *registrytest.Registry, addr string, change func(*endpointctl.Config)) (endpointsv1.EndpointControllerServiceClient, func()) {
	t.Helper()
	var cfg endpointctl.Config
	config.Defaults(&cfg)
	cfg.Addr, cfg.Registry, cfg.NATSPrefix, cfg.NodeGrace = "127.0.0.1:0", addr, changestest.Prefix, 0
	cfg.LegacyInterval = 0
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	return startOn(t, cfg, kittest.Host(t, rpc.TCP(), r.Log.URL()))
}

// startOn runs a replica on a host and returns a client of it.
func startOn(t *testing.T, cfg endpointctl.Config, host app.Host) (endpointsv1.EndpointControllerServiceClient, func()) {
	t.Helper()
	d, err := endpointctl.New(t.Context(), cfg, host)
	if err != nil {
		t.Fatal(err)
	}
	stop := kittest.Run(t, "endpointctl", d.Run)
	conn, err := rpc.TCP().Dial(d.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return endpointsv1.NewEndpointControllerServiceClient(conn), stop
}

func service(name string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default", CreationTimestamp: timestamppb.New(time.Unix(1000, 0))},
		Spec: &corev1.ServiceSpec{
			Selector: map[string]string{"app": name}, ClusterIp: "10.96.0.1", IpFamilies: []corev1.IPFamily{corev1.IPFamily_IP_FAMILY_IPV4},
			Ports: []*corev1.ServicePort{{Port: 80, TargetPort: &corev1.IntOrString{Value: &corev1.IntOrString_Number{Number: 9376}}}},
		},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func pod(name, app, ip string, ready bool) *corev1.Pod {
	state := corev1.ConditionStatus_CONDITION_STATUS_FALSE
	if ready {
		state = corev1.ConditionStatus_CONDITION_STATUS_TRUE
	}
	return &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": app}},
		Spec:     &corev1.PodSpec{NodeName: "n1"},
		Status: &corev1.PodStatus{PodIp: ip, Conditions: []*corev1.Condition{
			{Type: "Ready", Status: state, LastTransitionTime: timestamppb.New(time.Unix(2000, 0))},
		}},
	}
}

func node(name, zone string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{
		Metadata: &corev1.ObjectMeta{Name: name, Labels: map[string]string{"topology.kubernetes.io/zone": zone}},
		Status:   &corev1.NodeStatus{AgentVersion: "v1", Conditions: []*corev1.Condition{{Type: "Ready", Status: ready}}},
	}
}

const (
	yes     = corev1.ConditionStatus_CONDITION_STATUS_TRUE
	unknown = corev1.ConditionStatus_CONDITION_STATUS_UNKNOWN
)

// state describes all slices and Endpoints as "slice web 9376: 10.0.0.1 !10.0.0.2". An address that
// is not ready has a leading "!".
func state(r *registrytest.Registry) []string {
	var all []string
	for _, s := range registrytest.All[*corev1.EndpointSlice](r) {
		line := "slice " + s.GetMetadata().GetLabels()[object.LabelServiceName]
		for _, p := range s.GetPorts() {
			line += fmt.Sprint(" ", p.GetPort())
		}
		var eps []string
		for _, ep := range s.GetEndpoints() {
			eps = append(eps, mark(ep.GetConditions().GetReady())+ep.GetAddresses()[0])
		}
		slices.Sort(eps)
		all = append(all, line+": "+strings.Join(eps, " "))
	}
	for _, e := range registrytest.All[*corev1.Endpoints](r) {
		line := "endpoints " + e.GetMetadata().GetName() + ":"
		for _, s := range e.GetSubsets() {
			for _, a := range s.GetAddresses() {
				line += " " + a.GetIp()
			}
			for _, a := range s.GetNotReadyAddresses() {
				line += " !" + a.GetIp()
			}
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

func mark(ready bool) string {
	if ready {
		return ""
	}
	return "!"
}

// wantObjects waits until the registry has these slices and Endpoints.
func wantObjects(t *testing.T, what string, r *registrytest.Registry, want ...string) {
	t.Helper()
	slices.Sort(want)
	kittest.Eventually(t, what, func() error {
		if got := state(r); !slices.Equal(got, want) {
			return fmt.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		return nil
	})
}

func TestEndpointsFollowPodsServicesAndNodes(t *testing.T) {
	r := registrytest.New(t)
	r.Put(node("n1", "a", yes), service("web"), pod("p1", "web", "10.0.0.1", true), pod("p2", "web", "10.0.0.2", false))
	client, _ := start(t, r, r.Serve(t), nil)
	wantObjects(t, "endpoints of what was there", r, "slice web 9376: !10.0.0.2 10.0.0.1", "endpoints web: 10.0.0.1 !10.0.0.2")
	s := registrytest.All[*corev1.EndpointSlice](r)[0]
	if got := s.GetMetadata().GetAnnotations()[packing.AnnotationTrigger]; got != "1970-01-01T00:16:40Z" {
		t.Errorf("trigger time %q, want the service's creation", got)
	}
	if ep := s.GetEndpoints()[0]; ep.GetZone() != "a" || ep.GetTargetRef().GetUid() == "" {
		t.Errorf("endpoint %v", ep)
	}

	r.Put(pod("p2", "web", "10.0.0.2", true))
	wantObjects(t, "the second pod", r, "slice web 9376: 10.0.0.1 10.0.0.2", "endpoints web: 10.0.0.1 10.0.0.2")
	r.Put(node("n1", "a", unknown))
	wantObjects(t, "the lost node", r, "slice web 9376: !10.0.0.1 !10.0.0.2", "endpoints web: !10.0.0.1 !10.0.0.2")
	r.Put(node("n1", "a", yes), pod("p2", "api", "10.0.0.2", true), service("api"))
	wantObjects(t, "another label, another service", r,
		"slice web 9376: 10.0.0.1", "endpoints web: 10.0.0.1", "slice api 9376: 10.0.0.2", "endpoints api: 10.0.0.2")
	r.Delete(pod("p1", "web", "", true))
	wantObjects(t, "a service without pods", r, "slice web: ", "endpoints web:", "slice api 9376: 10.0.0.2", "endpoints api: 10.0.0.2")

	r.Put(service("api", func(s *corev1.Service) {
		s.Spec = &corev1.ServiceSpec{Type: corev1.ServiceType_SERVICE_TYPE_EXTERNAL_NAME, ExternalName: "example.com", Selector: map[string]string{"app": "api"}}
	}))
	wantObjects(t, "an alias has no endpoints", r, "slice web: ", "endpoints web:")
	r.Delete(service("web"))
	wantObjects(t, "nothing to be left", r)
	wantStatus(t, client, 1, 1)
}

func wantStatus(t *testing.T, client endpointsv1.EndpointControllerServiceClient, services, pods uint32) {
	t.Helper()
	kittest.Eventually(t, "status", func() error {
		s, err := client.GetStatus(t.Context(), &endpointsv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		if !s.GetLeader() || s.GetEpoch() == 0 || s.GetServices() != services || s.GetPods() != pods || s.GetPending() != 0 {
			return fmt.Errorf("status %v", s)
		}
		return nil
	})
}

func TestWhatOthersDoToSlicesIsUndone(t *testing.T) {
	r := registrytest.New(t)
	r.Put(node("n1", "a", yes), service("web"), pod("p1", "web", "10.0.0.1", true))
	start(t, r, r.Serve(t), nil)
	want := []string{"slice web 9376: 10.0.0.1", "endpoints web: 10.0.0.1"}
	wantObjects(t, "the first time", r, want...)

	spoilt := registrytest.All[*corev1.EndpointSlice](r)[0].CloneVT()
	spoilt.Endpoints = nil
	r.Put(spoilt)
	wantObjects(t, "an emptied slice to be filled", r, want...)
	r.Delete(registrytest.All[*corev1.EndpointSlice](r)[0])
	wantObjects(t, "a deleted slice to come back", r, want...)
	r.Delete(registrytest.All[*corev1.Endpoints](r)[0])
	wantObjects(t, "a deleted Endpoints to come back", r, want...)

	manual := &corev1.EndpointSlice{Metadata: &corev1.ObjectMeta{Name: "mine", Namespace: "default", Labels: map[string]string{object.LabelServiceName: "web"}}}
	r.Put(manual, pod("p2", "web", "10.0.0.2", true))
	wantObjects(t, "slices of others to stay", r, "slice web: ", "slice web 9376: 10.0.0.1 10.0.0.2", "endpoints web: 10.0.0.1 10.0.0.2")
}

// waitUntilRead waits until the daemon has read the whole log.
func waitUntilRead(t *testing.T, r *registrytest.Registry, client endpointsv1.EndpointControllerServiceClient) {
	t.Helper()
	head := r.Log.Revision()
	kittest.Eventually(t, "the daemon to read the log", func() error {
		s, err := client.GetStatus(t.Context(), &endpointsv1.GetStatusRequest{})
		if err == nil && s.GetRevision() < head {
			err = fmt.Errorf("revision %d, want %d", s.GetRevision(), head)
		}
		return err
	})
}

func TestAWriteThatIsDeletedBeforeItsAnswerComesIsRepeated(t *testing.T) {
	r := registrytest.New(t)
	r.Put(node("n1", "a", yes), pod("p1", "web", "10.0.0.1", true))
	client, _ := start(t, r, r.Serve(t), nil)
	waitUntilLeading(t, "it", client)
	var mu sync.Mutex
	deleted := map[string]bool{}
	// The garbage collector is faster than the response.
	r.Delay(func(_ string, o object.Object) {
		mu.Lock()
		defer mu.Unlock()
		if kind := object.KindOf(o); !deleted[kind] {
			deleted[kind] = true
			r.Delete(o)
			waitUntilRead(t, r, client)
		}
	})
	r.Put(service("web"))
	kittest.Eventually(t, "the collector to delete a slice and an Endpoints", func() error {
		mu.Lock()
		defer mu.Unlock()
		if len(deleted) != 2 {
			return fmt.Errorf("it deleted %v", deleted)
		}
		return nil
	})
	wantObjects(t, "what was deleted to be written again", r, "slice web 9376: 10.0.0.1", "endpoints web: 10.0.0.1")
	r.Put(pod("p2", "web", "10.0.0.2", true))
	wantObjects(t, "a change to be written", r, "slice web 9376: 10.0.0.1 10.0.0.2", "endpoints web: 10.0.0.1 10.0.0.2")
}

func TestCustomEndpointsAreMirrored(t *testing.T) {
	r := registrytest.New(t)
	db := service("db", func(s *corev1.Service) { s.Spec.Selector = nil })
	custom := func(ips ...string) *corev1.Endpoints {
		subset := &corev1.EndpointSubset{Ports: []*corev1.EndpointSubsetPort{{Port: 5432}}}
		for _, ip := range ips {
			subset.Addresses = append(subset.Addresses, &corev1.EndpointAddress{Ip: ip})
		}
		return &corev1.Endpoints{Metadata: &corev1.ObjectMeta{Name: "db", Namespace: "default"}, Subsets: []*corev1.EndpointSubset{subset}}
	}
	manual := &corev1.EndpointSlice{
		Metadata:    &corev1.ObjectMeta{Name: "by-hand", Namespace: "default", Labels: map[string]string{object.LabelServiceName: "other"}},
		AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4, Endpoints: []*corev1.Endpoint{{Addresses: []string{"10.9.9.9"}, Conditions: &corev1.EndpointConditions{Ready: ptr(true)}}},
	}
	r.Put(db, service("other", func(s *corev1.Service) { s.Spec.Selector = nil }), manual, custom("10.1.1.1", "nonsense"))
	start(t, r, r.Serve(t), nil)
	byHand := "slice other: 10.9.9.9"
	wantObjects(t, "the mirror", r, "slice db 5432: 10.1.1.1", "endpoints db: 10.1.1.1 nonsense", byHand)
	kittest.Eventually(t, "an event", func() error {
		for _, e := range registrytest.All[*corev1.Event](r) {
			if e.GetReason() == "InvalidIPAddress" && e.GetRegarding().GetKind() == "Endpoints" {
				return nil
			}
		}
		return errors.New("none")
	})
	r.Put(custom("10.1.1.1", "10.1.1.2"))
	wantObjects(t, "the change", r, "slice db 5432: 10.1.1.1 10.1.1.2", "endpoints db: 10.1.1.1 10.1.1.2", byHand)
	r.Delete(db)
	wantObjects(t, "the mirror to go with the service", r, "endpoints db: 10.1.1.1 10.1.1.2", byHand)
}

func TestARegistryThatFailsIsTriedAgain(t *testing.T) {
	r := registrytest.New(t)
	r.Put(node("n1", "a", yes), service("web"), pod("p1", "web", "10.0.0.1", true))
	failures := 3
	r.Fail(func(op string, o object.Object) error {
		if op == "create" && object.KindOf(o) == "EndpointSlice" && failures > 0 {
			failures--
			return registrytest.Unavailable
		}
		return nil
	})
	client, _ := start(t, r, r.Serve(t), nil)
	wantObjects(t, "the endpoints", r, "slice web 9376: 10.0.0.1", "endpoints web: 10.0.0.1")

	r.Fail(func(_ string, o object.Object) error {
		if s, ok := o.(*corev1.EndpointSlice); ok && len(s.GetEndpoints()) > 1 {
			return apierr.Invalid("EndpointSlice", "web", apierr.Violations{{Field: "endpoints[1].addresses[0]", Reason: apierr.ReasonInvalid, Message: "may not be that"}})
		}
		return nil
	})
	r.Put(pod("p2", "web", "127.0.0.1", true))
	kittest.Eventually(t, "an event that says what is wrong", func() error {
		for _, e := range registrytest.All[*corev1.Event](r) {
			if e.GetReason() == "EndpointsLeftOut" && strings.Contains(e.GetMessage(), "may not be that") {
				return nil
			}
		}
		return errors.New("none")
	})
	resp, err := client.ExplainService(t.Context(), &endpointsv1.ExplainServiceRequest{Name: "web"})
	if err != nil || len(resp.GetPods()) != 2 || resp.GetPods()[1].GetSelected() || !strings.Contains(resp.GetPods()[1].GetReason(), "may not be that") {
		t.Errorf("explained %v, %v; want the second pod out, with the reason", resp, err)
	}
}

func TestAnotherReplicaTakesOver(t *testing.T) {
	r := registrytest.New(t)
	r.Put(node("n1", "a", yes), service("web"), pod("p1", "web", "10.0.0.1", true))
	addr := r.Serve(t)
	cut, cutOff := serveUntilCut(t, r)
	replica := func(name, addr string) (endpointsv1.EndpointControllerServiceClient, func()) {
		return start(t, r, addr, func(c *endpointctl.Config) { c.Identity, c.LeaseDuration = name, time.Second })
	}
	first, _ := replica("first", cut)
	waitUntilLeading(t, "first", first)
	wantObjects(t, "the endpoints", r, "slice web 9376: 10.0.0.1", "endpoints web: 10.0.0.1")
	second, stopSecond := replica("second", addr)

	cutOff() // the first cannot renew its lease and gives up, and the second takes over
	waitUntilLeading(t, "second", second)
	waitUntilNotLeading(t, "first", first)
	r.Put(pod("p2", "web", "10.0.0.2", true))
	wantObjects(t, "the second to work", r, "slice web 9376: 10.0.0.1 10.0.0.2", "endpoints web: 10.0.0.1 10.0.0.2")

	third, _ := replica("third", addr)
	stopSecond() // releases the lease
	waitUntilLeading(t, "third", third)
	r.Delete(pod("p1", "", "", true))
	wantObjects(t, "the third to work", r, "slice web 9376: 10.0.0.2", "endpoints web: 10.0.0.2")
	if _, err := first.Resync(t.Context(), &endpointsv1.ResyncRequest{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("Resync of one that does not lead: %v", err)
	}
	kittest.Eventually(t, "a resync", func() error {
		resp, err := third.Resync(t.Context(), &endpointsv1.ResyncRequest{})
		if err == nil && resp.GetServices() != 1 {
			t.Errorf("Resync: %v", resp)
		}
		return err
	})
}

// serveUntilCut serves the registry at a second address that can be cut off.
func serveUntilCut(t *testing.T, r *registrytest.Registry) (addr string, cut func()) {
	t.Helper()
	lis := kittest.Listen(t)
	server := grpc.NewServer()
	r.Register(server)
	stop := kittest.Run(t, "second door", func(ctx context.Context) error {
		defer context.AfterFunc(ctx, server.Stop)()
		return server.Serve(lis)
	})
	return lis.Addr().String(), stop
}

func isLeading(t *testing.T, client endpointsv1.EndpointControllerServiceClient) bool {
	t.Helper()
	s, err := client.GetStatus(t.Context(), &endpointsv1.GetStatusRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return s.GetLeader()
}

func waitUntilLeading(t *testing.T, name string, client endpointsv1.EndpointControllerServiceClient) {
	t.Helper()
	kittest.Eventually(t, name+" to lead", func() error {
		if !isLeading(t, client) {
			return errors.New("it does not")
		}
		return nil
	})
}

func waitUntilNotLeading(t *testing.T, name string, client endpointsv1.EndpointControllerServiceClient) {
	t.Helper()
	kittest.Eventually(t, name+" to give up", func() error {
		if isLeading(t, client) {
			return errors.New("it leads")
		}
		return nil
	})
}

func TestExplain(t *testing.T) {
	r := registrytest.New(t)
	r.Put(node("n1", "a", yes), service("web"), service("db", func(s *corev1.Service) { s.Spec.Selector = nil }),
		pod("a-stranger", "api", "10.0.0.3", true), pod("b-ready", "web", "10.0.0.1", true), pod("c-sick", "web", "10.0.0.2", false))
	client, _ := start(t, r, r.Serve(t), nil)
	wantObjects(t, "the endpoints", r, "slice web 9376: !10.0.0.2 10.0.0.1", "endpoints web: 10.0.0.1 !10.0.0.2")
	resp, err := client.ExplainService(t.Context(), &endpointsv1.ExplainServiceRequest{Name: "web"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range resp.GetPods() {
		got = append(got, fmt.Sprintf("%s %v %v %s %v", p.GetName(), p.GetSelected(), p.GetReady(), p.GetReason(), p.GetAddresses()))
	}
	want := []string{
		"b-ready true true is ready [10.0.0.1]", "c-sick true false is not ready [10.0.0.2]",
		`a-stranger false false label app is "api", wanted "web" [10.0.0.3]`,
	}
	if !slices.Equal(got, want) || resp.GetManaged() != "" || len(resp.GetSlices()) != 1 || resp.GetRevision() == 0 {
		t.Errorf("explained %q of %v", got, resp)
	}
	if resp, err := client.ExplainService(t.Context(), &endpointsv1.ExplainServiceRequest{Name: "db", Namespace: "default"}); err != nil || resp.GetManaged() != "no selector" {
		t.Errorf("without selector: %v, %v", resp, err)
	}
	if _, err := client.ExplainService(t.Context(), &endpointsv1.ExplainServiceRequest{Name: "none"}); status.Code(err) != codes.NotFound {
		t.Errorf("of no service: %v", err)
	}
}

func TestASilentNodeTakesItsPodsOut(t *testing.T) {
	r := registrytest.New(t)
	other := pod("p2", "web", "10.0.0.2", true)
	other.Spec.NodeName = "n2"
	r.Put(node("n1", "a", yes), node("n2", "b", yes), service("web"), pod("p1", "web", "10.0.0.1", true), other)
	start(t, r, r.Serve(t), func(c *endpointctl.Config) { c.NodeGrace = time.Second })
	wantObjects(t, "both", r, "slice web 9376: 10.0.0.1 10.0.0.2", "endpoints web: 10.0.0.1 10.0.0.2")

	stopFirst := heartbeats(t, r, "n1")
	wantObjects(t, "the silent node's pod to be out", r, "slice web 9376: !10.0.0.2 10.0.0.1", "endpoints web: 10.0.0.1 !10.0.0.2")
	heartbeats(t, r, "n2")
	wantObjects(t, "it to be back", r, "slice web 9376: 10.0.0.1 10.0.0.2", "endpoints web: 10.0.0.1 10.0.0.2")
	stopFirst()
	wantObjects(t, "the other one to be out", r, "slice web 9376: !10.0.0.1 10.0.0.2", "endpoints web: 10.0.0.2 !10.0.0.1")
}

// heartbeats sends a node's heartbeats until the test ends or stop is called.
func heartbeats(t *testing.T, r *registrytest.Registry, name string) (stop func()) {
	t.Helper()
	nc := r.Log.NATS()
	return kittest.Run(t, "agent of "+name, func(ctx context.Context) error {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			if err := changes.PublishHeartbeat(nc, changestest.Prefix, &nodeagentv1.Heartbeat{Node: name}); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	})
}

func TestManyPodsFillManySlices(t *testing.T) {
	r := registrytest.New(t)
	r.Put(node("n1", "a", yes))
	client, _ := start(t, r, r.Serve(t), nil)
	waitUntilLeading(t, "it", client)
	r.Put(service("web"))
	const pods = 250
	for i := range pods {
		r.Put(pod(fmt.Sprint("p", i), "web", fmt.Sprintf("10.0.%d.%d", i/250, i%250+1), true))
	}
	kittest.Eventually(t, "all pods to be there", func() error {
		n := 0
		for _, s := range registrytest.All[*corev1.EndpointSlice](r) {
			if len(s.GetEndpoints()) > 100 {
				t.Fatalf("a slice has %d endpoints", len(s.GetEndpoints()))
			}
			n += len(s.GetEndpoints())
		}
		if n != pods {
			return fmt.Errorf("%d endpoints", n)
		}
		return nil
	})
}
