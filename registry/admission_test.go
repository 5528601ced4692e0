package registry_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	corev1 "portolan.dev/api/core/v1"
	registryv1 "portolan.dev/api/registry/v1"
	"portolan.dev/services/kit/apierr"
	"portolan.dev/services/object"
	"portolan.dev/services/spec"
)

// fields returns the fields of an error's violations, sorted.
func fields(err error) []string {
	var names []string
	for _, violation := range apierr.ViolationsOf(err) {
		names = append(names, violation.Field)
	}
	slices.Sort(names)
	return names
}

func TestRulesBeyondTheObject(t *testing.T) {
	_, r := run(t)
	if _, err := r.nodes.CreateNode(within(t), &registryv1.CreateNodeRequest{Node: &corev1.Node{Metadata: &corev1.ObjectMeta{Name: "n1"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.nodes.UpdateNodeStatus(within(t), &registryv1.UpdateNodeStatusRequest{Node: &corev1.Node{
		Metadata: &corev1.ObjectMeta{Name: "n1"},
		Status: &corev1.NodeStatus{Addresses: []*corev1.NodeAddress{
			{Type: "InternalIP", Address: "192.0.2.10"}, {Type: "Hostname", Address: "n1"},
		}},
	}}); err != nil {
		t.Fatal(err)
	}
	vip := r.create(t, web("vip")).GetSpec().GetClusterIp()
	slice := func(addresses ...string) *corev1.Object {
		return object.Wrap(&corev1.EndpointSlice{
			Metadata: &corev1.ObjectMeta{Name: "s"}, AddressType: corev1.AddressType_ADDRESS_TYPE_IPV4,
			Endpoints: []*corev1.Endpoint{{Addresses: addresses}},
		})
	}
	headless := func(target *corev1.IntOrString, selector map[string]string) *corev1.Object {
		return object.Wrap(web("h", func(s *corev1.Service) {
			s.Spec.ClusterIp, s.Spec.Selector = "None", selector
			s.Spec.Ports[0].TargetPort = target
		}))
	}
	external := func(ips ...string) *corev1.Object {
		return object.Wrap(web("e", func(s *corev1.Service) { s.Spec.ExternalIps = ips }))
	}
	for _, test := range []struct {
		name string
		o    *corev1.Object
		want []string
	}{
		{"external IP", external("198.51.100.7"), nil},
		{"external IP outside the operator's ranges", external("203.0.113.9"), []string{"spec.externalIPs[0]"}},
		{"external IP of a node", external("198.51.100.7", "192.0.2.10"), []string{"spec.externalIPs[1]"}},
		{"endpoint", slice("192.0.2.77"), nil},
		{"endpoint on a node's address", slice("192.0.2.10"), nil},
		{"endpoint at a virtual IP", slice("192.0.2.77", vip), []string{"endpoints[0].addresses[1]"}},
		{"legacy endpoint at a virtual IP", object.Wrap(&corev1.Endpoints{Metadata: &corev1.ObjectMeta{Name: "e"}, Subsets: []*corev1.EndpointSubset{{
			Addresses:         []*corev1.EndpointAddress{{Ip: "192.0.2.77"}},
			NotReadyAddresses: []*corev1.EndpointAddress{{Ip: vip}},
			Ports:             []*corev1.EndpointSubsetPort{{Port: 80}},
		}}}), []string{"subsets[0].notReadyAddresses[0].ip"}},
		{"headless by hand, same port", headless(number(80), nil), nil},
		{"headless by hand, other port", headless(number(9376), nil), []string{"spec.ports[0].targetPort"}},
		{"headless with selector, other port", headless(number(9376), map[string]string{"a": "b"}), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := r.apply.Apply(within(t), &registryv1.ApplyRequest{Object: test.o, DryRun: true})
			if got := fields(err); !slices.Equal(got, test.want) || (err != nil) != (test.want != nil) {
				t.Errorf("violations at %v, want %v; %v", got, test.want, err)
			}
		})
	}
}

func TestAllViolationsAtOnce(t *testing.T) {
	_, r := run(t)
	_, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("1bad", func(s *corev1.Service) {
		s.Spec.Ports[0].Port = 70000
		s.Spec.ExternalIps = []string{"127.0.0.1"}
	})})
	if got, want := fields(err), []string{"metadata.name", "spec.externalIPs[0]", "spec.externalIPs[0]", "spec.ports[0].port"}; !slices.Equal(got, want) || apierr.Code(err) != codes.InvalidArgument {
		t.Errorf("violations at %v, want %v; %v", got, want, err)
	}
	annotations := map[string]string{}
	for i := range 1000 {
		annotations[fmt.Sprintf("bad key %d", i)] = ""
	}
	_, err = r.pods.CreatePod(within(t), &registryv1.CreatePodRequest{Pod: &corev1.Pod{Metadata: &corev1.ObjectMeta{Name: "p", Annotations: annotations}}})
	if got := len(fields(err)); got != 101 {
		t.Errorf("%d violations are reported, want 100 and how many more there are", got)
	}
}

func TestNamespaces(t *testing.T) {
	_, r := run(t)
	inside := func(namespace string) error {
		_, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("web", func(s *corev1.Service) { s.Metadata.Namespace = namespace })})
		return err
	}
	if err := inside("missing"); !apierr.IsNotFound(err) {
		t.Errorf("create in a missing namespace: %v", err)
	}
	if _, err := r.namespaces.CreateNamespace(within(t), &registryv1.CreateNamespaceRequest{
		Namespace: &corev1.Namespace{Metadata: &corev1.ObjectMeta{Name: "going", Finalizers: []string{"example.com/wait"}}},
	}); err != nil {
		t.Fatal(err)
	}
	if err := inside("going"); err != nil {
		t.Errorf("create in a namespace: %v", err)
	}
	answer, err := r.namespaces.DeleteNamespace(within(t), &registryv1.DeleteNamespaceRequest{Name: "going"})
	if err != nil || answer.GetNamespace().GetStatus().GetPhase() != corev1.NamespacePhase_NAMESPACE_PHASE_TERMINATING {
		t.Errorf("delete = %v, %v", answer, err)
	}
	if err := inside("going"); !slices.Equal(fields(err), []string{"metadata.namespace"}) {
		t.Errorf("create in a namespace that is being deleted: %v", err)
	}
	if _, err := r.namespaces.DeleteNamespace(within(t), &registryv1.DeleteNamespaceRequest{Name: "default"}); apierr.Code(err) != codes.FailedPrecondition {
		t.Errorf("delete default: %v", err)
	}
}

func TestGeneratedNames(t *testing.T) {
	_, r := run(t)
	seen := map[string]bool{}
	for range 20 {
		svc := r.create(t, web("", func(s *corev1.Service) {
			s.Metadata.GenerateName = "web-"
			s.Spec.ClusterIp = "None"
		}))
		seen[svc.GetMetadata().GetName()] = true
	}
	if len(seen) != 20 {
		t.Errorf("20 services have the names %v", seen)
	}
	long := "a-prefix-that-is-so-long-that-nothing-could-be-appended-to-it-really"
	svc := r.create(t, web("", func(s *corev1.Service) { s.Metadata.GenerateName, s.Spec.ClusterIp = long, "None" }))
	if n := len(svc.GetMetadata().GetName()); n != 63 {
		t.Errorf("the name %q has %d letters", svc.GetMetadata().GetName(), n)
	}
}

func TestFinalizers(t *testing.T) {
	_, r := run(t)
	r.create(t, web("held", func(s *corev1.Service) { s.Metadata.Finalizers = []string{"example.com/cleanup"} }))
	deleted, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "held"})
	if err != nil || deleted.GetService().GetMetadata().GetDeletionTimestamp() == nil {
		t.Fatalf("delete = %v, %v; want it marked", deleted, err)
	}
	again, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "held"})
	if err != nil || !again.GetService().EqualVT(deleted.GetService()) {
		t.Errorf("delete again = %v, %v; want nothing to change", again, err)
	}
	marked := deleted.GetService()
	added := marked.CloneVT()
	added.Metadata.Finalizers = append(added.Metadata.Finalizers, "example.com/late")
	if _, err := r.services.UpdateService(within(t), &registryv1.UpdateServiceRequest{Service: added}); !slices.Equal(fields(err), []string{"metadata.finalizers[1]"}) {
		t.Errorf("a finalizer was added to an object that is being deleted: %v", err)
	}
	marked.Metadata.Finalizers = nil
	r.update(t, marked)
	if _, err := r.services.GetService(within(t), &registryv1.GetServiceRequest{Name: "held"}); !apierr.IsNotFound(err) {
		t.Errorf("the object is still there without its finalizer: %v", err)
	}
}

func TestDeletePreconditions(t *testing.T) {
	_, r := run(t)
	svc := r.create(t, web("web"))
	meta := svc.GetMetadata()
	for name, req := range map[string]*registryv1.DeleteServiceRequest{
		"other incarnation": {Name: "web", Uid: "another"},
		"other version":     {Name: "web", ResourceVersion: meta.GetResourceVersion() - 1},
	} {
		if _, err := r.services.DeleteService(within(t), req); !apierr.IsConflict(err) {
			t.Errorf("%s: %v, want a conflict", name, err)
		}
	}
	if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "web", DryRun: true}); err != nil {
		t.Errorf("dry run: %v", err)
	}
	if _, err := r.services.DeleteService(within(t), &registryv1.DeleteServiceRequest{Name: "web", Uid: meta.GetUid(), ResourceVersion: meta.GetResourceVersion()}); err != nil {
		t.Errorf("delete as seen: %v", err)
	}
}

func TestPodsHaveTimeToEnd(t *testing.T) {
	_, r := run(t)
	seconds := int64(7)
	r.runningPod(t, "p", seconds)
	before := time.Now()
	answer, err := r.pods.DeletePod(within(t), &registryv1.DeletePodRequest{Name: "p"})
	if err != nil || answer.GetPod().GetMetadata().GetDeletionGracePeriodSeconds() != seconds {
		t.Errorf("delete = %v, %v", answer, err)
	}
	if ends := answer.GetPod().GetMetadata().GetDeletionTimestamp().AsTime(); ends.Before(before.Add(6*time.Second)) || ends.After(time.Now().Add(7*time.Second)) {
		t.Errorf("the pod ends at %s, asked at %s with %d s of grace", ends, before, seconds)
	}
	status := answer.GetPod()
	status.Status.Conditions = []*corev1.Condition{{Type: "Ready", Status: corev1.ConditionStatus_CONDITION_STATUS_TRUE}}
	if _, err := r.pods.UpdatePodStatus(within(t), &registryv1.UpdatePodStatusRequest{Pod: status}); err != nil {
		t.Fatal(err)
	}
	again, err := r.pods.DeletePod(within(t), &registryv1.DeletePodRequest{Name: "p", GracePeriodSeconds: new(int64(60))})
	if err != nil || again.GetPod().GetMetadata().GetDeletionGracePeriodSeconds() != seconds {
		t.Errorf("the grace was prolonged: %v, %v", again, err)
	}
	if again, err = r.pods.DeletePod(within(t), &registryv1.DeletePodRequest{Name: "p", GracePeriodSeconds: new(int64(5))}); err != nil ||
		again.GetPod().GetMetadata().GetDeletionGracePeriodSeconds() != 5 {
		t.Errorf("the grace was not shortened: %v, %v", again, err)
	}
	if _, err := r.pods.DeletePod(within(t), &registryv1.DeletePodRequest{Name: "p", GracePeriodSeconds: new(int64(-1))}); len(fields(err)) != 1 {
		t.Errorf("a negative grace: %v", err)
	}
	last, err := r.pods.DeletePod(within(t), &registryv1.DeletePodRequest{Name: "p", GracePeriodSeconds: new(int64(0))})
	if err != nil || last.GetPod().GetMetadata().GetDeletionGracePeriodSeconds() != 0 {
		t.Fatalf("the end is answered with %v, %v", last, err)
	}
	if _, err := r.pods.GetPod(within(t), &registryv1.GetPodRequest{Name: "p"}); !apierr.IsNotFound(err) {
		t.Errorf("the owner has confirmed the end, but: %v", err)
	}
}

// TestPodsGoWhenTheirGraceIsOver checks that a pod is removed without a confirmation when its grace
// period ends, also if the registry was not running at that time.
func TestPodsGoWhenTheirGraceIsOver(t *testing.T) {
	i, r := run(t)
	r.runningPod(t, "one", 1)
	r.runningPod(t, "two", 1)
	r.runningPod(t, "held", 1, "example.com/cleanup")
	getPod := func(r *replica, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := r.pods.GetPod(ctx, &registryv1.GetPodRequest{Name: name})
			return err
		}
	}
	for _, name := range []string{"one", "held"} {
		if _, err := r.pods.DeletePod(within(t), &registryv1.DeletePodRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
		if err := getPod(r, name)(within(t)); err != nil {
			t.Errorf("%s went before its grace was over: %v", name, err)
		}
	}
	gone(t, "one", getPod(r, "one"))
	if err := getPod(r, "held")(within(t)); err != nil {
		t.Errorf("a pod went before its finalizer: %v", err)
	}
	if _, err := r.pods.DeletePod(within(t), &registryv1.DeletePodRequest{Name: "two"}); err != nil {
		t.Fatal(err)
	}
	r.stop()
	gone(t, "two", getPod(i.start(), "two"))
}

// TestPodsThatDoNotRunGoAtOnce checks that a pod without an address, or one that has terminated, is
// removed without a grace period.
func TestPodsThatDoNotRunGoAtOnce(t *testing.T) {
	_, r := run(t)
	for _, phase := range []corev1.PodPhase{corev1.PodPhase_POD_PHASE_SUCCEEDED, corev1.PodPhase_POD_PHASE_FAILED, corev1.PodPhase_POD_PHASE_PENDING} {
		pod := r.runningPod(t, "p", 60)
		pod.Status = &corev1.PodStatus{Phase: phase}
		if _, err := r.pods.UpdatePodStatus(within(t), &registryv1.UpdatePodStatusRequest{Pod: pod}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.pods.DeletePod(within(t), &registryv1.DeletePodRequest{Name: "p"}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.pods.GetPod(within(t), &registryv1.GetPodRequest{Name: "p"}); !apierr.IsNotFound(err) {
			t.Errorf("%s: %v", phase, err)
		}
	}
}

// runningPod creates a pod that has an address and the given grace period in seconds.
func (r *replica) runningPod(t *testing.T, name string, grace int64, finalizers ...string) *corev1.Pod {
	t.Helper()
	if _, err := r.pods.CreatePod(within(t), &registryv1.CreatePodRequest{Pod: &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: name, Finalizers: finalizers},
		Spec:     &corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Containers: []*corev1.Container{{Name: "c", Image: "i"}}},
	}}); err != nil {
		t.Fatal(err)
	}
	answer, err := r.pods.UpdatePodStatus(within(t), &registryv1.UpdatePodStatusRequest{Pod: &corev1.Pod{
		Metadata: &corev1.ObjectMeta{Name: name},
		Status:   &corev1.PodStatus{Phase: corev1.PodPhase_POD_PHASE_RUNNING, PodIp: "10.64.0.1", PodIps: []string{"10.64.0.1"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return answer.GetPod()
}

func TestApplyKeepsWhatOthersWrote(t *testing.T) {
	_, r := run(t)
	first, err := r.apply.Apply(within(t), &registryv1.ApplyRequest{Object: object.Wrap(web("web", func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
		s.Metadata.Annotations = map[string]string{"manifest": "1"}
		s.Metadata.Labels = map[string]string{"gone": "soon"}
	}))})
	if err != nil {
		t.Fatal(err)
	}
	svc := first.GetObject().GetService()
	svc.Metadata.Annotations["controller"] = "was here"
	svc.Metadata.Finalizers = []string{"example.com/cleanup"}
	r.update(t, svc)
	answer, err := r.apply.Apply(within(t), &registryv1.ApplyRequest{Object: object.Wrap(web("web", func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
		s.Metadata.Annotations = map[string]string{"manifest": "2"}
	}))})
	if err != nil || answer.GetOutcome() != registryv1.ApplyOutcome_APPLY_OUTCOME_CONFIGURED {
		t.Fatalf("apply = %v, %v", answer, err)
	}
	got := answer.GetObject().GetService()
	meta := got.GetMetadata()
	if meta.GetAnnotations()["controller"] == "" || meta.GetAnnotations()["manifest"] != "2" || len(meta.GetFinalizers()) != 1 || len(meta.GetLabels()) != 0 {
		t.Errorf("metadata = %v", meta)
	}
	if got.GetSpec().GetClusterIp() != svc.GetSpec().GetClusterIp() || got.GetSpec().GetPorts()[0].GetNodePort() != svc.GetSpec().GetPorts()[0].GetNodePort() {
		t.Errorf("allocated values changed: %v", got.GetSpec())
	}
}

// TestApplyRemovesWhatTheManifestNoLongerSays checks that annotations, labels, fields and ports are
// removed if an earlier manifest had them and the new one does not, and that values set by the
// registry or by others stay.
func TestApplyRemovesWhatTheManifestNoLongerSays(t *testing.T) {
	_, r := run(t)
	apply := func(options ...func(*corev1.Service)) (*corev1.Service, registryv1.ApplyOutcome) {
		t.Helper()
		answer, err := r.apply.Apply(within(t), &registryv1.ApplyRequest{Object: object.Wrap(web("web", options...))})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetObject().GetService(), answer.GetOutcome()
	}
	balancer := func(s *corev1.Service) { s.Spec.Type = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER }
	restricted := func(s *corev1.Service) {
		s.Metadata.Annotations = map[string]string{object.AnnotationSourceRanges: "192.0.2.0/24"}
		s.Metadata.Labels = map[string]string{"tier": "front"}
		s.Spec.SessionAffinity = corev1.SessionAffinity_SESSION_AFFINITY_CLIENT_IP
		s.Spec.Ports = append(s.Spec.Ports, &corev1.ServicePort{Name: "metrics", Port: 9090})
	}
	first, _ := apply(balancer, restricted)
	first.Metadata.Labels["owner"], first.Spec.ExternalIps = "team-a", []string{"198.51.100.7"}
	r.update(t, first)

	second, outcome := apply(balancer)
	if outcome != registryv1.ApplyOutcome_APPLY_OUTCOME_CONFIGURED {
		t.Errorf("outcome = %v", outcome)
	}
	if meta := second.GetMetadata(); len(meta.GetAnnotations()) != 0 || !maps.Equal(meta.GetLabels(), map[string]string{"owner": "team-a"}) {
		t.Errorf("annotations %v, labels %v; want those of the manifest gone and the others there", meta.GetAnnotations(), meta.GetLabels())
	}
	if s := second.GetSpec(); len(s.GetPorts()) != 1 || s.GetSessionAffinity() != corev1.SessionAffinity_SESSION_AFFINITY_NONE || len(s.GetExternalIps()) != 1 {
		t.Errorf("spec = %v", s)
	}
	if second.GetSpec().GetPorts()[0].GetNodePort() != first.GetSpec().GetPorts()[0].GetNodePort() {
		t.Errorf("the node port changed: %v, was %v", second.GetSpec().GetPorts(), first.GetSpec().GetPorts())
	}
	if _, outcome = apply(balancer); outcome != registryv1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED {
		t.Errorf("outcome of the same again = %v", outcome)
	}

	apply(balancer, restricted)
	if third, _ := apply(); third.GetSpec().GetType() != corev1.ServiceType_SERVICE_TYPE_CLUSTER_IP || third.GetSpec().GetPorts()[0].GetNodePort() != 0 {
		t.Errorf("as a ClusterIP it is %v", third.GetSpec())
	}
}

// TestNodePortsStayWithoutAllocation checks that a load balancer which stops requesting node ports
// keeps those it has, until a manifest that named one leaves it out.
func TestNodePortsStayWithoutAllocation(t *testing.T) {
	_, r := run(t)
	apply := func(nodePort int32, allocate bool) *corev1.Service {
		t.Helper()
		answer, err := r.apply.Apply(within(t), &registryv1.ApplyRequest{Object: object.Wrap(web("web", func(s *corev1.Service) {
			s.Spec.Type, s.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceType_SERVICE_TYPE_LOAD_BALANCER, &allocate
			s.Spec.Ports[0].NodePort = nodePort
		}))})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetObject().GetService()
	}
	had := apply(0, true).GetSpec().GetPorts()[0].GetNodePort()
	if had == 0 {
		t.Fatal("no node port was allocated")
	}
	if got := apply(0, false).GetSpec().GetPorts()[0].GetNodePort(); got != had {
		t.Errorf("node port = %d, want still %d", got, had)
	}
	apply(had, false)
	if got := apply(0, false).GetSpec().GetPorts()[0].GetNodePort(); got != 0 {
		t.Errorf("node port = %d after it was taken out of the manifest", got)
	}
}

// entryOf returns managed fields of the manager m.
func entryOf(operation, fields, subresource string) *corev1.ManagedFields {
	word, _ := spec.ParseEnum[corev1.ManagedFieldsOperation](operation)
	return &corev1.ManagedFields{
		Manager: "m", Operation: word, ApiVersion: "v1", Subresource: subresource, FieldsV1: []byte(fields), Time: timestamppb.New(time.Unix(1, 0)),
	}
}

// ownersOf returns the entries of an object in the form manager/operation/subresource fields.
func ownersOf(o object.Object) []string {
	var all []string
	for _, e := range o.GetMetadata().GetManagedFields() {
		all = append(all, fmt.Sprintf("%s/%s/%s %s", e.GetManager(), spec.EnumName(e.GetOperation()), e.GetSubresource(), e.GetFieldsV1()))
	}
	return all
}

// TestManagedFieldsOfRequests checks which entries of a request are stored, and that a field with a new
// value is taken from the other managers.
func TestManagedFieldsOfRequests(t *testing.T) {
	_, r := run(t)
	const both, ip = `{"f:spec":{"f:externalIPs":{},"f:type":{}}}`, `{"f:spec":{"f:externalIPs":{}}}`
	svc := r.create(t, web("web", func(s *corev1.Service) {
		s.Metadata.ManagedFields = []*corev1.ManagedFields{entryOf("Update", both, ""), entryOf("Update", both, "status")}
		s.Spec.ExternalIps = []string{"198.51.100.7"}
	}))
	expect := func(when string, want ...string) {
		t.Helper()
		if got := ownersOf(svc); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	expect("create", "m/Update/ "+both)
	version := svc.GetMetadata().GetResourceVersion()
	if svc = r.update(t, svc); svc.GetMetadata().GetResourceVersion() != version {
		t.Error("an update with what was read made a new version")
	}
	svc.Metadata.ManagedFields = []*corev1.ManagedFields{proto.CloneOf(svc.GetMetadata().GetManagedFields()[0])}
	svc.Metadata.ManagedFields[0].Time = timestamppb.Now()
	if svc = r.update(t, svc); svc.GetMetadata().GetResourceVersion() != version {
		t.Error("the time of an entry made a new version")
	}
	svc.Spec.Type = corev1.ServiceType_SERVICE_TYPE_NODE_PORT
	svc = r.update(t, svc)
	expect("what was read, with a change", "m/Update/ "+ip)
	svc.Metadata.ManagedFields = nil
	svc = r.update(t, svc)
	expect("none", "m/Update/ "+ip)
	svc.Metadata.ResourceVersion, svc.Metadata.ManagedFields = 0, []*corev1.ManagedFields{entryOf("Update", both, "")}
	svc = r.update(t, svc)
	expect("without a version", "m/Update/ "+ip)
	svc.Metadata.ManagedFields = []*corev1.ManagedFields{entryOf("Apply", both, ""), entryOf("Update", both, "status")}
	svc = r.update(t, svc)
	expect("others", "m/Apply/ "+both)
	svc.Metadata.ManagedFields = []*corev1.ManagedFields{entryOf("Update", ip, ""), entryOf("Update", ip, "status")}
	written, err := r.services.UpdateServiceStatus(within(t), &registryv1.UpdateServiceStatusRequest{Service: svc})
	if err != nil {
		t.Fatal(err)
	}
	svc = written.GetService()
	expect("status", "m/Apply/ "+both, "m/Update/status "+ip)
	svc.Metadata.ManagedFields = []*corev1.ManagedFields{{}}
	svc = r.update(t, svc)
	expect("the empty entry", "m/Update/status "+ip)
	svc.Metadata.ManagedFields = []*corev1.ManagedFields{entryOf("", "{", "")}
	_, err = r.services.UpdateService(within(t), &registryv1.UpdateServiceRequest{Service: svc})
	if fields := apierr.ViolationsOf(err); len(fields) != 2 || fields[0].Field != "metadata.managedFields[0].operation" || fields[1].Field != "metadata.managedFields[0].fieldsV1" {
		t.Errorf("an invalid entry: %v", err)
	}
}

// TestApplyAmongManagers checks that an apply takes the fields that it changes from other managers with
// a warning, that it removes no field of another manager, and that it reads entries of earlier releases.
func TestApplyAmongManagers(t *testing.T) {
	_, r := run(t)
	svc := r.create(t, web("web", func(s *corev1.Service) {
		s.Metadata.ManagedFields = []*corev1.ManagedFields{
			entryOf("Update", `{"f:metadata":{"f:labels":{"f:a":{},"f:b":{}}}}`, ""),
			{Manager: "apply", Fields: []string{"metadata.labels[b]", "metadata.labels[c]", "metadata.labels[d]"}},
		}
		s.Metadata.Labels = map[string]string{"a": "1", "b": "1", "c": "1", "e": "1"}
	}))
	apply := func() *registryv1.ApplyResponse {
		answer, err := r.apply.Apply(within(t), &registryv1.ApplyRequest{Object: object.Wrap(web("web", func(s *corev1.Service) {
			s.Metadata.Labels = map[string]string{"a": "2"}
		}))})
		if err != nil {
			t.Fatal(err)
		}
		svc = answer.GetObject().GetService()
		return answer
	}
	answer := apply()
	if want := map[string]string{"a": "2", "b": "1", "e": "1"}; !maps.Equal(svc.GetMetadata().GetLabels(), want) {
		t.Errorf("labels %v, want %v", svc.GetMetadata().GetLabels(), want)
	}
	if w := answer.GetWarnings(); len(w) != 1 || !strings.Contains(w[0], `metadata.labels.a: taken from the manager "m"`) {
		t.Errorf("warnings %q", w)
	}
	if got := ownersOf(svc); len(got) != 2 || got[1] != `m/Update/ {"f:metadata":{"f:labels":{"f:b":{}}}}` || !strings.HasPrefix(got[0], `apply/Apply/ {"f:metadata":{"f:labels":{"f:a":{}}},"f:spec"`) {
		t.Errorf("owners %q", got)
	}
	version := svc.GetMetadata().GetResourceVersion()
	if answer := apply(); len(answer.GetWarnings()) != 0 || answer.GetOutcome() != registryv1.ApplyOutcome_APPLY_OUTCOME_UNCHANGED || svc.GetMetadata().GetResourceVersion() != version {
		t.Errorf("again: %v", answer)
	}
}

// TestFirstApply checks the warning for an object that apply did not make.
func TestFirstApply(t *testing.T) {
	_, r := run(t)
	r.create(t, web("web", func(s *corev1.Service) { s.Spec.ExternalIps = []string{"198.51.100.7"} }))
	answer, err := r.apply.Apply(within(t), &registryv1.ApplyRequest{Object: object.Wrap(web("web"))})
	if err != nil || len(answer.GetObject().GetService().GetSpec().GetExternalIps()) != 1 {
		t.Errorf("apply = %v, %v", answer, err)
	}
	if len(answer.GetWarnings()) != 1 || !strings.Contains(answer.GetWarnings()[0], "was not made by apply") {
		t.Errorf("warnings = %q", answer.GetWarnings())
	}
}

func TestDryRunStoresNothing(t *testing.T) {
	i, r := run(t)
	answer, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("web"), DryRun: true})
	if err != nil || answer.GetService().GetSpec().GetClusterIp() == "" || answer.GetService().GetMetadata().GetResourceVersion() != 0 {
		t.Errorf("dry run = %v, %v", answer, err)
	}
	if _, err := r.services.GetService(within(t), &registryv1.GetServiceRequest{Name: "web"}); !apierr.IsNotFound(err) {
		t.Errorf("the dry run stored it: %v", err)
	}
	if n := i.allocator.Used(); n != 0 {
		t.Errorf("the dry run holds %d values", n)
	}
	r.create(t, web("web"))
	if _, err := r.services.CreateService(within(t), &registryv1.CreateServiceRequest{Service: web("web"), DryRun: true}); !apierr.IsAlreadyExists(err) {
		t.Errorf("a dry run of what exists: %v", err)
	}
}
